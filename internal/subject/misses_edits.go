// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/ring"
)

// The ring has as many voters as were asked for all the time, so whoever asserts
// that sees nothing: only where they live is wrong.
var missesEdits = Mutant{
	Name:     "misses-edits",
	Hazard:   "A replacement that is asked for while the ring is suspended is never carried out.",
	Source:   "edge-triggered controllers: an event that came while nobody listened is lost",
	Check:    "converges",
	Scenario: "asked-while-suspended",
	layer: func() layer {
		var missed []string
		return deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
			if spec.Paused {
				missed = spec.Decommission
			} else if slices.Equal(spec.Decommission, missed) {
				spec.Decommission = nil
			}
			return inner(spec, o)
		})
	},
}
