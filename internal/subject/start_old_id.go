// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
)

// As with trust-directory etcd takes over the ID that its peers list at this
// peer URL, and nobody who can't tell disks apart removes that ID.
var startOldID = Mutant{
	Name:     "start-old-id",
	Hazard:   "A machine with an empty disk that finds its member in the list starts it, under the ID that has forgotten its votes.",
	Source:   "kubermatic etcd-launcher B1 (M1a); etcd-manager S13c; etcd#2706, #3504, #10254",
	Check:    "no-identity-reuse",
	Scenario: "volume-lost",
	layer: only(both(deciding(blind), booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		if e.WAL != nil || e.Damaged != "" || !e.Listed {
			return inner(e)
		}
		if b, here := resurrect(e, "the member list names this machine"); here {
			return b
		}
		return inner(e)
	}))),
}
