// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// tally numbers what is reached. It outlives the agents, and all machines have
// the same.
type tally interface {
	// next returns the next number of the series, from 1. Beyond limit any larger
	// one will do; 0 says that it can't tell.
	next(series string, limit int) int
}

// counters is a tally in memory, of a world that is one process.
type counters map[string]int

func (c counters) next(series string, _ int) int {
	c[series]++
	return c[series]
}

// markers is a tally of agents that are processes: each number is a file that
// only one of them can create. They begin with the prefix.
type markers struct {
	prefix string
	given  map[string]int // numbers up to this one are taken
}

func newMarkers(prefix string) *markers { return &markers{prefix: prefix, given: map[string]int{}} }

func (m *markers) next(series string, limit int) int {
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

// readFaults reads the file that the world writes.
func readFaults(file string) (f Faults, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Faults{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	return f, err
}

// writeFaults replaces it at once.
func writeFaults(file string, f Faults) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
