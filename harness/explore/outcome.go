// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"context"

	"github.com/ringproof/ringproof"
)

// Simulate runs one plan in the simulated world, in this process, and judges
// it. An error says that the plan could not be run, not that it failed.
type Simulate func(ctx context.Context, plan ringproof.Plan, o Options) (Outcome, error)

// Options are what is wanted of a run beside its findings.
type Options struct {
	Journal   bool   `json:"journal,omitempty"`   // record every side effect and decision of the subject
	TraceFrom int    `json:"traceFrom,omitempty"` // the first event whose line is wanted; they count from 1
	TraceTo   int    `json:"traceTo,omitempty"`   // the first whose line isn't; 0: no line is
	Keep      string `json:"keep,omitempty"`      // directory to write history and plan into; "": nowhere
}

// MarkEvery is how many events lie between two marks of an outcome.
const MarkEvery = 1024

// Outcome is what a run came to. Two runs of one plan have equal hashes, in
// whatever process.
type Outcome struct {
	Verdict     ringproof.Verdict   `json:"verdict"`
	Findings    []ringproof.Finding `json:"findings"`
	Hash        uint64              `json:"hash,string"` // of the whole trace
	Events      int                 `json:"events"`
	Marks       []uint64            `json:"marks,omitempty"` // the hash after each MarkEvery events
	TraceLines  []string            `json:"traceLines,omitempty"`
	SimSeconds  float64             `json:"simSeconds"`
	WallSeconds float64             `json:"wallSeconds"`
	Tuples      []string            `json:"tuples,omitempty"` // what Tuples says of the history
	Journal     *ringproof.Journal  `json:"journal,omitempty"`
	Reached     []string            `json:"reached,omitempty"` // the mutants on trial whose mistaken code was reached
}

// failing are the findings that say fail.
func (o Outcome) failing() []ringproof.Finding {
	var found []ringproof.Finding
	for _, f := range o.Findings {
		if f.Verdict == ringproof.Fail {
			found = append(found, f)
		}
	}
	return found
}

// fails reports whether a finding has that key.
func (o Outcome) fails(key string) bool {
	for _, f := range o.failing() {
		if Key(f) == key {
			return true
		}
	}
	return false
}

// lean is the outcome without what only the machinery reads.
func (o Outcome) lean() Outcome {
	o.Marks, o.Tuples, o.Journal, o.TraceLines = nil, nil, nil, nil
	return o
}
