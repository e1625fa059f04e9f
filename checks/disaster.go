// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// disaster is the rule outside the envelope: nobody can keep a ring whose
// quorum is lost, but a subject can make it worse. It stops, makes no second
// ring, and keeps the last good copy. Whether it says so is for halts.
var disaster = Check{
	Name:   "disaster",
	Claim:  "With the quorum lost for good the subject stops; it makes no second ring and deletes no last copy.",
	Source: "etcd's disaster recovery guide; etcd-launcher and etcd-manager bootstrap anew over lost quorums",
	Timed:  true,
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if f, bad := second(h); bad && !safely(h.Plan) {
			return f
		}
		since, why := QuorumLost(h)
		if why != "" {
			return unknown("%s", why)
		}
		if f, bad := heedless(h, since); bad {
			return f
		}
		if f, bad := revived(h, since); bad {
			return f
		}
		kept := judgeSurviving(h)
		if kept.Verdict != ringproof.Pass {
			return kept
		}
		return pass("nothing was done after the quorum was lost at %s, and there is no second ring; %s", since, kept.Message)
	},
	suits: inDisaster,
}

// halts is what the one who is called at night goes by.
var halts = Check{
	Name:   "halts",
	Claim:  "With the quorum lost for good the subject halts, and its words name that.",
	Source: "etcd's disaster recovery guide: what is left to do is a person's decision; etcd-manager says it among a hundred other lines",
	Timed:  true,
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		since, why := QuorumLost(h)
		if why != "" {
			return unknown("%s", why)
		}
		said, ok := namesTheDisaster(h, since)
		if !ok {
			return with(fail(since, "expected the subject to halt and name the lost quorum after %s, saw no such halt", since), reasons(h, since)...)
		}
		return with(pass("the subject halted %s after the quorum was lost", said.At.Sub(since)), said.String())
	},
	hears: []ringproof.EventKind{ringproof.EventHalted},
	suits: inDisaster,
}

func inDisaster(p ringproof.Plan) bool { return p.Mode == ringproof.ModeDisaster }

// second finds a second ring, by its own ID or under that of the first.
func second(h *ringproof.History) (ringproof.Finding, bool) {
	if seen := identities(h); len(seen) > 1 {
		return with(fail(seen[1].at, "expected no second ring, saw cluster ID %x beside %x", seen[1].id, seen[0].id), seen[1].who), true
	}
	return forked(h)
}

// QuorumLost returns when the quorum was lost: with the disks of a majority, or else when the
// last fault landed. why tells that it wasn't.
func QuorumLost(h *ringproof.History) (since ringproof.Instant, why string) {
	landed := events(h, ringproof.EventFaultLanded)
	at, lost := fallen(h)
	switch {
	case safely(h.Plan):
		return 0, fmt.Sprintf("the plan isn't in mode %s", ringproof.ModeDisaster)
	case len(landed) == 0:
		return 0, "no fault landed: there was no disaster"
	case !lost:
		return landed[len(landed)-1].At, ""
	case at == ringproof.Forever:
		return 0, "no pod has ended whose claim or volume was deleted: there was no disaster"
	}
	return at, ""
}

// fallen returns when a majority of those who voted before the first loss had lost their
// disks, and whether faults took so many; Forever: they did, and the etcds run on with what
// they have open.
func fallen(h *ringproof.History) (ringproof.Instant, bool) {
	losses := slices.DeleteFunc(newLedger(h).losses, func(e ringproof.Event) bool { return e.Fault == ringproof.FaultDiskSwap })
	if len(losses) == 0 {
		return 0, false
	}
	var before ringproof.Observation
	for _, o := range h.Observations {
		if o.Fresh && o.Until <= losses[0].At {
			before = o
		}
	}
	var lost []ringproof.Instant
	for _, m := range before.Voters() {
		if i := slices.IndexFunc(losses, func(e ringproof.Event) bool { return e.Machine == m.Machine }); i >= 0 {
			lost = append(lost, releasedAt(h, losses[i]))
		}
	}
	slices.Sort(lost)
	spare := len(before.Voters()) - ringproof.Quorum(len(before.Voters()))
	if len(lost) == 0 || len(lost) <= spare {
		return 0, false
	}
	return lost[spare], true
}

// releasedAt is when the disk was lost. With a claim or a volume of a pod's nothing is lost
// before its etcd ends; Forever: it ran on.
func releasedAt(h *ringproof.History, loss ringproof.Event) ringproof.Instant {
	if loss.Fault != ringproof.FaultKubeDelete {
		return loss.At
	}
	for _, e := range events(h, ringproof.EventProcessExited) {
		if e.Machine == loss.Machine && e.At >= loss.At {
			return e.At
		}
	}
	return ringproof.Forever
}

// revived finds an answer that takes a quorum, to who asked after there could be none: of
// three members two start on empty disks, under their IDs as at the bootstrap, and the third
// is told by them what was never written.
func revived(h *ringproof.History, since ringproof.Instant) (ringproof.Finding, bool) {
	if _, lost := fallen(h); !lost {
		return ringproof.Finding{}, false
	}
	for i := range h.Operations {
		if o := &h.Operations[i]; o.Response != nil && withQuorum(o.Request) && o.Call > since.Add(hearsay) {
			return with(fail(o.Return, "expected no answer from a ring that lost its quorum at %s, saw one that takes a quorum", since), operationText(o)), true
		}
	}
	return ringproof.Finding{}, false
}

// namesTheDisaster returns the first halt since the moment that says what is
// wrong. Whoever waits, or halts for another reason, has not seen it.
func namesTheDisaster(h *ringproof.History, since ringproof.Instant) (ringproof.Event, bool) {
	for _, e := range events(h, ringproof.EventHalted) {
		if e.At >= since && namesQuorum(e) {
			return e, true
		}
	}
	return ringproof.Event{}, false
}

// harmless are the actions that a subject may take in a ring without a quorum:
// an etcd whose log is there may always start, and who ends may ask another to lead. A set of
// which nothing else changes looks again what pods it owes: those that come back may bring the
// quorum with them.
var harmless = []string{"launch", "move-leader", "kube annotate statefulset"}

// around are objects of a ring on Kubernetes beside its members: what is made anew, or set right, of
// them takes nothing from who is there.
var around = []string{"service", "secret", "serviceaccount", "role", "rolebinding", "poddisruptionbudget"}

// sparing reports whether the action is one of those.
func sparing(action string) bool {
	words := strings.Fields(action)
	return slices.Contains(harmless, action) ||
		len(words) == 3 && words[0] == "kube" && (words[1] == "create" || words[1] == "replace") && slices.Contains(around, words[2])
}

// heedless finds an action that was begun when the subject had to know: with the
// quorum lost every change makes it worse, or is made on a list that nobody
// confirms.
func heedless(h *ringproof.History, since ringproof.Instant) (ringproof.Finding, bool) {
	for _, e := range events(h, ringproof.EventActionBegun) {
		if e.At > since.Add(hearsay) && !sparing(e.Action) {
			return with(fail(e.At, "expected nothing to be done to a ring that lost its quorum at %s, saw %s begun", since, e.Action), e.String()), true
		}
	}
	return ringproof.Finding{}, false
}
