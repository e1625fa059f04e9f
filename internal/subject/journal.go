// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"fmt"
	"math"

	"github.com/ringproof/ringproof"
)

// Effect is one side effect that an agent came to.
type Effect struct {
	Machine string `json:"machine"`
	Name    string `json:"name"` // one of the forms in package faults: "etcd put", "write disk.json"
	Nth     int    `json:"nth"`  // of the machine's effects of that name: what the phases before and refused count
	Done    int    `json:"done"` // of those that were done: what after and reply-lost count; 0: it failed by itself
	Acts    int    `json:"acts"` // how many different changes had been decided by then, on all machines
}

// Decision is one that an agent's brain came to.
type Decision struct {
	Machine string `json:"machine"`
	Name    string `json:"name"` // DecidesNext or DecidesBoot
	Nth     int    `json:"nth"`  // of the machine's decisions of that name
	Said    string `json:"said"`
	Acts    int    `json:"acts"` // how many different changes had been decided by then, on all machines
}

// Journal is every effect and decision of a run, in the order in which the
// agents came to them: what a sweep may cut, stale or skip. Each is found again
// by its machine, name and number in a fault that is set when the journal begins
// and taken away when it ends: record it with [Probe] in that fault's place.
// Without one it is the whole run. A nil Journal records nothing.
type Journal struct {
	Effects   []Effect
	Decisions []Decision

	reached map[string]int
	gone    int // effects that were forgotten; a note counts them
	acts    int
	acted   string // the change decided last; one that is tried again is no other
	over    bool
}

// Probe is a fault that is set, never fires, and is taken away with the others.
func Probe() ringproof.Fault {
	return ringproof.Fault{Kind: ringproof.FaultAgentCrash, Effect: "etcd defragment", Phase: Before, Nth: math.MaxInt32, Target: "m1"}
}

// Begin forgets what was recorded, so that the numbers count from now on, as a
// fault that is set now counts.
func (j *Journal) Begin() {
	if j != nil {
		*j = Journal{gone: j.gone + len(j.Effects)}
	}
}

// End records nothing more: what comes now can't be hit.
func (j *Journal) End() {
	if j != nil {
		j.over = true
	}
}

// next numbers one more of a kind.
func (j *Journal) next(kind, machine, name string) int {
	if j.reached == nil {
		j.reached = map[string]int{}
	}
	key := kind + "\x00" + machine + "\x00" + name
	j.reached[key]++
	return j.reached[key]
}

// reach records that a machine's agent came to the effect, and returns where.
// An action that is no effect is not recorded.
func (j *Journal) reach(machine, effect string) (note int) {
	if j == nil || j.over || effect == "" {
		return -1
	}
	j.Effects = append(j.Effects, Effect{Machine: machine, Name: effect, Nth: j.next("reached", machine, effect), Acts: j.acts})
	return j.gone + len(j.Effects) - 1
}

// done records that it succeeded. One that was under way when the journal began
// anew is not in it.
func (j *Journal) done(note int) {
	if j == nil || j.over || note < j.gone {
		return
	}
	e := &j.Effects[note-j.gone]
	e.Done = j.next("done", e.Machine, e.Name)
}

// decided records a decision; change tells whether it changes anything.
func (j *Journal) decided(machine, decision string, what fmt.Stringer, change bool) {
	if j == nil || j.over {
		return
	}
	said := what.String()
	j.Decisions = append(j.Decisions, Decision{Machine: machine, Name: decision, Nth: j.next("decided", machine, decision), Said: said, Acts: j.acts})
	if change && said != j.acted {
		j.acts, j.acted = j.acts+1, said
	}
}
