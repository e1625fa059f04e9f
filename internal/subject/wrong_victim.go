// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import "github.com/ringproof/ringproof/reference/ring"

// The scenario has five voters for a reason: at three with one down
// mayRemoveMember refuses (1 stays connected, of a quorum of 2), as
// strict-reconfig-check is the last guard and a good one. At six, once the
// replacement of a lost machine votes, it lets a healthy one go (4 of a
// quorum of 3). The lost entry stays, the healthy machine becomes the spare,
// and the ring replaces its healthy members in turn, for ever.
var wrongVictim = Mutant{
	Name:     "wrong-victim",
	Hazard:   "Another member is removed than the one that was to go: the first in the list that is healthy.",
	Source:   "etcd-manager S5 (a shadowed variable, alive for six years)",
	Check:    "converges",
	Scenario: "machine-lost-at-5",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		d := inner(spec, o)
		if !is(d, ring.Remove) {
			return d
		}
		for _, m := range o.Voters() {
			if m.Serving && m.ID != d.Action.Member {
				a := *d.Action
				a.Member, a.Machine = m.ID, m.Machine
				return act(a)
			}
		}
		return d
	})),
}
