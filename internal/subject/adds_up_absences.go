// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"
	"time"

	"github.com/ringproof/ringproof/reference/ring"
)

// A machine that restarts now and then is gone in the end, though it was never away for long.
var addsUpAbsences = Mutant{
	Name:     "adds-up-absences",
	Hazard:   "How long a machine and its member were away is added up, and not forgotten when they are back.",
	Source:   "counters of failures that no success resets, as of probes and of restarts",
	Check:    "work-bounded",
	Scenario: "comes-and-goes[security=plain]",
	layer: func() layer {
		absent, silent := sums[string]{}, sums[ring.ID]{}
		return deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
			o.Members, o.Machines = slices.Clone(o.Members), slices.Clone(o.Machines)
			for i, x := range o.Machines {
				o.Machines[i].Absent = absent.with(x.Name, x.Absent)
			}
			for i, m := range o.Members {
				o.Members[i].Silent = silent.with(m.ID, m.Silent)
			}
			return inner(spec, o)
		})
	},
}

// sums are how long each was away in all, and this time.
type sums[K comparable] map[K][2]time.Duration

// with adds how long it has been away this time; nothing: it is here.
func (s sums[K]) with(key K, now time.Duration) time.Duration {
	before, last := s[key][0], s[key][1]
	if now < last {
		before += last
	}
	s[key] = [2]time.Duration{before, now}
	if now == 0 {
		return 0
	}
	return before + now
}
