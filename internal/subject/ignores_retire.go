// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import "github.com/ringproof/ringproof/reference/ring"

// The ring is as it was and rests: nothing but what was asked for tells that
// anything is wrong.
var ignoresRetire = Mutant{
	Name:     "ignores-retire",
	Hazard:   "A planned replacement is taken and never carried out.",
	Source:   "controllers that watch the size and nothing else",
	Check:    "steps",
	Scenario: "replace-planned[victim=follower]",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		spec.Decommission = nil
		return inner(spec, o)
	})),
}
