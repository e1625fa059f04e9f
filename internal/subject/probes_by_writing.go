// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
)

// The real agents may write it; the one that was told to change nothing asks in
// the same way.
var probesByWriting = Mutant{
	Name:     "probes-by-writing",
	Hazard:   "Whether the ring is well is found out by a write, in a dry run too.",
	Source:   "health checks that put a key; dry runs that go by a flag at each step, and forget one",
	Check:    "no-trespass",
	Scenario: "dry-run[victim=follower]",
	layer:    only(asking(func(h host.Host, c host.Etcd) host.Etcd { return prober{c, h} })),
}

// prober puts a key before it reads a list.
type prober struct {
	host.Etcd
	host host.Host
}

func (p prober) MemberList(ctx context.Context, opts ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	reached(p.host)
	if _, err := p.Put(ctx, admin.Prefix+"probe", ""); err != nil {
		return nil, err
	}
	return p.Etcd.MemberList(ctx, opts...)
}
