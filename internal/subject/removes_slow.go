// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// Who was cut off or dead has caught up before it is looked at twice: only one whose
// disk is slow answers, look after look, and is behind in each.
var removesSlow = Mutant{
	Name:     "removes-slow",
	Hazard:   "A voter that answers and stays behind the others is removed, and added anew, as one that is dead.",
	Source:   "health checks of machines that time out on a slow disk, and their remediation (k3s-io/k3s#14479, etcd-io/etcd#7970)",
	Check:    "quorum-margin",
	Scenario: "slow-disk[victim=follower]",
	SimOnly:  "a real etcd catches up at each sync, between two looks",
	layer: func() layer {
		return layer{brain: func(_ host.Host, b auto.Brain) auto.Brain {
			inner, behind := b.Next, map[ring.ID]int{}
			b.Next = func(spec ring.Spec, o ring.Observed) ring.Decision {
				for _, m := range o.Voters() {
					behind[m.ID]++
					if !m.Serving || m.Lag < 20 {
						delete(behind, m.ID)
					}
					if behind[m.ID] >= 5 && !spec.Paused && !m.Leader {
						return decidedOn(o, act(ring.Action{Kind: ring.Remove, Member: m.ID, Machine: m.Machine, Why: "it does not keep up"}))
					}
				}
				return inner(spec, o)
			}
			return b
		}}
	},
}
