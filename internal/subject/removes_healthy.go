// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"
	"time"

	"github.com/ringproof/ringproof/reference/ring"
)

// missed is when etcd itself has noticed that the voter is gone, and refuses.
const missed = 6 * time.Second

// It asks for the wrong member, and etcd refuses: nothing becomes of it, until a
// release or a flag without the guard.
var removesHealthy = Mutant{
	Name:     "removes-healthy",
	Hazard:   "While one of three voters is silent it asks for the removal of another, which etcd refuses.",
	Source:   "etcd's --strict-reconfig-check and the runtime reconfiguration guide: remove the dead member, not a live one",
	Check:    "quorum-margin",
	Scenario: "machine-lost-at-3[victim=follower]",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		voters := o.Voters()
		silent := slices.ContainsFunc(voters, func(m ring.Member) bool { return m.Silent > missed })
		if spec.Paused || !o.Listed || !silent || len(voters) != 3 {
			return inner(spec, o)
		}
		for _, m := range voters {
			if m.Serving && !m.Leader && m.Disk != "" {
				return act(ring.Action{Kind: ring.Remove, Member: m.ID, Machine: m.Machine, Why: "a voter does not answer"})
			}
		}
		return inner(spec, o)
	})),
}
