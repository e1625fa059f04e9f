// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"time"

	"github.com/ringproof/ringproof/reference/ring"
)

// One voter hangs, with its machine there, and the machine of another is gone for good. Whoever waits for the
// first to come back never looks at the second.
var heedsFirstSilent = Mutant{
	Name:     "heeds-the-first-silent",
	Hazard:   "Of several voters that don't answer only the first is looked at, and what it waits for holds up the replacement of another.",
	Source:   "loops that return at the first member that is not healthy, as etcd-operator's pickOneOldMember and dead-member search do",
	Check:    "steps",
	Scenario: "lost-while-another-hangs[hung=1]",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		quiet := 0
		for _, m := range o.Voters() {
			if m.Serving {
				continue
			}
			if quiet++; quiet == 1 {
				continue
			}
			spec.ReplaceAfter = time.Hour
		}
		return inner(spec, o)
	})),
}
