// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
)

// A port that answers is no member: of three voters one is gone, and counted on.
var countsStrangers = Mutant{
	Name:     "counts-strangers",
	Hazard:   "Whoever answers at a member's address is taken for that member, and for one that serves.",
	Source:   "health by a probe of an address: TCP checks, /health behind a load balancer, addresses that are given again",
	Check:    "steps",
	Scenario: "wrong-ring-stays[security=plain]",
	layer: func() layer {
		listed := map[string]uint64{}
		return asking(func(h host.Host, c host.Etcd) host.Etcd { return anyMember{&assuming{c, h, listed}} })
	},
}

// anyMember is a client to whom who answers at an address is the member that is listed there.
type anyMember struct{ *assuming }

func (a anyMember) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	is, err := a.Etcd.Status(ctx, endpoint)
	if id := a.listed[endpoint]; err == nil && id != 0 && is.Header.MemberId != id {
		reached(a.host)
		is.Header.MemberId = id
	}
	return is, err
}
