// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/ring"
)

// All members are of v3.6 and in order: what their logs begin with nobody looks at.
var upgradesUnread = Mutant{
	Name:     "upgrades-unread",
	Hazard:   "A member is given a release that can't read its log.",
	Source:   "etcd v3.7 without the v2 API: what v3.5 wrote stays in the log until the next snapshot",
	Check:    "no-panic",
	Scenario: "upgrade-by-minors",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		o.Machines = slices.Clone(o.Machines)
		for i := range o.Machines {
			o.Machines[i].ToldV2, o.Machines[i].V2 = true, 0
		}
		return inner(spec, o)
	})),
}
