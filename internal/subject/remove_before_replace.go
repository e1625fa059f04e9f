// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/ring"
)

// At three voters the ring is at two, both needed, until the replacement
// votes. etcd lets it happen: with all three connected for five seconds
// mayRemoveMember counts 2 that stay, of a quorum of 2.
var removeBeforeReplace = Mutant{
	Name:     "remove-before-replace",
	Hazard:   "A planned replacement removes the old member before the new one votes.",
	Source:   "kubermatic etcd-launcher RemoveStaleMember and JoinCluster (F5, B21); etcdadm reset, then join",
	Check:    "quorum-margin",
	Scenario: "replace-planned",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		d := inner(spec, o)
		if !is(d, ring.AddLearner) || len(o.Voters()) < spec.Nodes {
			return d
		}
		for _, m := range o.Voters() {
			if slices.Contains(spec.Decommission, m.Machine) {
				return act(ring.Action{Kind: ring.Remove, Member: m.ID, Machine: m.Machine, Why: "it is decommissioned"})
			}
		}
		return d
	})),
}
