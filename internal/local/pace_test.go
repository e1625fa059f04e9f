// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/sched"
)

func TestOnlyWhatIsMuchIsNoted(t *testing.T) {
	var p pace
	at := func(d time.Duration) ringproof.Instant { return ringproof.Instant(d) }
	p.note(ringproof.Span{From: 0, To: at(beat)}, sched.Little)
	assert.Empty(t, p.all(), "a run waits a little on any host")
	p.note(ringproof.Span{From: at(beat), To: at(2 * beat)}, 3*beat)
	all := p.all()
	require.Len(t, all, 1)
	assert.Equal(t, beat, all[0].Lost.Std(), "never more than there was")
}

// TestWhatALabTellsIsCounted: of those that wait at the same time on several nodes the longest
// counts, and once.
func TestWhatALabTellsIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		began, over := time.Now(), make(chan struct{})
		go p.keep(over, func() ringproof.Instant { return ringproof.Instant(time.Since(began)) }, func() []string { return nil })
		time.Sleep(time.Second + beat/2)
		p.hear(400 * time.Millisecond)
		p.hear(300 * time.Millisecond)
		time.Sleep(5 * time.Second)
		close(over)
		synctest.Wait()
		all := p.all()
		require.Len(t, all, 1)
		assert.Equal(t, 400*time.Millisecond, all[0].Lost.Std())
	})
}

// TestALateTickIsCounted: on a host that stood still for three seconds no process waited
// for a processor, and only the clock tells.
func TestALateTickIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		began, over := time.Now(), make(chan struct{})
		now := func() ringproof.Instant {
			at := time.Since(began)
			if at > time.Second {
				at += 3 * time.Second
			}
			return ringproof.Instant(at)
		}
		go p.keep(over, now, func() []string { return nil })
		time.Sleep(5 * time.Second)
		close(over)
		synctest.Wait()
		all := p.all()
		require.Len(t, all, 1)
		assert.InDelta(t, 3*time.Second, all[0].Lost.Std(), float64(2*tick))
		assert.InDelta(t, time.Second, all[0].From.Sub(0), float64(beat))
	})
}

func TestPressureIsWhatWasWaitedSince(t *testing.T) {
	waited, ok := someWaited("some avg10=0.00 avg60=0.24 avg300=10.60 total=3474805666\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n")
	assert.True(t, ok)
	assert.Equal(t, 3474805666*time.Microsecond, waited)
	for _, text := range []string{"", "full avg10=0.00 avg60=0.00 avg300=0.00 total=7", "some avg10=0.00"} {
		_, ok := someWaited(text)
		assert.False(t, ok, text)
	}
	before := ringproof.Pressure{"io": ringproof.Duration(time.Second)}
	now := ringproof.Pressure{"io": ringproof.Duration(3 * time.Second), "cpu": ringproof.Duration(time.Minute)}
	assert.Equal(t, ringproof.Pressure{"io": ringproof.Duration(2 * time.Second)}, since(before, now), "of what was not known before nobody knows how much it is since")
}
