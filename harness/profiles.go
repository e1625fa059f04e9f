// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/ringproof/ringproof"
)

const (
	between    = 300 * time.Millisecond // two visits of an extra client
	shortWatch = time.Second            // of a stream that is opened again and again
	nudge      = 20 * time.Millisecond  // between two demands for a bookmark
	lifelong   = time.Hour              // a stream that only a break or the run's end ends
	overtake   = 5 * time.Second        // for the watchers to get ahead of a compaction
	ahead      = int64(10000)           // revisions: more than a run makes
)

// extra is a client beside the plain load. Some faults show only to one that
// does what few clients do.
type extra struct {
	visit      func(*runner, context.Context, ringproof.Client, int)
	everywhere bool // one on each member, as any of them may be the one that a fault hits; else one that goes round
	settled    bool // the plain watchers keep their streams too
}

// extras are the profiles that have such a client; each is kv-txn-watch too.
var extras = map[string]extra{
	"tombstone-watch": {visit: (*runner).bury},
	"progress-watch":  {visit: (*runner).arriveLate},
	"patient-watch":   {visit: (*runner).outlast, everywhere: true, settled: true},
	"future-watch":    {visit: (*runner).foresee, everywhere: true},
	"future-read":     {visit: (*runner).overreach, everywhere: true},
	"operator":        {visit: (*runner).operate, everywhere: true},
	"apiserver":       {visit: (*runner).serve},
}

// befriend starts the profile's extra clients.
func (r *runner) befriend(ctx context.Context) {
	x, ok := extras[r.plan.Workload.Profile]
	if !ok {
		return
	}
	first := r.plan.Workload.Clients + watchers + 2 // drain takes two
	if !x.everywhere {
		r.client(ctx, "extra client", func(ctx context.Context) { r.visits(ctx, x, first, 0, 1) })
		return
	}
	for i := range r.plan.Ring.Size {
		r.client(ctx, fmt.Sprintf("extra client %d", i), func(ctx context.Context) { r.visits(ctx, x, first+i, i, 0) })
	}
}

// visits has an extra client come again and again until ctx ends.
func (r *runner) visits(ctx context.Context, x extra, id, seat, step int) {
	for ; ctx.Err() == nil; seat += step {
		if c := r.seat(ctx, seat); c != nil {
			x.visit(r, ctx, c, id)
			c.Close()
		}
		if r.world.Sleep(ctx, between) != nil {
			return
		}
	}
}

// attend is one stream of a plain watcher; it returns where the next begins.
func (r *runner) attend(ctx context.Context, c ringproof.Client, id int, start int64) int64 {
	if extras[r.plan.Workload.Profile].settled {
		return r.follow(ctx, patient(c), id, start, lifelong)
	}
	return r.follow(ctx, c, id, start, rotation)
}

// bury deletes a key, puts it again, compacts at the deletion and watches from
// there: the deletion is the oldest change that etcd still owes.
func (r *runner) bury(ctx context.Context, c ringproof.Client, id int) {
	key := Prefix + "tombstone"
	for range 3 {
		r.putUnique(ctx, c, id, key)
	}
	grave, deleted := r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestDelete, Key: key})
	last, put := r.putUnique(ctx, c, id, key)
	if !deleted || grave.Deleted == 0 || !put || !r.overtaken(ctx, last) {
		return
	}
	if _, ok := r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestCompact, Revision: grave.Revision}); ok {
		r.stream(ctx, c, ringproof.Watch{Client: id, Prefix: key, Start: grave.Revision}, shortWatch)
	}
}

// unique is a value that no other put has.
func (r *runner) unique(id int) string { return fmt.Sprintf("c%d-at-%d", id, r.number()) }

// putUnique puts a value that no other put has.
func (r *runner) putUnique(ctx context.Context, c ringproof.Client, id int, key string) (revision int64, ok bool) {
	response, ok := r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestPut, Key: key, Value: r.unique(id)})
	return response.Revision, ok
}

// overtaken waits until the watchers of the whole keyspace are past the
// revision: what is compacted before they saw it, no check could judge.
func (r *runner) overtaken(ctx context.Context, revision int64) bool {
	past := false
	_ = r.wait(ctx, overtake, func() bool {
		past = true
		for i := range watchers {
			past = past && r.sawUpTo(r.plan.Workload.Clients+i) >= revision
		}
		return past
	})
	return past
}

// arriveLate watches from the ring's beginning and asks for bookmarks at once,
// before the member can have sent all that a bookmark vouches for.
func (r *runner) arriveLate(ctx context.Context, c ringproof.Client, id int) {
	asking, cancel := r.world.Timeout(ctx, shortWatch)
	defer cancel()
	if p, ok := c.(interface{ Progress(context.Context) error }); ok {
		r.world.Go(asking, "bookmarks", func(ctx context.Context) {
			for r.world.Sleep(ctx, nudge) == nil {
				_ = p.Progress(ctx)
			}
		})
	}
	r.follow(asking, c, id, 1, shortWatch)
}

// outlast follows the ring on one member, and stays while it has no leader.
func (r *runner) outlast(ctx context.Context, c ringproof.Client, id int) {
	r.follow(ctx, patient(c), id, r.sawUpTo(id)+1, lifelong)
}

// foresee watches on one member for what is far ahead, and should see nothing.
func (r *runner) foresee(ctx context.Context, c ringproof.Client, id int) {
	r.follow(ctx, patient(c), id, r.sawUpTo(r.plan.Workload.Clients)+ahead, lifelong)
}

// overreach asks one member to write and to read what is far ahead, in one transaction: all
// of it must be refused, by every member.
func (r *runner) overreach(ctx context.Context, c ringproof.Client, id int) {
	n := r.visit(id)
	r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{
		{Kind: ringproof.RequestPut, Key: r.anyKey(id, n), Value: r.unique(id)},
		{Kind: ringproof.RequestGet, Key: r.anyKey(id, n), Revision: r.sawUpTo(r.plan.Workload.Clients) + ahead}}})
}

// patient returns the client with streams that stay open without a leader,
// where the world has such.
func patient(c ringproof.Client) ringproof.Client {
	if p, ok := c.(interface{ Patient() ringproof.Client }); ok {
		return p.Patient()
	}
	return c
}
