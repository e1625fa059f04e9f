// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package admin carries out what is decided: every change of the ring as one
// imperative call, the same for the automation and for a person at the command
// line. Each reads the member list before it changes anything, and is done
// when it finds its work done.
package admin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// patience is how long one endpoint may take to answer one request, and changing how long
// where it is to commit a change: on disks that need a fifth of a second for each sync that is
// more than a second, and who gave it up would be told of a failure that is none. A lead looks
// for half as long as its lease lives, and changes for the other half.
const (
	patience = time.Second
	changing = LeaseTTL / 2
)

// Ring reaches the ring through one endpoint after another.
type Ring struct {
	Host   host.Host
	Secure *tls.Config // nil: plain
	// Cluster, when set, is the ring that is asked: the list of another is
	// refused. An address is given to another machine, a record names the wrong
	// one, and a list that was read with a quorum says nothing of this ring.
	Cluster uint64
	// Stranger is the last answer that was refused for being another ring's; nil:
	// none since [Ring.Use].
	Stranger *StrangerError

	endpoints []string
	clients   map[string]host.Etcd
	parsed    parsed
}

// Use sets the endpoints to try, in order of preference.
func (r *Ring) Use(endpoints ...string) {
	r.endpoints, r.Stranger = nil, nil
	for _, e := range endpoints {
		if e != "" && !slices.Contains(r.endpoints, e) {
			r.endpoints = append(r.endpoints, e)
		}
	}
}

// Close closes the clients.
func (r *Ring) Close() {
	for _, endpoint := range slices.Sorted(maps.Keys(r.clients)) {
		r.clients[endpoint].Close()
	}
	r.clients = nil
}

func (r *Ring) client(endpoint string) (host.Etcd, error) {
	if c, ok := r.clients[endpoint]; ok {
		return c, nil
	}
	c, err := r.Host.Dial(endpoint, r.Secure)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", endpoint, err)
	}
	if r.clients == nil {
		r.clients = map[string]host.Etcd{}
	}
	r.clients[endpoint] = c
	return c, nil
}

// ask calls f with a client of one endpoint.
func (r *Ring) ask(ctx context.Context, endpoint string, f func(context.Context, host.Etcd) error) error {
	return r.askFor(ctx, patience, endpoint, f)
}

func (r *Ring) askFor(ctx context.Context, patience time.Duration, endpoint string, f func(context.Context, host.Etcd) error) error {
	c, err := r.client(endpoint)
	if err != nil {
		return err
	}
	ctx, cancel := r.Host.Timeout(ctx, patience)
	defer cancel()
	if err := f(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", endpoint, err)
	}
	return nil
}

// read asks one endpoint after another until one answers; that one is asked
// first from then on.
func (r *Ring) read(ctx context.Context, f func(context.Context, host.Etcd) error) error {
	failures := []error{errors.New("no endpoint answered")}
	for i, endpoint := range r.endpoints {
		err := r.ask(ctx, endpoint, f)
		if err == nil {
			r.endpoints = append([]string{endpoint}, slices.Delete(slices.Clone(r.endpoints), i, i+1)...)
			return nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failures...)
}

// change asks the endpoint that answered last, once. A change whose reply is
// lost may have been made: whoever asked looks at the list again, and nobody
// repeats it blindly elsewhere.
func (r *Ring) change(ctx context.Context, f func(context.Context, host.Etcd) error) error {
	if len(r.endpoints) == 0 {
		return errors.New("no endpoint of the ring is known")
	}
	return r.askFor(ctx, changing, r.endpoints[0], f)
}

// changeUnder is for a change that etcd takes no condition with: it isn't asked for any more once
// another may lead. A lead is stopped for twenty seconds just before it asks for m1's removal; the
// next takes the ring back to the three that it had, and the first goes on.
func (r *Ring) changeUnder(ctx context.Context, lead Fence, f func(context.Context, host.Etcd) error) error {
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		if lead.over(r.Host) {
			return errLedTooLong
		}
		return f(ctx, c)
	})
}

// Settle has the ring commit a write. etcd saves how far it has committed without a sync,
// and syncs it with the next entry: of two members one is removed and forgets its log, the
// other loses power, and comes back to wait for the vote of the first.
func (r *Ring) Settle(ctx context.Context) error {
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		lease, err := c.Grant(ctx, int64(LeaseTTL/time.Second))
		if err != nil {
			return fmt.Errorf("having the ring commit a write: %w", err)
		}
		_, err = c.Revoke(ctx, lease.ID)
		return err
	})
}

// StrangerError refuses what another ring answers.
type StrangerError struct {
	Cluster uint64 // whose answer it is
	Ours    uint64
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("ring %x answers there, and this is ring %x: nothing is read from it and nothing changed in it; mend the address", e.Cluster, e.Ours)
}

// ours refuses the answer of another ring.
func (r *Ring) ours(cluster uint64) error {
	if r.Cluster == 0 || cluster == r.Cluster {
		return nil
	}
	r.Stranger = &StrangerError{Cluster: cluster, Ours: r.Cluster}
	return r.Stranger
}

// List reads the membership with a quorum.
func (r *Ring) List(ctx context.Context) (*clientv3.MemberListResponse, error) {
	var list *clientv3.MemberListResponse
	err := r.read(ctx, func(ctx context.Context, c host.Etcd) (err error) {
		if list, err = c.MemberList(ctx); err == nil {
			err = r.ours(list.Header.GetClusterId())
		}
		return err
	})
	return list, err
}

// Do carries out one action, if the membership is the one that it was decided on
// and the fence holds.
func (r *Ring) Do(ctx context.Context, a ring.Action, f Fence) error {
	holds, err := f.comparisons()
	if err == nil && a.On == nil {
		err = errors.New("refused: it doesn't say which membership it was decided on")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a.Kind, err)
	}
	list, err := r.List(ctx)
	if err != nil {
		return fmt.Errorf("%s: reading the member list first: %w", a.Kind, err)
	}
	if err := r.stillHolds(ctx, a.On, list.Members, holds); err != nil {
		return fmt.Errorf("%s: %w", a.Kind, err)
	}
	if err := r.do(ctx, a, list.Members, f); err != nil {
		return fmt.Errorf("%s: %w", a.Kind, err)
	}
	return nil
}

// stillHolds looks, just before a change, that what it was decided on still
// is. etcd takes no condition with a member change: lead A decides to remove
// m4 of four and is paused; B leads and removes m1; A goes on, and of four two
// are left. Nor is a learner the same that was promoted since.
func (r *Ring) stillHolds(ctx context.Context, decided []ring.Role, members []*etcdserverpb.Member, holds []clientv3.Cmp) error {
	if !slices.Equal(Roles(members), decided) {
		return errors.New("the membership is not the one that this was decided on")
	}
	if len(holds) == 0 { // not the lead's to do
		return nil
	}
	leads := false
	err := r.read(ctx, func(ctx context.Context, c host.Etcd) error {
		held, err := c.Txn(ctx).If(holds...).Commit()
		leads = err == nil && held.Succeeded
		return err
	})
	if err == nil && !leads {
		err = errAnotherLeads
	}
	return err
}

// Roles lists the members' roles, as [ring.Roles] does.
func Roles(members []*etcdserverpb.Member) []ring.Role {
	var all []ring.Member
	for _, m := range members {
		all = append(all, ring.Member{ID: ring.ID(m.ID), Learner: m.IsLearner})
	}
	return ring.Roles(all)
}

func (r *Ring) do(ctx context.Context, a ring.Action, members []*etcdserverpb.Member, f Fence) error {
	switch a.Kind {
	case ring.AddLearner:
		return r.addLearner(ctx, a, members, f)
	case ring.Bind:
		return r.bind(ctx, a, f.holds)
	case ring.Promote:
		return r.promote(ctx, a, members, f)
	case ring.Remove:
		return r.remove(ctx, a, members, f)
	case ring.MoveLeader:
		return r.moveLeader(ctx, a, members, f)
	case ring.Upgrade:
		return r.rewrite(ctx, a, f.holds, func(b *Binding) { b.Release = a.Version })
	case ring.Listen:
		return r.rewrite(ctx, a, f.holds, func(b *Binding) { b.Peers = a.Peers })
	case ring.Update:
		return r.update(ctx, a, members, f)
	case ring.AdvanceLog:
		return r.advanceLog(ctx, a.Entries)
	}
	return fmt.Errorf("there is no such change")
}

// advanceLog adds entries to the ring's log that change nothing, not even the revision: each
// is a transaction that would write on a condition that never holds.
func (r *Ring) advanceLog(ctx context.Context, entries uint64) error {
	never := clientv3.Compare(clientv3.CreateRevision(LeadKey), "<", 0)
	for n := range entries {
		err := r.change(ctx, func(ctx context.Context, c host.Etcd) error {
			_, err := c.Txn(ctx).If(never).Then(clientv3.OpPut(LeadKey, "")).Commit()
			return err
		})
		if err != nil {
			return fmt.Errorf("after %d of %d entries: %w", n, entries, err)
		}
	}
	return nil
}

// addLearner is done when a learner that has not started is at the peer URL:
// an earlier request's reply was lost.
func (r *Ring) addLearner(ctx context.Context, a ring.Action, members []*etcdserverpb.Member, f Fence) error {
	for _, m := range members {
		if slices.Contains(m.PeerURLs, a.PeerURL) {
			if m.IsLearner && m.Name == "" {
				return nil
			}
			return fmt.Errorf("%s is the peer URL of member %x already; remove that one first", a.PeerURL, m.ID)
		}
	}
	return r.changeUnder(ctx, f, func(ctx context.Context, c host.Etcd) error {
		_, err := c.MemberAddAsLearner(ctx, []string{a.PeerURL})
		return err
	})
}

// bind records on which disk a member may start. The first record wins: two
// disks for one ID is what it is there to prevent.
func (r *Ring) bind(ctx context.Context, a ring.Action, holds []clientv3.Cmp) error {
	key := memberKey(a.Member)
	value, err := json.Marshal(Binding{Machine: a.Machine, Disk: a.Disk, Release: a.Version, Peers: a.Peers, Learner: slices.Contains(a.On, ring.Role{ID: a.Member, Learner: true})})
	if err != nil {
		return err
	}
	absent := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		done, err := c.Txn(ctx).If(append([]clientv3.Cmp{absent}, holds...)...).
			Then(clientv3.OpPut(key, string(value))).Else(clientv3.OpGet(key)).Commit()
		if err != nil || done.Succeeded {
			return err
		}
		kvs := done.Responses[0].GetResponseRange().Kvs
		switch {
		case len(kvs) == 0:
			return errAnotherLeads
		}
		var is Binding
		switch bad := json.Unmarshal(kvs[0].Value, &is); {
		case bad == nil && is.Machine == a.Machine && is.Disk == a.Disk:
			return nil
		case bad == nil:
			return fmt.Errorf("member %s is bound to %s already", a.Member, kvs[0].Value)
		}
		nonsense := clientv3.Compare(clientv3.ModRevision(key), "=", kvs[0].ModRevision)
		_, err = c.Txn(ctx).If(append([]clientv3.Cmp{nonsense}, holds...)...).Then(clientv3.OpPut(key, string(value))).Commit()
		return err
	})
}

// rewrite writes in the member's record how it is to run. Its machine reads it, and
// restarts its etcd.
func (r *Ring) rewrite(ctx context.Context, a ring.Action, holds []clientv3.Cmp, change func(*Binding)) error {
	key := memberKey(a.Member)
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		is, err := c.Get(ctx, key)
		if err != nil {
			return err
		}
		var b Binding
		if len(is.Kvs) == 0 || json.Unmarshal(is.Kvs[0].Value, &b) != nil {
			return fmt.Errorf("member %s is bound to no disk, so no machine would restart it", a.Member)
		}
		change(&b)
		value, err := json.Marshal(b)
		if err != nil {
			return err
		}
		same := clientv3.Compare(clientv3.ModRevision(key), "=", is.Kvs[0].ModRevision)
		done, err := c.Txn(ctx).If(append([]clientv3.Cmp{same}, holds...)...).Then(clientv3.OpPut(key, string(value))).Commit()
		if err == nil && !done.Succeeded {
			err = errors.New("its record was written meanwhile, or another machine leads the automation now")
		}
		return err
	})
}

// update is done when the member is listed at the URL. A learner keeps its URL: releases
// of etcd make a voter of one whose URL is changed (etcd#21694).
func (r *Ring) update(ctx context.Context, a ring.Action, members []*etcdserverpb.Member, f Fence) error {
	m, err := find(members, a.Member)
	switch {
	case err != nil:
		return err
	case m.IsLearner:
		return fmt.Errorf("member %s is a learner, and etcd may make a voter of it whose URL is changed: promote it first", a.Member)
	case slices.Equal(m.PeerURLs, []string{a.PeerURL}):
		return nil
	}
	return r.changeUnder(ctx, f, func(ctx context.Context, c host.Etcd) error {
		_, err := c.MemberUpdate(ctx, m.ID, []string{a.PeerURL})
		return err
	})
}

func (r *Ring) promote(ctx context.Context, a ring.Action, members []*etcdserverpb.Member, f Fence) error {
	m, err := find(members, a.Member)
	if err != nil || !m.IsLearner {
		return err
	}
	return r.changeUnder(ctx, f, func(ctx context.Context, c host.Etcd) error {
		_, err := c.MemberPromote(ctx, m.ID)
		return err
	})
}

// remove is done when the member is not in the list.
func (r *Ring) remove(ctx context.Context, a ring.Action, members []*etcdserverpb.Member, f Fence) error {
	m, err := find(members, a.Member)
	if err != nil {
		return nil
	}
	noted, err := r.noteLeaving(ctx, a, f.holds)
	if err != nil {
		return err
	}
	r.leaveAside(ctx, m)
	err = r.changeUnder(ctx, f, func(ctx context.Context, c host.Etcd) error {
		_, err := c.MemberRemove(ctx, uint64(a.Member))
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil
		}
		return err
	})
	if err == nil {
		// etcd's database says that the member has left a tenth of a second after, and its log that the
		// removal is committed with the next entry. Killed in between, the last of a ring that becomes one of
		// one asks for the votes of those whom it turns away (IsIDRemoved in rafthttp), for good.
		_ = r.Settle(ctx)
	}
	if refused(err) {
		_ = r.takeBack(ctx, a.Member, noted, f.holds) // else who leads does, once the ring is steady
	}
	return err
}

// refused reports whether etcd has not made the removal, and won't: it looks at these before
// it proposes it (mayRemoveMember in etcdserver/server.go). After any other error it may come.
func refused(err error) bool {
	return errors.Is(err, rpctypes.ErrUnhealthy) || errors.Is(err, rpctypes.ErrMemberNotEnoughStarted)
}

// leaveAside has another member asked next, if one answers: who removes itself may end before
// it has said so, and the removal is told as failed.
func (r *Ring) leaveAside(ctx context.Context, m *etcdserverpb.Member) {
	own := func(endpoint string) bool { return slices.Contains(m.ClientURLs, endpoint) }
	if len(r.endpoints) == 0 || !own(r.endpoints[0]) {
		return
	}
	its := slices.DeleteFunc(slices.Clone(r.endpoints), func(endpoint string) bool { return !own(endpoint) })
	others := slices.DeleteFunc(slices.Clone(r.endpoints), own)
	r.endpoints = others
	if r.read(ctx, func(ctx context.Context, c host.Etcd) error { _, err := c.MemberList(ctx); return err }) != nil {
		r.endpoints = append(its, others...)
		return
	}
	r.endpoints = append(r.endpoints, its...) // after the one that answered
}

// moveLeader must be asked of the leader itself.
func (r *Ring) moveLeader(ctx context.Context, a ring.Action, members []*etcdserverpb.Member, f Fence) error {
	if _, err := find(members, a.Member); err != nil {
		return err
	}
	for _, m := range members {
		if len(m.ClientURLs) == 0 {
			continue
		}
		moved := false
		err := r.ask(ctx, m.ClientURLs[0], func(ctx context.Context, c host.Etcd) error {
			is, err := c.Status(ctx, m.ClientURLs[0])
			if err != nil || is.Leader != m.ID {
				return nil
			}
			moved = true
			switch {
			case m.ID == uint64(a.Member):
				return nil
			case f.over(r.Host):
				return errLedTooLong
			}
			_, err = c.MoveLeader(ctx, uint64(a.Member))
			return err
		})
		if moved {
			return err
		}
	}
	return errors.New("no member says that it leads")
}

func find(members []*etcdserverpb.Member, id ring.ID) (*etcdserverpb.Member, error) {
	for _, m := range members {
		if m.ID == uint64(id) {
			return m, nil
		}
	}
	return nil, fmt.Errorf("there is no member %s; see ringadm member list", id)
}

func memberKey(id ring.ID) string { return membersPrefix + id.String() }

func leavingKey(id ring.ID) string { return leavingPrefix + id.String() }

func cut(key, prefix string) (string, bool) { return strings.CutPrefix(key, prefix) }
