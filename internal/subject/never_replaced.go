// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import "github.com/ringproof/ringproof/reference/ring"

// The machine does its part: the launcher won't start an ID whose log is gone.
// Nobody removes that ID, so the machine waits for ever, and the ring with it.
var neverReplaced = Mutant{
	Name:     "never-replaced",
	Hazard:   "A member whose disk is lost is waited for, for ever.",
	Source:   "etcd-manager S8 (kops#9264, #6392)",
	Check:    "converges",
	Scenario: "volume-lost",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		d := inner(spec, o)
		if !is(d, ring.Remove) {
			return d
		}
		if m, in := memberOf(o, d.Action.Member); in && otherDisk(o, m) {
			return wait("member " + m.String() + " is expected back")
		}
		return d
	})),
}
