// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"

	"github.com/ringproof/ringproof"
)

var noGhostMembers = Check{
	Name:   "no-ghost-members",
	Claim:  "At the end every entry of the membership has started, runs on a machine that exists, and lists the same members.",
	Source: "kubeadm#1300 and etcd-launcher: entries of dead pods stay in the membership and cost quorum",
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
			if ghost, why := haunts(final, m, all); ghost {
				return with(fail(final.At, "member %s on %s: %s", m.ID, m.Machine, why), "at the end "+shapeText(final))
			}
		}
		return pass("%s, all of one list", shapeText(final))
	},
	suits: safely,
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
	return fmt.Sprintf("%d voters, %d learners, %d serving", len(o.Voters()), len(o.Learners()), serving)
}
