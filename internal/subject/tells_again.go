// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/ring"
)

// Nothing comes of it but revisions, several a second, and a log of the automation in which
// nobody finds anything else.
var tellsAgain = Mutant{
	Name:     "tells-again",
	Hazard:   "A member that was told to run another release is told so again in every turn until it does.",
	Source:   "controllers that write what they want whether or not it is there: hot loops of updates",
	Check:    "work-bounded",
	Scenario: "upgrade-agent-paused",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		o.Members = slices.Clone(o.Members)
		for i, m := range o.Members {
			if m.Serving && m.Release != m.Version {
				o.Members[i].Release = ""
			}
		}
		return inner(spec, o)
	})),
}
