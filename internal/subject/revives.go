// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
)

// The cluster ID stays, so that every member and every client takes it for the ring that
// they know. Of what the lost two alone had confirmed nothing is said any more, and no
// person was asked whether they are lost.
var revives = Mutant{
	Name:     "revives",
	Hazard:   "Who comes back to a ring without a quorum makes its own log that of a ring of one.",
	Source:   "etcd's disaster recovery guide: --force-new-cluster is for a person who knows that the others never come back",
	Check:    "one-cluster-identity",
	Scenario: "majority-disks-lost-survivor-off",
	layer: func() layer {
		alone := false
		l := booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
			b := inner(e)
			alone = b.Do == launcher.Start && b.State == launcher.Resume && !e.Listed
			return b
		})
		l.host = func(h host.Host) host.Host {
			return machine{Host: h, process: forcingProcess{h.Process(), h, &alone}}
		}
		return l
	},
}

type forcingProcess struct {
	host.Process
	host  host.Host
	alone *bool
}

func (p forcingProcess) Start(ctx context.Context, args []string) error {
	if *p.alone {
		reached(p.host)
		args = append(slices.Clip(args), "--force-new-cluster")
	}
	return p.Process.Start(ctx, args)
}
