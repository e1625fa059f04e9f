// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
)

// gatedEtcd is a client of etcd, whose every change is a point. Reads pass.
type gatedEtcd struct {
	host.Etcd
	injector *injector
}

// request makes one that may change something. etcd without a leader is what
// surely does nothing and says so.
func request[R any](ctx context.Context, g gatedEtcd, effect string, ask func(context.Context) (R, error)) (reply R, err error) {
	err = g.injector.around(ctx, point{effect: effect, refusal: rpctypes.ErrNoLeader}, func(ctx context.Context) (err error) {
		reply, err = ask(ctx)
		return err
	})
	if err != nil {
		var none R
		return none, err
	}
	return reply, nil
}

func (g gatedEtcd) MemberAdd(ctx context.Context, urls []string) (*clientv3.MemberAddResponse, error) {
	return request(ctx, g, "etcd member-add", func(ctx context.Context) (*clientv3.MemberAddResponse, error) { return g.Etcd.MemberAdd(ctx, urls) })
}

func (g gatedEtcd) MemberAddAsLearner(ctx context.Context, urls []string) (*clientv3.MemberAddResponse, error) {
	return request(ctx, g, "etcd member-add", func(ctx context.Context) (*clientv3.MemberAddResponse, error) {
		return g.Etcd.MemberAddAsLearner(ctx, urls)
	})
}

func (g gatedEtcd) MemberRemove(ctx context.Context, id uint64) (*clientv3.MemberRemoveResponse, error) {
	return request(ctx, g, "etcd member-remove", func(ctx context.Context) (*clientv3.MemberRemoveResponse, error) { return g.Etcd.MemberRemove(ctx, id) })
}

func (g gatedEtcd) MemberPromote(ctx context.Context, id uint64) (*clientv3.MemberPromoteResponse, error) {
	return request(ctx, g, "etcd member-promote", func(ctx context.Context) (*clientv3.MemberPromoteResponse, error) {
		return g.Etcd.MemberPromote(ctx, id)
	})
}

func (g gatedEtcd) MemberUpdate(ctx context.Context, id uint64, urls []string) (*clientv3.MemberUpdateResponse, error) {
	return request(ctx, g, "etcd member-update", func(ctx context.Context) (*clientv3.MemberUpdateResponse, error) {
		return g.Etcd.MemberUpdate(ctx, id, urls)
	})
}

func (g gatedEtcd) MoveLeader(ctx context.Context, to uint64) (*clientv3.MoveLeaderResponse, error) {
	return request(ctx, g, "etcd move-leader", func(ctx context.Context) (*clientv3.MoveLeaderResponse, error) { return g.Etcd.MoveLeader(ctx, to) })
}

func (g gatedEtcd) Put(ctx context.Context, key, value string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	return request(ctx, g, "etcd put", func(ctx context.Context) (*clientv3.PutResponse, error) { return g.Etcd.Put(ctx, key, value, opts...) })
}

func (g gatedEtcd) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	return request(ctx, g, "etcd delete", func(ctx context.Context) (*clientv3.DeleteResponse, error) { return g.Etcd.Delete(ctx, key, opts...) })
}

func (g gatedEtcd) Compact(ctx context.Context, revision int64, opts ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	return request(ctx, g, "etcd compact", func(ctx context.Context) (*clientv3.CompactResponse, error) {
		return g.Etcd.Compact(ctx, revision, opts...)
	})
}

func (g gatedEtcd) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	ask := func(ctx context.Context) (clientv3.OpResponse, error) { return g.Etcd.Do(ctx, op) }
	switch {
	case op.IsPut():
		return request(ctx, g, "etcd put", ask)
	case op.IsDelete():
		return request(ctx, g, "etcd delete", ask)
	case writes(op):
		return request(ctx, g, "etcd txn", ask)
	}
	return ask(ctx)
}

func (g gatedEtcd) Txn(ctx context.Context) clientv3.Txn {
	return &gatedTxn{ctx: ctx, etcd: g}
}

func (g gatedEtcd) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	return request(ctx, g, "etcd grant", func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) { return g.Etcd.Grant(ctx, ttl) })
}

func (g gatedEtcd) Revoke(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	return request(ctx, g, "etcd revoke", func(ctx context.Context) (*clientv3.LeaseRevokeResponse, error) { return g.Etcd.Revoke(ctx, id) })
}

func (g gatedEtcd) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	return request(ctx, g, "etcd keep-alive", func(ctx context.Context) (*clientv3.LeaseKeepAliveResponse, error) {
		return g.Etcd.KeepAliveOnce(ctx, id)
	})
}

// KeepAlive is one point, where it begins: the client goes on by itself.
func (g gatedEtcd) KeepAlive(ctx context.Context, id clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	return request(ctx, g, "etcd keep-alive", func(ctx context.Context) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
		return g.Etcd.KeepAlive(ctx, id)
	})
}

func (g gatedEtcd) Defragment(ctx context.Context, endpoint string) (*clientv3.DefragmentResponse, error) {
	return request(ctx, g, "etcd defragment", func(ctx context.Context) (*clientv3.DefragmentResponse, error) {
		return g.Etcd.Defragment(ctx, endpoint)
	})
}

func (g gatedEtcd) AlarmDisarm(ctx context.Context, m *clientv3.AlarmMember) (*clientv3.AlarmResponse, error) {
	return request(ctx, g, "etcd alarm-disarm", func(ctx context.Context) (*clientv3.AlarmResponse, error) { return g.Etcd.AlarmDisarm(ctx, m) })
}

func (g gatedEtcd) Downgrade(ctx context.Context, action clientv3.DowngradeAction, version string) (*clientv3.DowngradeResponse, error) {
	return request(ctx, g, "etcd downgrade", func(ctx context.Context) (*clientv3.DowngradeResponse, error) {
		return g.Etcd.Downgrade(ctx, action, version)
	})
}

// gatedTxn is a transaction that is a point if it may write, whichever way it
// goes: what it does is known by then, what it did is not.
type gatedTxn struct {
	ctx             context.Context
	etcd            gatedEtcd
	conditions      []clientv3.Cmp
	then, otherwise []clientv3.Op
}

func (t *gatedTxn) If(conditions ...clientv3.Cmp) clientv3.Txn {
	t.conditions = append(t.conditions, conditions...)
	return t
}

func (t *gatedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.then = append(t.then, ops...)
	return t
}

func (t *gatedTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.otherwise = append(t.otherwise, ops...)
	return t
}

func (t *gatedTxn) Commit() (*clientv3.TxnResponse, error) {
	if !slices.ContainsFunc(slices.Concat(t.then, t.otherwise), writes) {
		return t.commit(t.ctx)
	}
	return request(t.ctx, t.etcd, "etcd txn", t.commit)
}

func (t *gatedTxn) commit(ctx context.Context) (*clientv3.TxnResponse, error) {
	return t.etcd.Etcd.Txn(ctx).If(t.conditions...).Then(t.then...).Else(t.otherwise...).Commit()
}

func writes(op clientv3.Op) bool {
	if !op.IsTxn() {
		return op.IsPut() || op.IsDelete()
	}
	_, then, otherwise := op.Txn()
	return slices.ContainsFunc(then, writes) || slices.ContainsFunc(otherwise, writes)
}
