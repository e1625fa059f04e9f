// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/ring"
)

// Whoever leads next is upgraded next: the leadership moves with each restart, and each
// time clients wait for it.
var upgradesLeaderFirst = Mutant{
	Name:     "upgrades-leader-first",
	Hazard:   "The leader is upgraded before its followers.",
	Source:   "rolling updates by the order of names; StatefulSets, which begin with the last pod, whoever leads",
	Check:    "upgrade-in-order",
	Scenario: "upgrade[size=3]",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		d := inner(spec, o)
		leads := slices.IndexFunc(o.Members, func(m ring.Member) bool { return m.Leader && m.Version != spec.Version })
		if !is(d, ring.Upgrade) || leads < 0 {
			return d
		}
		first := *d.Action
		first.Member, first.Machine = o.Members[leads].ID, o.Members[leads].Machine
		return act(first)
	})),
}
