// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import "github.com/ringproof/ringproof/reference/ring"

// After a volume is lost the machine is there and its member is removed: three
// machines, two voters. By its count nothing is missing.
var countMachines = Mutant{
	Name:     "count-machines",
	Hazard:   "The machines that are present are counted instead of the voters, and a ring that lacks voters is taken for complete.",
	Source:   "etcd-manager S7 (peersMissingFromEtcd is computed and never used); kubermatic etcd-launcher F2, B18",
	Check:    "converges",
	Scenario: "volume-lost",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		present := 0
		for _, m := range o.Machines {
			if m.Present {
				present++
			}
		}
		if d := inner(spec, o); !is(d, ring.AddLearner) || present < spec.Nodes {
			return d
		}
		return wait(ring.Steady)
	})),
}
