// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/ring"
)

// An agent is away for longer than a machine may be, and its etcd serves; then it stands still for a moment.
var goesByMachine = Mutant{
	Name:     "goes-by-the-machine-alone",
	Hazard:   "A voter that doesn't answer is replaced at once where its machine's agent has been away for long.",
	Source:   "two clocks of one absence, of which only the one that is longer is asked",
	Check:    "work-bounded",
	Scenario: "agent-away-etcd-slow[by=4s,victim=follower]",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		o.Members = slices.Clone(o.Members)
		for i, m := range o.Members {
			on := slices.IndexFunc(o.Machines, func(x ring.Machine) bool { return x.Name == m.Machine })
			if on >= 0 && !m.Serving {
				o.Members[i].Silent = max(m.Silent, o.Machines[on].Absent)
			}
		}
		return inner(spec, o)
	})),
}
