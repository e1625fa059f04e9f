// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
)

const (
	mostHeld   = 2 // leases that a server holds at a time
	leasedKeys = 4 // that only servers write, and so stay under their lease
)

// ttls are what leases are granted for, in seconds: some run out between two
// visits of a member that is away, some last.
var ttls = []int64{2, 3, 5, 10}

// tenant is what a server remembers of its leases.
type tenant struct {
	held  []int64          // renewed now and then
	let   []int64          // neither renewed nor revoked any more: they run out
	over  int64            // the last that was seen to be over
	known map[string]int64 // mod revisions of the keys, as last seen
}

// occupy does what an API server does with leases: it holds a few, puts events
// and locks under them if these are still as it saw them, renews or revokes some and
// lets others run out.
func (r *runner) occupy(ctx context.Context, c ringproof.Client, id, n int) {
	t := r.tenant(id)
	if len(t.held) < mostHeld {
		ttl := ttls[draw(r.plan.Seed, "ttl", id, n)%uint64(len(ttls))]
		if granted, ok := r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestGrant, TTL: ttl}); ok {
			t.held = append(t.held, granted.Lease)
			r.putUnder(ctx, c, id, n, granted.Lease)
		}
		return
	}
	at := int(draw(r.plan.Seed, "lease", id, n) % mostHeld)
	switch draw(r.plan.Seed, "tenancy", id, n) % 8 {
	case 0, 1, 2:
		if _, err := r.try(ctx, c, id, ringproof.Request{Kind: ringproof.RequestKeepAlive, Lease: t.held[at]}); client.LeaseOver(err) {
			t.drop(at)
		}
	case 3:
		if _, err := r.try(ctx, c, id, ringproof.Request{Kind: ringproof.RequestRevoke, Lease: t.held[at]}); err == nil || client.LeaseOver(err) {
			t.drop(at)
		}
	case 4:
		t.let = append(t.let, t.held[at])
		t.held = slices.Delete(t.held, at, at+1)
	case 5:
		r.detach(ctx, c, id, n, t.held[at])
	case 6:
		if t.over != 0 {
			r.putUnder(ctx, c, id, n, t.over) // which must be refused
		}
	default:
		r.putUnder(ctx, c, id, n, t.held[at])
	}
}

// tenant returns the memory of a server.
func (r *runner) tenant(id int) *tenant {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tenants[id] == nil {
		r.tenants[id] = &tenant{known: map[string]int64{}}
	}
	return r.tenants[id]
}

// drop forgets a lease that is over.
func (t *tenant) drop(at int) {
	t.over = t.held[at]
	t.held = slices.Delete(t.held, at, at+1)
}

// putUnder puts a key under the lease if it is as it was seen last, and another
// beside it that anybody may write; or else looks.
func (r *runner) putUnder(ctx context.Context, c ringproof.Client, id, n int, lease int64) {
	key, t := leasedKey(r.plan.Seed, id, n), r.tenant(id)
	value := r.unique(id)
	q := ringproof.Request{Kind: ringproof.RequestTxn, If: []ringproof.Comparison{{Key: key, Target: "mod", Is: "=", Number: t.known[key]}},
		Then: []ringproof.Request{{Kind: ringproof.RequestPut, Key: key, Value: value, Lease: lease}},
		Else: []ringproof.Request{{Kind: ringproof.RequestGet, Key: key}}}
	if n%2 == 0 {
		beside := leasedKey(r.plan.Seed, id, -n)
		if n%4 == 0 {
			beside = r.anyKey(id, n)
		}
		if beside != key {
			q.Then = append(q.Then, ringproof.Request{Kind: ringproof.RequestPut, Key: beside, Value: value + "-too", Lease: lease})
		}
	}
	q.Then = append(q.Then, ringproof.Request{Kind: ringproof.RequestGet, Key: key})
	t.learn(r.ask(ctx, c, id, q))
}

// detach puts a key anew, under no lease, if it is under this one.
func (r *runner) detach(ctx context.Context, c ringproof.Client, id, n int, lease int64) {
	key := leasedKey(r.plan.Seed, id, n)
	value := r.unique(id)
	get := ringproof.Request{Kind: ringproof.RequestGet, Key: key}
	r.tenant(id).learn(r.ask(ctx, c, id, ringproof.Request{Kind: ringproof.RequestTxn,
		If:   []ringproof.Comparison{{Key: key, Target: "lease", Is: "=", Number: lease}},
		Then: []ringproof.Request{{Kind: ringproof.RequestPut, Key: key, Value: value}, get}, Else: []ringproof.Request{get}}))
}

// learn keeps the mod revision of the key that a transaction read last.
func (t *tenant) learn(response ringproof.Response, ok bool) {
	if !ok || len(response.Results) == 0 {
		return
	}
	read := response.Results[len(response.Results)-1].KVs
	if len(read) == 0 {
		clear(t.known) // its lease is over, and so may be all that was under it
	}
	for _, kv := range read {
		t.known[kv.Key] = kv.ModRevision
	}
}

func leasedKey(seed uint64, id, n int) string {
	return fmt.Sprintf("%sl%d", Prefix, draw(seed, "leased", id, n)%leasedKeys)
}

// vacate revokes what servers hold and what they have let run out, so that the
// last value comes after the end of every lease. It waits for the servers to be
// gone: what one holds it alone knows.
func (r *runner) vacate(ctx context.Context, id int) {
	if r.plan.Workload.Profile != "apiserver" {
		return
	}
	_ = r.wait(ctx, 2*patience, func() bool { return r.count(&r.clients, 0) == 0 })
	if r.count(&r.clients, 0) > 0 {
		return
	}
	for _, server := range slices.Sorted(maps.Keys(r.tenants)) {
		for _, lease := range slices.Concat(r.tenants[server].held, r.tenants[server].let) {
			if !r.revoked(ctx, id, lease) {
				return
			}
		}
	}
}

// revoked asks one member after another, and reports whether one did it or knew
// of no such lease.
func (r *runner) revoked(ctx context.Context, id int, lease int64) bool {
	for seat := range 3 {
		c := r.seat(ctx, seat)
		if c == nil {
			continue
		}
		_, err := r.try(ctx, c, id, ringproof.Request{Kind: ringproof.RequestRevoke, Lease: lease})
		c.Close()
		if err == nil || client.LeaseOver(err) {
			return true
		}
	}
	return false
}
