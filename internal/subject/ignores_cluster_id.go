// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
)

// A list that was read with a quorum says nothing of this ring when it is
// another's.
var ignoresClusterID = Mutant{
	Name:     "ignores-cluster-id",
	Hazard:   "Whoever answers at a member's address is taken for this ring.",
	Source:   "every launcher and controller of the field; ringadm's own first release",
	Check:    "no-trespass",
	Scenario: "wrong-ring[security=plain]",
	layer: func() layer {
		cluster := uint64(0)
		return asking(func(h host.Host, c host.Etcd) host.Etcd { return anyRing{c, h, &cluster} })
	},
}

// anyRing is a client to whom every ring is the one that answered first.
type anyRing struct {
	host.Etcd
	host    host.Host
	cluster *uint64
}

func (a anyRing) MemberList(ctx context.Context, opts ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	list, err := a.Etcd.MemberList(ctx, opts...)
	if err != nil {
		return list, err
	}
	if *a.cluster == 0 {
		*a.cluster = list.Header.ClusterId
	}
	if list.Header.ClusterId != *a.cluster {
		reached(a.host)
		list.Header.ClusterId = *a.cluster
	}
	return list, err
}
