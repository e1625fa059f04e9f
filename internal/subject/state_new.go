// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
)

// Two of three initial members with empty disks are a quorum of the empty ring that
// the bootstrap record describes, under the very IDs of the old one. etcd guards
// against it only while it can ask a survivor: isMemberBootstrapped refuses
// when a peer lists this ID with client URLs. So the survivor has to be out of
// reach while they start, which is when the list is unreadable for real. When it
// returns its longer log may win the next election, and the writes of the empty
// ring are lost in turn: what the check goes by is what clients were told.
var stateNew = Mutant{
	Name:     "state-new",
	Hazard:   "An initial member with an empty disk starts with --initial-cluster-state=new whenever the member list can't be read.",
	Source:   "etcd#12227; kubermatic etcd-launcher B16, F6",
	Check:    "linearizable",
	Scenario: "majority-disks-lost-survivor-off",
	layer: only(booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		b, initialMember := foundAnew(e)
		if !initialMember {
			return inner(e)
		}
		return b
	})),
}

// foundAnew starts an initial member's machine with an empty disk as it started first,
// whatever was there in between.
func foundAnew(e launcher.Evidence) (b launcher.Boot, initialMember bool) {
	if e.Listed || e.WAL != nil || e.Damaged != "" || e.Identity == nil {
		return b, false
	}
	b = launcher.Boot{Do: launcher.Start, State: launcher.New, Token: e.Identity.Token, Why: "the bootstrap record names this machine"}
	for _, f := range e.Identity.Members {
		b.Cluster = append(b.Cluster, f.Name+"="+f.PeerURL)
		initialMember = initialMember || f.Machine == e.Machine
	}
	return b, initialMember
}
