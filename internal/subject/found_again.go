// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
)

// A new token makes new IDs, so that no survivor's list holds them and etcd's
// isMemberBootstrapped has nothing to refuse. The two with empty disks are a
// quorum of a second ring at the old addresses, beside the last good copy.
var foundAgain = Mutant{
	Name:     "found-again",
	Hazard:   "Initial members that can't reach the ring bootstrap a second one, empty and under a new token.",
	Source:   "etcd-manager S1, S3, S11",
	Check:    "disaster",
	Scenario: "majority-disks-lost",
	layer: only(booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		b, initialMember := foundAnew(e)
		if right := inner(e); !initialMember || right.Do == launcher.Start { // the first bootstrap is as it should be
			return right
		}
		b.Token += "-again"
		return b
	})),
}
