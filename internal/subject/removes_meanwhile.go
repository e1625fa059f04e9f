// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/ring"
)

// Of four voters one goes while a learner catches up. Three can spare one as four
// could, so the margin shows nothing; but the learner was added to a ring of four,
// and whoever promotes it next goes by what is no longer so.
var removesMeanwhile = Mutant{
	Name:     "removes-meanwhile",
	Hazard:   "A healthy member that is to go is removed while an added one is still a learner.",
	Source:   "raft thesis 4.1: one change at a time; etcdadm E9",
	Check:    "one-change-at-a-time",
	Scenario: "two-operators",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		voters := o.Voters()
		learns := slices.ContainsFunc(o.Members, func(m ring.Member) bool { return m.Learner && m.Serving })
		if spec.Paused || !o.Listed || !learns || len(voters)%2 == 1 {
			return inner(spec, o)
		}
		for _, m := range voters {
			if m.Serving && !m.Leader && slices.Contains(spec.Decommission, m.Machine) {
				return act(ring.Action{Kind: ring.Remove, Member: m.ID, Machine: m.Machine, Why: "it is decommissioned"})
			}
		}
		return inner(spec, o)
	})),
}
