// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"time"

	"github.com/ringproof/ringproof"
)

// leavesNothing: whoever deletes a ring and makes another of its name meets what is left of the first.
var leavesNothing = Check{
	Name:   "leaves-nothing",
	Claim:  "Of a ring that was deleted for good nothing is left in its namespace, within the time that the plan gives.",
	Source: "Kubernetes' finalizers: an object with one is Terminating until its owner takes that off, so an owner that waits for what never comes keeps it for ever, and its namespace too",
	Timed:  true,
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		switch end := h.Evidence.End; {
		case h.Plan.End == nil || end == nil:
			return unknown("the run was over before the ring was deleted")
		case h.Plan.End.Fault != nil && end.Fault == "" && h.Plan.Assumptions.FaultsFired:
			return unknown("the fault that was to be in force when the ring was deleted never landed")
		case end.Err != "":
			return unknown("what was left of the ring is not known: %s", end.Err)
		case len(end.Left) > 0:
			return with(fail(ringproof.Forever, "expected nothing of a deleted ring to be left within %s, saw %d objects after %s%s", h.Plan.End.Within, len(end.Left),
				end.Took.Std().Round(time.Second), during(end.Fault)), end.Left...)
		default:
			return pass("nothing of the ring was left %s after it was deleted%s", end.Took.Std().Round(100*time.Millisecond), during(end.Fault))
		}
	},
	suits: func(p ringproof.Plan) bool { return p.End != nil },
}

func during(fault string) string {
	if fault == "" {
		return ""
	}
	return ", while " + fault
}
