// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package admin

import (
	"context"
	"encoding/json"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
)

// Grant gets a lease of ttl seconds.
func (r *Ring) Grant(ctx context.Context, ttl int64) (clientv3.LeaseID, error) {
	var id clientv3.LeaseID
	err := r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		lease, err := c.Grant(ctx, ttl)
		if err == nil {
			id = lease.ID
		}
		return err
	})
	return id, err
}

// Renew renews a lease. rpctypes.ErrLeaseNotFound says that it is over.
func (r *Ring) Renew(ctx context.Context, id clientv3.LeaseID) error {
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		_, err := c.KeepAliveOnce(ctx, id)
		return err
	})
}

// Revoke ends a lease and the records that live by it.
func (r *Ring) Revoke(ctx context.Context, id clientv3.LeaseID) error {
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		_, err := c.Revoke(ctx, id)
		return err
	})
}

// Present writes the presence under the lease, unless view shows it there.
func (r *Ring) Present(ctx context.Context, p Presence, view View, lease clientv3.LeaseID) error {
	if shown, ok := view.Presences[p.Machine]; ok && shown.same(p) && view.Leases[p.Machine] == int64(lease) {
		return nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		_, err := c.Put(ctx, machinesPrefix+p.Machine, string(text), clientv3.WithLease(lease))
		return err
	})
}

// Campaign creates the lead's record, if there is none.
func (r *Ring) Campaign(ctx context.Context, lead string, lease clientv3.LeaseID) error {
	absent := clientv3.Compare(clientv3.CreateRevision(LeadKey), "=", 0)
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		_, err := c.Txn(ctx).If(absent).Then(clientv3.OpPut(LeadKey, lead, clientv3.WithLease(lease))).Commit()
		return err
	})
}
