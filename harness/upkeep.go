// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"fmt"

	"github.com/ringproof/ringproof"
)

// operate asks one member what whoever operates it asks: its status, each time,
// and something else now and then. Alarms that are raised are taken back once
// there is room.
func (r *runner) operate(ctx context.Context, c ringproof.Client, id int) {
	n := r.visit(id)
	status, ok := r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestStatus})
	if !ok {
		return
	}
	switch draw(r.plan.Seed, "upkeep", id, n) % 8 {
	case 0, 1, 2:
		r.alarms(ctx, c, id)
	case 3, 4:
		r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestHash, Revision: status.Revision})
	case 5:
		r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestSnapshot})
	case 6:
		r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestDefrag})
	default:
		r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestRange, Key: Prefix, Serializable: true})
	}
}

// alarms lists them, and does about NOSPACE what etcd's guide says: delete,
// compact, defragment, disarm. Until then only what needs no space is done, and
// all of that must be.
func (r *runner) alarms(ctx context.Context, c ringproof.Client, id int) {
	listed, ok := r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestAlarms})
	if !ok || listed.Upkeep == nil || len(listed.Upkeep.Alarms) == 0 {
		return
	}
	r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{
		{Kind: ringproof.RequestRange, Key: Prefix}, {Kind: ringproof.RequestDelete, Key: r.anyKey(id, r.visit(id))}}})
	r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{{Kind: ringproof.RequestRange, Key: Prefix}}})
	read, ok := r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestRange, Key: Prefix})
	if !ok || !r.overtaken(ctx, read.Revision) {
		return
	}
	r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestCompact, Revision: read.Revision})
	r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestDefrag})
	r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestDisarm})
}

// visit counts the visits of an extra client.
func (r *runner) visit(id int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.visited[id]++
	return r.visited[id]
}

func (r *runner) anyKey(id, n int) string {
	return fmt.Sprintf("%sk%d", Prefix, draw(r.plan.Seed, "key", id, n)%uint64(r.plan.Workload.Keys))
}

// serve does what a Kubernetes API server does: it writes an object if it is
// still as it was read, several at once where they belong together, lists by
// pages of one revision, puts what is to go by itself under leases, and has old
// history discarded.
func (r *runner) serve(ctx context.Context, c ringproof.Client, id int) {
	n := r.visit(id)
	key, other := r.anyKey(id, n), r.anyKey(id, -n)
	read, ok := r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestGet, Key: key})
	if !ok {
		return
	}
	r.ask(ctx, c, id, r.update(id, n, key, other, read))
	r.pages(ctx, c, id)
	r.occupy(ctx, c, id, n)
	r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{
		{Kind: ringproof.RequestGet, Key: key, Revision: read.Revision}, {Kind: ringproof.RequestGet, Key: key}}})
	if n%compactEvery != 0 || !r.overtaken(ctx, read.Revision) {
		return
	}
	if _, ok := r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestCompact, Revision: read.Revision}); ok {
		r.lookBack(ctx, id, key, read.Revision-1)
	}
}

// lookBack asks each member by itself for what was just discarded, in a transaction: it must be
// refused. Nothing is written beside it: up to 3.6 every member but the one that was asked
// would carry that out (etcd#18667), and a correct subject would be failed for it.
func (r *runner) lookBack(ctx context.Context, id int, key string, revision int64) {
	if revision < 1 {
		return
	}
	for seat := range r.plan.Ring.Size {
		c := r.seat(ctx, seat)
		if c == nil {
			continue
		}
		r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{{Kind: ringproof.RequestGet, Key: key, Revision: revision}}})
		c.Close()
	}
}

const compactEvery = 10

// update writes an object as it was read, and what belongs to it: in every
// third transaction the other is taken away with it.
func (r *runner) update(id, n int, key, other string, read ringproof.Response) ringproof.Request {
	mod := int64(0)
	for _, kv := range read.KVs {
		mod = kv.ModRevision
	}
	value := r.unique(id)
	q := ringproof.Request{Kind: ringproof.RequestTxn, If: []ringproof.Comparison{{Key: key, Target: "mod", Is: "=", Number: mod}},
		Then: []ringproof.Request{{Kind: ringproof.RequestPut, Key: key, Value: value}}, Else: []ringproof.Request{{Kind: ringproof.RequestGet, Key: key}}}
	switch {
	case key == other:
	case n%3 == 0:
		q.Then = append(q.Then, ringproof.Request{Kind: ringproof.RequestDelete, Key: other})
	default:
		q.Then = append(q.Then, ringproof.Request{Kind: ringproof.RequestTxn, If: []ringproof.Comparison{{Key: other, Target: "version", Is: ">", Number: 0}},
			Then: []ringproof.Request{{Kind: ringproof.RequestPut, Key: other, Value: value + "-too"}}, Else: []ringproof.Request{{Kind: ringproof.RequestGet, Key: other}}})
	}
	q.Then = append(q.Then, ringproof.Request{Kind: ringproof.RequestRange, Key: Prefix})
	return q
}

// pages lists all keys by pages, all of the revision of the first.
func (r *runner) pages(ctx context.Context, c ringproof.Client, id int) {
	q := ringproof.Request{Kind: ringproof.RequestRange, Key: Prefix, Limit: 3}
	for {
		page, ok := r.ask(ctx, c, id, q)
		if !ok || !page.More || len(page.KVs) == 0 {
			return
		}
		q.From = page.KVs[len(page.KVs)-1].Key + "\x00"
		if q.Revision == 0 {
			q.Revision = page.Revision
		}
	}
}
