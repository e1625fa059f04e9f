// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/ring"
)

// What doesn't start may be the release, which is the same on every machine.
var replacesUpgraded = Mutant{
	Name:     "replaces-the-upgraded",
	Hazard:   "A member that doesn't come up with another release is replaced, as where its machine is at fault.",
	Source:   "automatic replacement beside rollouts, as of machines by node repair and of pods by readiness",
	Check:    "work-bounded",
	Scenario: "upgrade-fails-for-long[size=3]",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		o.Members = slices.Clone(o.Members)
		for i, m := range o.Members {
			if !m.Serving {
				o.Members[i].Release = "" // who told it to run what is forgotten
			}
		}
		return inner(spec, o)
	})),
}
