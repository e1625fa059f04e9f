// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package seam

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Tally numbers what is reached. It outlives the agents, and all machines have
// the same.
type Tally interface {
	// Next returns the next number of the series, from 1. Beyond limit any larger
	// one will do; 0 says that it can't tell.
	Next(series string, limit int) int
}

// Counters is a tally in memory, of a world that is one process.
type Counters map[string]int

// Next counts on.
func (c Counters) Next(series string, _ int) int {
	c[series]++
	return c[series]
}

// Markers is a tally of agents that are processes: each number is a file that
// only one of them can create. They begin with the prefix.
type Markers struct {
	prefix string
	given  map[string]int // numbers up to this one are taken
}

// NewMarkers is one whose files begin with the prefix.
func NewMarkers(prefix string) *Markers { return &Markers{prefix: prefix, given: map[string]int{}} }

// Next takes the next number that nobody has.
func (m *Markers) Next(series string, limit int) int {
	for m.given[series] < limit {
		n := m.given[series] + 1
		err := claim(fmt.Sprintf("%s%s.%d", m.prefix, series, n))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return 0
		}
		m.given[series] = n
		if err == nil {
			return n
		}
	}
	return limit + 1
}

func claim(marker string) error {
	f, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// ReadFaults reads the file that the world writes.
func ReadFaults(file string) (f Faults, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Faults{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	return f, err
}

// WriteFaults replaces it at once.
func WriteFaults(file string, f Faults) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
