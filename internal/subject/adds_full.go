// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/ring"
)

// A learner that is added under an alarm can't be bound to its disk, and until it is nothing else is done:
// the next voter to be lost, whose removal needs no space, stays.
var addsWhileFull = Mutant{
	Name:     "adds-while-full",
	Hazard:   "A learner is added though no member takes a write, and its record can't be made.",
	Source:   "etcd takes a membership change under NOSPACE: only what is written to the keyspace is refused",
	Check:    "steps",
	Scenario: "alarm-machine-lost",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		roomy := o
		roomy.Alarms = slices.DeleteFunc(slices.Clone(o.Alarms), func(a ring.Alarm) bool { return a.Kind == ring.NoSpace })
		if d := inner(spec, roomy); is(d, ring.AddLearner) {
			return d
		}
		return inner(spec, o)
	})),
}
