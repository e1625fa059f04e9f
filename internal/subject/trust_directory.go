// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
)

// The new volume holds etcd's directories and no file. etcd itself asks for
// *.wal files, finds none, and joins with "existing": its peers list this
// machine's peer URL under the old ID, so that is who it becomes. Such a
// subject can't tell one disk from another either, so nobody removes the ID;
// were it removed within a turn, as the reference does, the old ID would be
// gone from the disk before anyone looks. Under the old leader the member dies
// of each heartbeat ("tocommit is out of range"); after an election it serves.
var trustDirectory = Mutant{
	Name:     "trust-directory",
	Hazard:   "A data directory that exists counts as a log: the old ID starts on an empty disk.",
	Source:   "kubermatic etcd-launcher B1 (M1b), F5; etcdadm S13c",
	Check:    "no-identity-reuse",
	Scenario: "volume-lost-directories-left",
	layer:    only(both(booting(trusting), deciding(blind))),
}

func trusting(h host.Host, inner boot, e launcher.Evidence) launcher.Boot {
	exists, err := h.Disk().Exists(launcher.DataDir)
	if err != nil || !exists || e.WAL != nil || e.Damaged != "" || !e.Formed {
		return inner(e)
	}
	if b, here := resurrect(e, "there is a data directory"); here {
		return b
	}
	return inner(e)
}
