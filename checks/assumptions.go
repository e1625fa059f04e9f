// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"strings"

	"github.com/ringproof/ringproof"
)

// assumptions never fails: a run that did no work or no harm proves nothing,
// in either direction. etcd's own nightly robustness tests once ran nothing
// for two weeks and stayed green (etcd#21033).
var assumptions = Check{
	Name:   "assumptions",
	Claim:  "The run meant something: clients were answered often enough, and every fault of the plan did its harm.",
	Source: "etcd#21033: a suite that ran nothing for two weeks was green",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		acked := h.Acked()
		if acked < h.Plan.Assumptions.MinAcked {
			return unknown("expected at least %d acknowledged operations, saw %d of %d",
				h.Plan.Assumptions.MinAcked, acked, len(h.Operations))
		}
		if h.Plan.Assumptions.FaultsFired {
			if missed := faultsMissed(h); len(missed) > 0 {
				return with(unknown("expected every fault to land, %s did not", strings.Join(missed, ", ")), missReasons(h)...)
			}
		}
		return pass("%d acknowledged operations, %d faults landed", acked, len(events(h, ringproof.EventFaultLanded)))
	},
}

func faultsMissed(h *ringproof.History) []string {
	landed := map[string]bool{}
	for _, e := range events(h, ringproof.EventFaultLanded) {
		landed[e.Step] = true
	}
	var missed []string
	for _, s := range h.Plan.Steps {
		if s.Fault != nil && !landed[s.Name] {
			missed = append(missed, s.Name)
		}
	}
	return missed
}

func missReasons(h *ringproof.History) []string {
	var lines []string
	for _, e := range events(h, ringproof.EventFaultMissed, ringproof.EventFaultDowngraded) {
		lines = append(lines, e.String())
	}
	return lines
}
