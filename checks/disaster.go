// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// disaster is the rule outside the envelope: nobody can keep a ring whose
// quorum is lost, but a subject can make it worse. It halts, says why, makes no
// second ring, and keeps the last good copy.
var disaster = Check{
	Name:   "disaster",
	Claim:  "With the quorum lost for good the subject says so and stops; it makes no second ring and deletes no last copy.",
	Source: "etcd's disaster recovery guide; etcd-launcher and etcd-manager bootstrap anew over lost quorums",
	Timed:  true,
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if safely(h.Plan) {
			return unknown("the plan isn't in mode %s", ringproof.ModeDisaster)
		}
		if seen := identities(h); len(seen) > 1 {
			return with(fail(seen[1].at, "expected no second ring, saw cluster ID %x beside %x", seen[1].id, seen[0].id), seen[1].who)
		}
		since, ok := struck(h)
		if !ok {
			return unknown("no fault landed: there was no disaster")
		}
		if f, bad := heedless(h, since); bad {
			return f
		}
		said, ok := namesTheDisaster(h, since)
		if !ok {
			return with(fail(since, "expected the subject to halt and name the lost quorum after %s, saw no such halt", since), reasons(h, since)...)
		}
		kept := judgeSurviving(h)
		if kept.Verdict != ringproof.Pass {
			return kept
		}
		return with(pass("the subject halted %s after the quorum was lost, there is no second ring; %s", said.At.Sub(since), kept.Message), said.String())
	},
	hears: []ringproof.EventKind{ringproof.EventHalted},
	suits: func(p ringproof.Plan) bool { return p.Mode == ringproof.ModeDisaster },
}

// struck returns when the quorum was lost: by the ledger, or else when the last
// fault landed.
func struck(h *ringproof.History) (ringproof.Instant, bool) {
	landed := events(h, ringproof.EventFaultLanded)
	if len(landed) == 0 {
		return 0, false
	}
	for _, b := range h.Evidence.Budget {
		if b.Left < 0 {
			return b.At, true
		}
	}
	return landed[len(landed)-1].At, true
}

// namesTheDisaster returns the first halt since the moment that says what is
// wrong. Whoever waits, or halts for another reason, has not seen it.
func namesTheDisaster(h *ringproof.History, since ringproof.Instant) (ringproof.Event, bool) {
	for _, e := range events(h, ringproof.EventHalted) {
		text := strings.ToLower(e.Text)
		if e.At >= since && (strings.Contains(text, "quorum") || strings.Contains(text, "majority")) {
			return e, true
		}
	}
	return ringproof.Event{}, false
}

// harmless are the actions that a subject may take in a ring without a quorum:
// an etcd whose log is there may always start.
var harmless = []string{"launch"}

// heedless finds an action that was begun when the subject had to know: with the
// quorum lost every change makes it worse, or is made on a list that nobody
// confirms.
func heedless(h *ringproof.History, since ringproof.Instant) (ringproof.Finding, bool) {
	for _, e := range events(h, ringproof.EventActionBegun) {
		if e.At > since.Add(hearsay) && !slices.Contains(harmless, e.Action) {
			return with(fail(e.At, "expected nothing to be done to a ring that lost its quorum at %s, saw %s begun", since, e.Action), e.String()), true
		}
	}
	return ringproof.Finding{}, false
}
