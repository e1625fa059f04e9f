// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"maps"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// Tuples says in which situations the subject acted: what it did, whether the
// ring had a quorum to spare, which faults were in force, and what the ring was
// about. A plan that shows a new one is worth varying. The list is sorted, and
// holds each once.
func Tuples(h *ringproof.History) []string {
	w := walk{h: h, faults: map[string]ringproof.FaultKind{}, phase: "bootstrap", seen: map[string]bool{}}
	for _, e := range h.Events {
		w.event(e)
	}
	return slices.Sorted(maps.Keys(w.seen))
}

// walk goes through the events with what is known at each.
type walk struct {
	h      *ringproof.History
	next   int // observation
	latest ringproof.Observation
	faults map[string]ringproof.FaultKind // by step
	phase  string
	seen   map[string]bool
}

func (w *walk) event(e ringproof.Event) {
	for ; w.next < len(w.h.Observations) && w.h.Observations[w.next].At <= e.At; w.next++ {
		w.latest = w.h.Observations[w.next]
	}
	switch e.Kind {
	case ringproof.EventRingCreated, ringproof.EventMemberPromoted, ringproof.EventMemberRemoved:
		w.phase = "whole"
	case ringproof.EventMemberAdded:
		w.phase = "joining"
	case ringproof.EventHealPhase:
		w.faults = map[string]ringproof.FaultKind{}
	case ringproof.EventFaultLanded:
		w.faults[e.Step] = e.Fault
	case ringproof.EventFaultHealed:
		delete(w.faults, e.Step)
	}
	if what := deed(e); what != "" {
		w.seen[strings.Join([]string{what, health(w.latest), w.inForce(), w.phase}, " | ")] = true
	}
}

// deed is what the subject did; "" when the event isn't its own.
func deed(e ringproof.Event) string {
	switch e.Kind {
	case ringproof.EventActionBegun, ringproof.EventActionDone, ringproof.EventActionFailed:
		return e.Action + " " + strings.TrimPrefix(string(e.Kind), "action-")
	case ringproof.EventBoot:
		how, _, _ := strings.Cut(e.Text, " ")
		return "boot " + strings.Trim(how, ":,")
	case ringproof.EventHalted, ringproof.EventRefused, ringproof.EventWaiting:
		return string(e.Kind)
	}
	return ""
}

// health is how far the ring is from losing its quorum.
func health(o ringproof.Observation) string {
	serving := 0
	for _, m := range o.Voters() {
		if m.Serving {
			serving++
		}
	}
	switch margin := serving - ringproof.Quorum(len(o.Voters())); {
	case serving == 0:
		return "silent"
	case margin < 0:
		return "no quorum"
	case margin == 0:
		return "bare quorum"
	}
	return "quorum to spare"
}

// inForce are the kinds of faults, each once.
func (w *walk) inForce() string {
	var kinds []string
	for _, kind := range w.faults { // order: sorted below
		kinds = append(kinds, string(kind))
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), "+")
}
