// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
)

// A pod whose turn has come is away for some seconds before it serves again.
var adoptsAtOnce = Mutant{
	Name:     "adopts-at-once",
	Hazard:   "Each pod gets its launcher at once, whether those before it serve again or not.",
	Source:   "KKP B7: the readiness that a rollout waits for is not that of the pod which was replaced",
	Check:    "restarts-in-turn",
	Scenario: "kube-enable",
	Undrawn:  offKubernetes,
	layer: func() layer {
		told := map[ring.ID]bool{}
		l := deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
			for _, m := range o.Members {
				if !told[m.ID] && slices.ContainsFunc(o.Machines, func(x ring.Machine) bool { return x.Name == m.Machine && x.Static }) {
					told[m.ID] = true
					d := wait(m.String() + " is to restart with a launcher")
					d.Due = m.ID
					return d
				}
			}
			return inner(spec, o)
		})
		l.kube = deleting // a budget would not let it
		return l
	},
}

// Each of the three waits for a list that the others would give who wait as well.
var distrustsBeginnings = Mutant{
	Name:     "distrusts-beginnings",
	Hazard:   "A log on a disk on which no launcher ever ran waits for the list, also where the ring began so.",
	Source:   "The rule for copied logs (launcher.Decide), without its exception for rings that began without launchers",
	Check:    "converges",
	Scenario: "kube-enable-pods-deleted",
	Undrawn:  offKubernetes,
	layer: only(booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		if e.Identity != nil {
			identity := *e.Identity
			identity.Static = false
			e.Identity = &identity
		}
		return inner(e)
	})),
}
