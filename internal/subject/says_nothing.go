// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import "github.com/ringproof/ringproof/reference/ring"

var saysNothing = Mutant{
	Name:     "says-nothing",
	Hazard:   "It stops in a disaster, and its words don't say which.",
	Source:   "etcd-manager: a loop of \"unable to reach quorum of peers\" among a hundred other lines",
	Check:    "halts",
	Scenario: "majority-disks-lost",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		d := inner(spec, o)
		if d.Halt != "" {
			d.Halt = "something is wrong with this ring"
		}
		return d
	})),
}
