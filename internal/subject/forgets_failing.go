// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/ring"
)

// Of two spares the first by its name has its turn again as soon as its learner is removed.
var forgetsFailing = Mutant{
	Name:     "forgets-who-failed",
	Hazard:   "A machine on which no etcd started is as good as any other once its learner is removed.",
	Source:   "schedulers that put a pod back on the node on which it has just failed",
	Check:    "work-bounded",
	Scenario: "spare-fails[security=plain]",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		o.Machines = slices.Clone(o.Machines)
		for i, x := range o.Machines {
			if !slices.ContainsFunc(o.Members, func(m ring.Member) bool { return m.Machine == x.Name }) {
				o.Machines[i].Failing = ""
			}
		}
		return inner(spec, o)
	})),
}
