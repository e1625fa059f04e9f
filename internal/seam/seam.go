// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package seam is what faults at a subject's calls are made of, whoever is on trial and
// wherever they are met: what is set there ([Faults]), whose turn it is ([Tally]), and what the
// subject comes to ([Journal]), numbered as the faults count it.
package seam

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

// Faults is what is set at the seams of one machine. For a subject that is processes it is a
// file that the world replaces by a rename and the agent reads at every call; no file is no
// faults.
type Faults struct {
	Set []Setting `json:"set,omitempty"` // in the order of their steps
}

// Setting is what one step of the plan does at the seams.
type Setting struct {
	Step        string           `json:"step"`
	StoreOutage *ringproof.Fault `json:"storeOutage,omitempty"` // which calls to the store fail; nil: none
	StoreStale  bool             `json:"storeStale,omitempty"`  // reads answer as of the moment when this was first seen
	Fault       *ringproof.Fault `json:"fault,omitempty"`       // at an action, effect or decision
	Series      string           `json:"series,omitempty"`      // what Fault counts in
	Machine     string           `json:"machine,omitempty"`     // at whose agent
}

// Of is a step's fault at one machine; "": at all of them. Machines count together unless the
// fault has a target: then each counts for itself.
func Of(s ringproof.Seams, machine string) Setting {
	at := Setting{Step: s.Step, StoreOutage: s.StoreOutage, StoreStale: s.StoreStale, Fault: s.Fault, Series: s.Step, Machine: machine}
	if s.Fault != nil && s.Fault.Target != "" {
		at.Series += "@" + machine
	}
	return at
}

// With puts the setting in the place of what its step set before. One that sets
// nothing takes that away; one without a step takes everything away.
func (f Faults) With(s Setting) Faults {
	if s.Step == "" {
		return Faults{}
	}
	set := slices.DeleteFunc(slices.Clone(f.Set), func(other Setting) bool { return other.Step == s.Step })
	if s.StoreOutage != nil || s.StoreStale || s.Fault != nil {
		set = append(set, s)
	}
	return Faults{Set: set}
}

// Counting is how many faults are set that count.
func (f Faults) Counting() (n int) {
	for _, s := range f.Set {
		if s.Fault != nil {
			n++
		}
	}
	return n
}

// Fires takes a turn of the setting's fault, and reports whether it is the one that it waits
// for. A number is given once, so it fires once.
func (s Setting) Fires(t Tally) bool {
	nth := max(s.Fault.Nth, 1)
	return t.Next(s.Series, nth) == nth
}

// The phases of a cut.
const (
	Before    = "before"     // the subject dies, and nothing was asked
	After     = "after"      // it is done, and the subject dies
	Late      = "late"       // the subject is told that time ran out, and it is done a while later
	ReplyLost = "reply-lost" // it is done, and the subject is told that time ran out
	Refused   = "refused"    // it is not done, and the subject is told an error
	Unseen    = "unseen"     // it is done, and the subject's cache doesn't show it for a while
)

// Early reports whether the cut is made before the call, in whose place.
func (s Setting) Early() bool {
	return s.Fault.Phase == Before || s.Fault.Phase == Refused || s.Fault.Phase == Late
}

// LateWithin is how long what has come late may take.
const LateWithin = 10 * time.Second

// LateBy is how long what is late is on its way.
func (s Setting) LateBy() time.Duration { return s.Fault.Lateness() }

// UnseenFor is how long what was done isn't shown.
func (s Setting) UnseenFor() time.Duration { return cmp.Or(s.Fault.For.Std(), 5*time.Second) }

// Happens tells what the cut does to whoever is on trial: "the agent".
func (s Setting) Happens(who string) string {
	return map[string]string{Before: who + " dies before it", After: "done, and " + who + " dies", ReplyLost: "done, and its reply is lost",
		Late: "done " + s.LateBy().String() + " later, and " + who + " is told that time ran out", Unseen: "done, and the cache doesn't show it", Refused: "not done, and refused"}[s.Fault.Phase]
}

// Probe is a fault that is set at all machines, never fires, and is taken away with the
// others: while it is set a journal is kept.
func Probe() ringproof.Fault {
	return ringproof.Fault{Kind: ringproof.FaultAgentCrash, Effect: "etcd defragment", Phase: Before, Nth: math.MaxInt32}
}

// Probes reports whether the setting is the probe.
func (s Setting) Probes() bool { return s.Fault != nil && s.Fault.Nth == math.MaxInt32 }

// Probe finds the probe, if it is set.
func (f Faults) Probe() (s Setting, set bool) {
	i := slices.IndexFunc(f.Set, Setting.Probes)
	if i < 0 {
		return s, false
	}
	return f.Set[i], true
}
