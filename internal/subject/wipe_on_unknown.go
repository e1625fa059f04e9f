// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
)

// After a power loss the list can't be read before a quorum runs, so every
// machine in turn throws its log away and waits for a ring to join. Nothing is
// left that could answer: what the check sees is a ring that never returns.
var wipeOnUnknown = Mutant{
	Name:     "wipe-on-unknown",
	Hazard:   "A machine that can't read the member list clears its data and waits to join.",
	Source:   "kubermatic etcd-launcher B21; etcd-manager S1, S16",
	Check:    "converges",
	Scenario: "power-loss[size=3]",
	layer: only(booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		if e.Listed || e.WAL == nil {
			return inner(e)
		}
		return launcher.Boot{Do: launcher.Clear, Why: "the ring does not know this member: " + e.Why}
	})),
}
