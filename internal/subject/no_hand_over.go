// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/ring"
)

// etcd itself hands leadership over when it is told to end; a leader that is
// removed does not, and clients wait for an election.
var noHandOver = Mutant{
	Name:     "no-hand-over",
	Hazard:   "The leader is removed without having handed leadership over.",
	Source:   "kubermatic etcd-launcher RemoveStaleMember; etcdadm reset",
	Check:    "available",
	Scenario: "replace-planned[victim=leader]",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		d := inner(spec, o)
		leads := slices.IndexFunc(o.Members, func(m ring.Member) bool { return m.Leader })
		if !is(d, ring.MoveLeader) || leads < 0 {
			return d
		}
		m := o.Members[leads]
		return act(ring.Action{Kind: ring.Remove, Member: m.ID, Machine: m.Machine, Why: "fewer voters are asked for"})
	})),
}
