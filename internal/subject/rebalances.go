// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"
	"time"

	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// Each move is well done, and after each the ring is what was asked for. It never
// comes to rest.
var rebalances = Mutant{
	Name:     "rebalances",
	Hazard:   "A ring in which nothing is to be done has its leadership moved on, again and again.",
	Source:   "balancers without a threshold; Sieve's and Acto's oscillations",
	Check:    "quiescent",
	Scenario: "create[etcd=v3.6.16,size=3]",
	SimOnly:  "no other world waits for half a minute to see whether a ring rests",
	layer: func() layer {
		return layer{brain: func(h host.Host, b auto.Brain) auto.Brain {
			decide, moved := b.Next, h.Now()
			b.Next = func(spec ring.Spec, o ring.Observed) ring.Decision {
				d := decide(spec, o)
				to := slices.IndexFunc(o.Members, func(m ring.Member) bool { return m.Serving && !m.Leader && !m.Learner })
				if d.Wait != ring.Steady || to < 0 || h.Now().Sub(moved) < balancePace {
					return d
				}
				moved = h.Now()
				return decidedOn(o, act(ring.Action{Kind: ring.MoveLeader, Member: o.Members[to].ID, Machine: o.Members[to].Machine, Why: "it is its turn"}))
			}
			return b
		}}
	},
}

const balancePace = 30 * time.Second
