// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import "github.com/ringproof/ringproof/reference/ring"

// A full disk ends etcd for some seconds and takes nothing: the agent is
// there, the disk is there. mayRemoveMember holds a member whose connection is
// down for safe to remove. The leader's death would show it less surely: its
// agent starts it again within the election, and then mayRemoveMember refuses.
var unreachableAbsent = Mutant{
	Name:     "unreachable-absent",
	Hazard:   "A voter that does not answer at the moment is removed at once, though its machine and disk are intact.",
	Source:   "kubermatic etcd-launcher F1, removeDeadMembers; etcd-manager S16 (unreachable taken for none)",
	Check:    "quorum-margin",
	Scenario: "paused[victim=follower]",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		if !o.Listed || spec.Paused {
			return inner(spec, o)
		}
		for _, m := range o.Voters() {
			if m.Started() && !m.Serving && m.Machine != "" {
				return act(ring.Action{Kind: ring.Remove, Member: m.ID, Machine: m.Machine, Why: "it does not answer"})
			}
		}
		return inner(spec, o)
	})),
}
