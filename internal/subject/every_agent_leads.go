// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"crypto/tls"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
)

// The lead is who wrote the lead's record, and whose lease it lives by: everybody
// believes to have written it, and that it lives by theirs.
var everyAgentLeads = Mutant{
	Name:     "every-agent-leads",
	Hazard:   "What tells the lead from the others is the same for all of them, so that each acts as the lead.",
	Source:   "kubermatic etcd-launcher and etcdadm act on every machine at once",
	Check:    "one-lead",
	Scenario: "replace-planned[victim=follower]",
	layer:    only(layer{host: func(h host.Host) host.Host { return &usurper{Host: h} }}),
}

// usurper is a host whose agent's first nonce, which tells its lives apart, is
// everybody's, and whose agent reads that the lead lives by its own lease.
type usurper struct {
	host.Host
	given bool
	lease clientv3.LeaseID
}

func (u *usurper) Nonce() string {
	if u.given {
		return u.Host.Nonce()
	}
	u.given = true
	reached(u.Host)
	return "0123456789abcdef"
}

func (u *usurper) Dial(endpoint string, secure *tls.Config) (host.Etcd, error) {
	c, err := u.Host.Dial(endpoint, secure)
	if err != nil {
		return nil, err
	}
	return usurped{c, u}, nil
}

// usurped is a client of etcd's of a usurper.
type usurped struct {
	host.Etcd
	by *usurper
}

func (c usurped) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	lease, err := c.Etcd.Grant(ctx, ttl)
	if err == nil {
		c.by.lease = lease.ID
	}
	return lease, err
}

func (c usurped) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	got, err := c.Etcd.Get(ctx, key, opts...)
	if err != nil {
		return nil, err
	}
	read := &clientv3.GetResponse{Header: got.Header, More: got.More, Count: got.Count, Kvs: slices.Clone(got.Kvs)}
	for i, kv := range read.Kvs {
		if string(kv.Key) == admin.LeadKey {
			read.Kvs[i] = &mvccpb.KeyValue{Key: kv.Key, Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Lease: int64(c.by.lease)}
		}
	}
	return read, nil
}
