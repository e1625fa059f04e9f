// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"time"

	"github.com/ringproof/ringproof/reference/ring"
)

var criesWolf = Mutant{
	Name:     "cries-wolf",
	Hazard:   "A person is called for a lost quorum at each election.",
	Source:   "etcd-manager: \"unable to reach quorum of peers\" whenever none answers at the first try",
	Check:    "no-false-alarm",
	Scenario: "outage-again[security=plain]",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		if !o.Listed {
			o.Unread = time.Hour
		}
		return inner(spec, o)
	})),
}
