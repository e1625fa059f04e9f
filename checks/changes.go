// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"slices"

	"github.com/ringproof/ringproof"
)

// oneChangeAtATime: a second member added beside an unfinished one makes two
// voters that may both be missing. With three voters, two added and never
// started, the quorum is 3 and all three old ones are needed.
var oneChangeAtATime = Check{
	Name:   "one-change-at-a-time",
	Claim:  "While an added member is neither promoted nor removed, nothing else in the membership changes but the removal of a dead member.",
	Source: "etcd's runtime reconfiguration guide; raft thesis 4.1: single-server changes",
	counts: true,
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if len(h.Evidence.Changes) == 0 {
			return with(unknown("the members' logs were not read: the membership's changes are unknown"), h.Evidence.Unknown...)
		}
		l, c := newLedger(h), newConfig()
		pending := map[ringproof.MemberID]ringproof.ConfChange{}
		n := 0
		for _, change := range h.Evidence.Changes {
			if !c.apply(change) || change.Initial {
				continue
			}
			n++
			if change.Foreign && change.Kind != "remove" {
				continue // whoever added it finishes it, or nobody
			}
			if unfinished, ok := l.unfinished(pending, change); ok && !change.Foreign {
				return with(fail(change.At, "expected %s to be promoted or removed before %s of %s",
					unfinished.Member, change.Kind, change.Member), unfinished.String(), change.String())
			}
			switch change.Kind {
			case "add-learner", "add-voter":
				pending[change.Member] = change
			case "promote", "remove":
				delete(pending, change.Member)
			}
		}
		return pass("%s after the bootstrap, each alone", ringproof.Counted(n, "change"))
	},
}

// unfinished returns an added member that the change doesn't wait for.
func (l *ledger) unfinished(pending map[ringproof.MemberID]ringproof.ConfChange, c ringproof.ConfChange) (ringproof.ConfChange, bool) {
	at := l.seen(c)
	ruined := func(at ringproof.Instant) bool { return l.ruined(c.Member, at) }
	if c.Kind == "remove" && (ruined(at) || l.away(c.Member, at) || slices.ContainsFunc(l.lately(at, hearsay+l.starvedBefore(at, hearsay)), ruined)) {
		return ringproof.ConfChange{}, false
	}
	var found []ringproof.ConfChange
	for member, added := range pending {
		if member != c.Member && !(added.Kind == "add-voter" && l.started(member, at)) {
			found = append(found, added)
		}
	}
	if len(found) == 0 {
		return ringproof.ConfChange{}, false
	}
	return slices.MinFunc(found, func(a, b ringproof.ConfChange) int { return int(a.Index) - int(b.Index) }), true
}

// learnerFirst: a voter that was no learner counts for the quorum before it
// holds anything.
var learnerFirst = Check{
	Name:   "learner-first",
	Claim:  "After the initial members every voter entered as a learner, and became a voter by a promotion in the log.",
	Source: "etcd's learner design; etcd#21694: a learner that votes without having been promoted",
	counts: true,
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if len(h.Evidence.Changes) == 0 {
			return with(unknown("the members' logs were not read: the membership's changes are unknown"), h.Evidence.Unknown...)
		}
		c := newConfig()
		learners, promoted := map[ringproof.MemberID]bool{}, 0
		for _, change := range h.Evidence.Changes {
			if !c.apply(change) || change.Initial || change.Foreign {
				continue
			}
			switch change.Kind {
			case "add-voter":
				return with(fail(change.At, "expected %s to enter as a learner, it entered as a voter", change.Member), change.String())
			case "add-learner":
				learners[change.Member] = true
			case "promote":
				delete(learners, change.Member)
				promoted++
			}
		}
		if f, bad := usurper(h, learners); bad && h.Evidence.Gap == "" { // else an entry may that nobody has read
			return f
		}
		return pass("learners that were promoted: %d, and that were not: %d", promoted, len(learners))
	},
}

// usurper finds a member that was never promoted and is seen to vote.
func usurper(h *ringproof.History, learners map[ringproof.MemberID]bool) (ringproof.Finding, bool) {
	for _, o := range append(slices.Clip(h.Observations), h.Evidence.Final) {
		for _, m := range o.Voters() {
			if learners[m.ID] {
				return fail(o.At, "expected %s to be a learner, as no entry of the log promotes it; saw it as a voter", m.ID), true
			}
		}
	}
	return ringproof.Finding{}, false
}
