// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

var removesAlarmed = Mutant{
	Name:     "removes-alarmed",
	Hazard:   "A member that an alarm is about is replaced at once, as if the alarm were proof, and gone with it.",
	Source:   "etcd's data corruption guide, whose steps for a person are taken by an automation (etcd.io/docs/v3.6/op-guide/data_corruption)",
	Check:    "work-bounded",
	Scenario: "alarm-by-hand[alarm=NOSPACE]",
	layer: func() layer {
		return layer{brain: func(_ host.Host, b auto.Brain) auto.Brain {
			inner := b.Next
			b.Next = func(spec ring.Spec, o ring.Observed) ring.Decision {
				for _, a := range o.Alarms {
					for _, m := range o.Voters() {
						if m.ID == a.Member && !spec.Paused {
							return decidedOn(o, act(ring.Action{Kind: ring.Remove, Member: m.ID, Machine: m.Machine, Why: "alarm " + a.Kind}))
						}
					}
				}
				return inner(spec, o)
			}
			return b
		}}
	},
}
