// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// The first member that doesn't come up is taken for one that will: and the second is
// the one that the quorum was missing.
var upgradesOverSilent = Mutant{
	Name:     "upgrades-over-a-silent-voter",
	Hazard:   "An upgrade goes on over a member that has not come up.",
	Source:   "etcd-manager S15: healthy is who is listed; rollouts that go on after a timeout",
	Check:    "upgrade-in-order",
	Scenario: "upgrade-start-fails[at=after-log]",
	layer: func() layer {
		listed := map[string]uint64{}
		l := asking(func(h host.Host, c host.Etcd) host.Etcd { return &assuming{c, h, listed} })
		l.brain = deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
			o.Members, o.Machines = slices.Clone(o.Members), slices.Clone(o.Machines)
			for i, m := range o.Members {
				if m.Serving && m.Version == "" { // by nobody's word
					o.Members[i].Version = spec.Version
				}
			}
			for i := range o.Machines { // nor by their own
				o.Machines[i].Unsteady = false
			}
			return inner(spec, o)
		}).brain
		return l
	},
}

// assuming takes whoever is listed and doesn't answer for one that serves.
type assuming struct {
	host.Etcd
	host   host.Host
	listed map[string]uint64 // client URL → member
}

func (t *assuming) MemberList(ctx context.Context, opts ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	list, err := t.Etcd.MemberList(ctx, opts...)
	if err == nil {
		for _, m := range list.Members {
			for _, url := range m.ClientURLs {
				t.listed[url] = m.ID
			}
		}
	}
	return list, err
}

func (t *assuming) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	is, err := t.Etcd.Status(ctx, endpoint)
	id := t.listed[endpoint]
	if err == nil || id == 0 {
		return is, err
	}
	reached(t.host)
	return &clientv3.StatusResponse{Header: &etcdserverpb.ResponseHeader{MemberId: id}, Leader: id}, nil
}
