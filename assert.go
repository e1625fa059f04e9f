// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"fmt"
	"slices"
	"strings"
)

// InitialMembers, where an assert names machines, are those that the ring was bootstrapped on. Of more
// machines than it has members they are the first that came.
const InitialMembers = "founders"

// Assert is a state that the run must reach. Machines are named by their names, m3, by a
// fault's step, which stands for those that it hit, or as [InitialMembers].
type Assert struct {
	Within   Duration `json:"within"`
	Voters   int      `json:"voters"`             // 0: not asked
	Learners *int     `json:"learners,omitempty"` // nil: not asked
	HashKV   string   `json:"hashKV,omitempty"`   // "equal"
	Halted   bool     `json:"halted,omitempty"`   // disaster mode: the subject says that it halts

	Left    *[]string `json:"left,omitempty"`    // these machines had a member and have none, and no others; nil: not asked
	Stayed  *[]string `json:"stayed,omitempty"`  // these machines have the member that they had first; none named: no machine has; nil: not asked
	Leader  string    `json:"leader,omitempty"`  // the member there leads
	Release string    `json:"release,omitempty"` // every member runs this one, "v3.6.16"
	Alarms  *[]string `json:"alarms,omitempty"`  // these stand, "NOSPACE", and no others; nil: not asked
	Said    string    `json:"said,omitempty"`    // a pattern of Go: what the subject said last, waiting or halted, matches it
	Changes *int      `json:"changes,omitempty"` // of the membership, that the subject says it made since the run began; nil: not asked
}

// OfRing reports whether it asks for a state of the ring, and not only of the subject.
func (a Assert) OfRing() bool {
	return a.Voters > 0 || a.Learners != nil || a.HashKV != "" || a.Left != nil || a.Stayed != nil || a.Leader != "" || a.Release != "" || a.Alarms != nil
}

// OfLeaving reports whether it asks for who left or stayed, or how much was changed.
func (a Assert) OfLeaving() bool { return a.Left != nil || a.Stayed != nil || a.Changes != nil }

// Empty reports whether it asks for nothing.
func (a Assert) Empty() bool { return !a.OfRing() && !a.Halted && a.Said == "" && a.Changes == nil }

// Machines are all machines and steps that it names, each by itself.
func (a Assert) Machines() (names []string) {
	if a.Left != nil {
		names = append(names, *a.Left...)
	}
	if a.Stayed != nil {
		names = append(names, *a.Stayed...)
	}
	if a.Leader != "" {
		names = append(names, a.Leader)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == InitialMembers })
}

// Wants are the states in words, as in "expected 3 voters, that m3 leads".
func (a Assert) Wants() (wants []string) {
	want := func(asked bool, format string, args ...any) {
		if asked {
			wants = append(wants, fmt.Sprintf(format, args...))
		}
	}
	want(a.Voters > 0, "%s", Counted(a.Voters, "voter"))
	if a.Learners != nil {
		want(true, "%s", Counted(*a.Learners, "learner"))
	}
	want(a.HashKV == "equal", "equal data everywhere")
	if a.Left != nil {
		want(len(*a.Left) == 0, "that nobody has left")
		want(len(*a.Left) > 0, "that %s and nobody else has left", strings.Join(*a.Left, ", "))
	}
	if a.Stayed != nil {
		want(len(*a.Stayed) == 0, "that no first member is left")
		want(len(*a.Stayed) > 0, "that %s kept the first member", strings.Join(*a.Stayed, ", "))
	}
	want(a.Leader != "", "that %s leads", a.Leader)
	want(a.Release != "", "%s everywhere", a.Release)
	if a.Alarms != nil {
		want(len(*a.Alarms) == 0, "no alarm")
		want(len(*a.Alarms) > 0, "the alarms %s", strings.Join(*a.Alarms, ", "))
	}
	want(a.Halted, "that the subject halts and says so")
	want(a.Said != "", "that it says %q", a.Said)
	if a.Changes != nil {
		want(true, "%s of the membership", Counted(*a.Changes, "change"))
	}
	return wants
}
