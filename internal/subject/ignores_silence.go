// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import "github.com/ringproof/ringproof/reference/ring"

// Whoever suspends the automation is about to do with their own hands what it
// would do beside them.
var ignoresSilence = Mutant{
	Name:     "ignores-silence",
	Hazard:   "A ring that is suspended is changed all the same.",
	Source:   "kubermatic etcd-launcher: pausing the cluster stops the operator and not the launchers",
	Check:    "work-bounded",
	Scenario: "suspended",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		spec.Paused = false
		return inner(spec, o)
	})),
}
