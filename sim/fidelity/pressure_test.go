// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// pressure is for how long somebody on this machine has waited for a processor
// since it was made, by the kernel's account of it (its psi.rst, "some").
type pressure struct {
	at     time.Time
	waited time.Duration
	known  bool
}

func newPressure() pressure {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return pressure{}
	}
	return pressureOf(string(text), time.Now())
}

// pressureOf reads the first line: "some avg10=0.00 avg60=0.00 avg300=0.00 total=N",
// N in microseconds.
func pressureOf(text string, at time.Time) pressure {
	var average float64
	var total int64
	_, err := fmt.Sscanf(text, "some avg10=%f avg60=%f avg300=%f total=%d", &average, &average, &average, &total)
	return pressure{at: at, waited: time.Duration(total) * time.Microsecond, known: err == nil}
}

// short reports whether somebody waited for a third of the time: a ring of three on
// two idle processors waits for a tenth. A kernel without the account can't tell; then
// a script that differs does so.
func (p pressure) short() bool { return p.shortAt(newPressure()) }

func (p pressure) shortAt(now pressure) bool {
	return p.known && now.known && 3*(now.waited-p.waited) > now.at.Sub(p.at)
}

func TestPressure(t *testing.T) {
	line := func(total string) string {
		return "some avg10=86.80 avg60=84.68 avg300=82.57 total=" + total + "\nfull avg10=0.00"
	}
	began := time.Now()
	before := pressureOf(line("5000000"), began)
	for total, short := range map[string]bool{"5000000": false, "6000000": false, "6100000": true, "8000000": true} {
		assert.Equal(t, short, before.shortAt(pressureOf(line(total), began.Add(3*time.Second))), total)
	}
	assert.False(t, before.shortAt(pressureOf("", began.Add(time.Second))), "who can't tell excuses nothing")
	assert.False(t, pressure{}.shortAt(before))
}
