// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

var noGhostMembers = Check{
	Name:   "no-ghost-members",
	Claim:  "At the end every entry of the membership has started, runs on a machine that exists, and lists the same members.",
	Source: "kubeadm#1300 and etcd-launcher: entries of dead pods stay in the membership and cost quorum",
	Timed:  true,
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		final := h.Evidence.Final
		if !final.Fresh || len(final.Members) == 0 {
			return with(unknown("the final membership was not read with quorum"), final.Unknown...)
		}
		var all []ringproof.MemberID
		for _, m := range final.Members {
			all = append(all, m.ID)
		}
		slices.Sort(all)
		for _, m := range final.Members {
			ghost, why := haunts(final, m, all)
			if ghost && excused(h, m) {
				f := starved(h, ringproof.Span{From: final.At, To: final.Until}, "member %s on %s: %s", m.ID, m.Machine, why)
				return with(f, final.Unknown...)
			}
			if ghost {
				return with(fail(final.At, "member %s on %s: %s", m.ID, m.Machine, why), "at the end "+shapeText(final))
			}
		}
		return pass("%s, all of one list", shapeText(final))
	},
	suits: safely,
}

// silence is how long a member may say nothing before it counts as one that
// doesn't serve.
const silence = 3 * time.Second

// excused reports whether the host's starvation explains what the last look shows
// of the member: it gave no answer in time, or hadn't applied a change of the
// membership yet that was made while the others were asked.
func excused(h *ringproof.History, m ringproof.MemberView) bool {
	final := h.Evidence.Final
	asked := ringproof.Span{From: final.At, To: looked(&final)}
	if m.Silent {
		return hasty(h)
	}
	l := newLedger(h)
	return m.Serving && slices.ContainsFunc(h.Evidence.Changes, func(c ringproof.ConfChange) bool {
		made := l.made(c)
		return c.At == ringproof.Forever || !made.Before(asked) && !asked.Before(made)
	})
}

// hasty reports whether the host gave the last look too little time for an answer
// to come.
func hasty(h *ringproof.History) bool {
	asked := ringproof.Span{From: h.Evidence.Final.At, To: looked(&h.Evidence.Final)}
	lost := h.Evidence.Starved.Within(asked)
	return lost > 0 && asked.Length()-lost <= silence
}

func haunts(o ringproof.Observation, m ringproof.MemberView, all []ringproof.MemberID) (bool, string) {
	machine, _ := o.Machine(m.Machine)
	peers := slices.Sorted(slices.Values(m.Peers))
	switch {
	case m.Name == "":
		return true, "expected it to have started, it has no name yet"
	case machine.Lost:
		return true, "expected its machine to exist, it is lost"
	case !m.Serving:
		return true, "expected it to serve, it does not"
	case !slices.Equal(peers, all):
		return true, fmt.Sprintf("expected it to list %s, it lists %s", all, peers)
	}
	return false, ""
}

// shapeText prints "3 voters, 1 learners, 3 serving".
func shapeText(o ringproof.Observation) string {
	serving := 0
	for _, m := range o.Members {
		if m.Serving {
			serving++
		}
	}
	return fmt.Sprintf("%s, %s, %d serving", ringproof.Counted(len(o.Voters()), "voter"), ringproof.Counted(len(o.Learners()), "learner"), serving)
}
