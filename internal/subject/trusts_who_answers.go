// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/ring"
)

// Somebody has removed a member's data with rm -rf, and its etcd answers from the files that it has open.
var trustsWhoAnswers = Mutant{
	Name:     "trusts-who-answers",
	Hazard:   "A voter whose data are gone is left alone for as long as it answers.",
	Source:   "health by an answer alone, as of every probe that asks etcd and looks at no disk",
	Check:    "converges",
	Scenario: "data-removed[leave=identity,victim=follower]",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		o.Machines = slices.Clone(o.Machines)
		for _, m := range o.Members {
			for i, on := range o.Machines {
				if on.Spoiled == m.ID && m.Serving {
					o.Machines[i].Spoiled = 0
				}
			}
		}
		return inner(spec, o)
	})),
}
