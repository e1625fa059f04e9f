// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
)

// The log is whole, its member is in the ring, and both run.
var resumesCopy = Mutant{
	Name:     "resumes-a-copied-log",
	Hazard:   "A machine starts the member whose log is on its disk, wherever that member lives.",
	Source:   "etcd-launcher and etcd-manager: a data directory that holds a log is this machine's",
	Check:    "no-identity-reuse",
	Scenario: "log-copied",
	layer: only(booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		if e.WAL != nil && slices.ContainsFunc(e.Members, func(m ring.Member) bool { return uint64(m.ID) == e.WAL.Member }) {
			e.Listed, e.Strange = false, false
		}
		return inner(e)
	})),
}
