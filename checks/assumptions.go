// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"strings"

	"github.com/ringproof/ringproof"
)

// assumptions never fails: a run without work or without a fault proves nothing,
// in either direction. etcd's own nightly robustness tests once ran nothing
// for two weeks and stayed green (etcd#21033).
var assumptions = Check{
	Name:   "assumptions",
	Claim:  "The run meant something: clients were answered often enough, and every fault of the plan did its fault.",
	Source: "etcd#21033: a suite that ran nothing for two weeks was green",
	Doubts: true,
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		acked := h.Acked()
		if acked < h.Plan.Assumptions.MinAcked {
			return unknown("expected at least %d acknowledged operations, saw %d of %d",
				h.Plan.Assumptions.MinAcked, acked, len(h.Operations))
		}
		if h.Plan.Assumptions.FaultsFired {
			if missed := Missed(h); len(missed) > 0 {
				return with(unknown("expected every fault to land as it is written, %s did not", strings.Join(missed, ", ")), missReasons(h)...)
			}
		}
		landed := events(h, ringproof.EventFaultLanded)
		if acked == 0 && len(landed) == 0 && len(events(h, ringproof.EventStepDone, ringproof.EventRingCreated)) == 0 {
			return unknown("no ring was created, no operation acknowledged, no fault landed and no step done: nothing was tried")
		}
		return pass("%s, %s landed", ringproof.Counted(acked, "acknowledged operation"), ringproof.Counted(len(landed), "fault"))
	},
}

// Missed returns the steps whose fault did not happen as the plan has it: it never
// landed, or not on all that it was aimed at, or a milder one took its place. What such
// a run shows is true, but the scenario that was meant did not take place.
func Missed(h *ringproof.History) []string {
	landed := stepsOf(h, ringproof.EventFaultLanded)
	for _, e := range events(h, ringproof.EventFaultDowngraded, ringproof.EventFaultMissed) {
		delete(landed, e.Step)
	}
	var missed []string
	for _, s := range h.Plan.Steps {
		if s.Fault != nil && !landed[s.Name] {
			missed = append(missed, s.Name)
		}
	}
	return missed
}

// took are the plan's steps without those that its assumptions let go and that
// did not take place: a wrong ring that was never there tempted nobody, and an
// operation that nobody answered was never the subject's to carry out.
func took(h *ringproof.History) (steps []ringproof.Step) {
	landed, missed := stepsOf(h, ringproof.EventFaultLanded), stepsOf(h, ringproof.EventStepMissed)
	for _, s := range h.Plan.Steps {
		switch {
		case s.Fault != nil && !h.Plan.Assumptions.FaultsFired && !landed[s.Name]:
		case s.Fault == nil && !h.Plan.Assumptions.StepsTried && missed[s.Name]:
		default:
			steps = append(steps, s)
		}
	}
	return steps
}

// stepsOf names the steps of which there is an event of the kind.
func stepsOf(h *ringproof.History, kind ringproof.EventKind) map[string]bool {
	named := map[string]bool{}
	for _, e := range events(h, kind) {
		named[e.Step] = true
	}
	return named
}

func missReasons(h *ringproof.History) []string {
	var lines []string
	for _, e := range events(h, ringproof.EventFaultMissed, ringproof.EventFaultDowngraded) {
		lines = append(lines, e.String())
	}
	return lines
}
