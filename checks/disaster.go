// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"github.com/ringproof/ringproof"
)

// disaster is the rule outside the envelope: nobody can keep a ring whose
// quorum is lost, but a subject can make it worse. It halts, says why, makes no
// second ring, and keeps the last good copy.
var disaster = Check{
	Name:   "disaster",
	Claim:  "With the quorum lost for good the subject says so and stops; it makes no second ring and deletes no last copy.",
	Source: "etcd's disaster recovery guide; etcd-launcher and etcd-manager bootstrap anew over lost quorums",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if safely(h.Plan) {
			return unknown("the plan isn't in mode %s", ringproof.ModeDisaster)
		}
		if seen := identities(h); len(seen) > 1 {
			return with(fail(seen[1].at, "expected no second ring, saw cluster ID %x beside %x", seen[1].id, seen[0].id), seen[1].who)
		}
		landed := events(h, ringproof.EventFaultLanded)
		if len(landed) == 0 {
			return unknown("no fault landed: there was no disaster")
		}
		said, ok := lastWords(h, landed[0].At)
		if !ok {
			return fail(landed[len(landed)-1].At, "expected the subject to halt or wait with a reason after the last fault, it said nothing")
		}
		kept := judgeSurviving(h)
		if kept.Verdict == ringproof.Fail {
			return kept
		}
		return with(pass("the subject stopped and said why, there is no second ring; %s", kept.Message), said.String())
	},
	suits: func(p ringproof.Plan) bool { return p.Mode == ringproof.ModeDisaster },
}

// lastWords returns the last halt or wait with a reason since the moment.
func lastWords(h *ringproof.History, since ringproof.Instant) (ringproof.Event, bool) {
	var last ringproof.Event
	for _, e := range events(h, ringproof.EventHalted, ringproof.EventWaiting) {
		if e.At >= since && (e.Text != "" || e.Command != "") {
			last = e
		}
	}
	return last, last.Kind != ""
}
