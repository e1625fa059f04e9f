// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// A lease runs out or is revoked, and its keys go with it, at a revision that no
// client may have been told of. So each lease under which a key was put gets an
// operation of nobody's, which has no answer and deletes every key that was ever
// put under it: what holds of other transactions without an answer holds of it
// too. Only those of the keys go that are under the lease then.

// nobody is the client who asks for the ends of leases.
const nobody = -1

// lease is what is known of one.
type lease struct {
	end      int   // the operation that stands for its end
	revoked  int64 // the revision of the answer that it was revoked; 0: nobody has one
	ended    int64 // the revision at which its end took effect; 0: none is known
	last     int64 // the last revision at which a key is known to have come under it
	doubtful bool  // what was seen to go then may have gone otherwise
}

// withEnds returns h with the ends of its leases after all other operations.
func withEnds(h *ringproof.History) (*ringproof.History, map[int64]*lease) {
	leased := func(o ringproof.Operation) bool { return o.Request.Kind == ringproof.RequestGrant }
	if !slices.ContainsFunc(h.Operations, leased) {
		return h, nil
	}
	deletes := map[int64][]ringproof.Request{}
	for i := range h.Operations {
		parts(&h.Operations[i].Request, func(r *ringproof.Request) {
			one := ringproof.Request{Kind: ringproof.RequestDelete, Key: r.Key}
			same := func(d ringproof.Request) bool { return d.Key == r.Key }
			if r.Kind == ringproof.RequestPut && r.Lease != 0 && !slices.ContainsFunc(deletes[r.Lease], same) {
				deletes[r.Lease] = append(deletes[r.Lease], one)
			}
		})
	}
	with, leases := *h, map[int64]*lease{}
	with.Operations = slices.Clip(h.Operations)
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Request.Kind != ringproof.RequestGrant || o.Response == nil || deletes[o.Response.Lease] == nil || leases[o.Response.Lease] != nil {
			continue
		}
		id := o.Response.Lease
		leases[id] = &lease{end: len(with.Operations)}
		with.Operations = append(with.Operations, ringproof.Operation{Client: nobody, Call: o.Call, Return: ringproof.Forever,
			Request: ringproof.Request{Kind: ringproof.RequestTxn, Lease: id, Then: deletes[id]}})
	}
	for i := range h.Operations {
		o := &h.Operations[i]
		if l := leases[o.Request.Lease]; l != nil && o.Request.Kind == ringproof.RequestRevoke && o.Response != nil {
			l.revoked, with.Operations[l.end].Call = o.Response.Revision, o.Call
		}
	}
	return &with, leases
}

// isEnd reports whether the request is the end of a lease.
func isEnd(r *ringproof.Request) bool { return r.Kind == ringproof.RequestTxn && r.Lease != 0 }

// asked counts what clients asked for.
func (t *timeline) asked() int { return len(t.h.Operations) - len(t.leases) }

// ids lists the leases, so that nothing hangs on the order of a map.
func (t *timeline) ids() []int64 { return slices.Sorted(maps.Keys(t.leases)) }

// tenancy is the lease that the key is under; 0: none.
func (c *change) tenancy() int64 {
	if c == nil {
		return 0
	}
	return c.lease
}

// spell is a key under a lease, or under none, from a revision on.
type spell struct{ revision, lease int64 }

// spells is by key, ascending, what answers and watches tell of who was put
// under which lease. It is needed before all writes are in order.
func (t *timeline) spells() map[string][]spell {
	if len(t.leases) == 0 {
		return nil
	}
	all := map[string][]spell{}
	add := func(key string, revision, lease int64) {
		all[key] = append(all[key], spell{revision, lease})
		if l := t.leases[lease]; l != nil {
			l.last = max(l.last, revision)
		}
	}
	for _, w := range t.writes {
		o := &t.h.Operations[w.op]
		switch {
		case !o.Request.General():
			add(o.Request.Key, w.revision, o.Request.Lease)
		case o.Response != nil:
			for _, a := range told(o) {
				if a.changes() {
					add(a.request.Key, w.revision, a.request.Lease)
				}
			}
		}
	}
	for _, w := range t.h.Watches {
		for i := range w.Events {
			e := &w.Events[i]
			if !e.Bookmark && t.workload(e.KV.Key) {
				add(e.KV.Key, e.Revision, e.KV.Lease) // of what is deleted it is none
			}
			if e.Prev != nil && t.workload(e.KV.Key) {
				add(e.KV.Key, e.Prev.ModRevision, e.Prev.Lease)
			}
		}
	}
	for key, each := range all {
		slices.SortFunc(each, func(a, b spell) int { return cmp.Compare(a.revision, b.revision) })
		all[key] = slices.Compact(each)
	}
	return all
}

// endsAt lists the leases that may have ended at the revision and taken the keys
// with them, those of which no other key stayed apart. A lease ends once, and
// nothing comes under it after.
func (t *timeline) endsAt(under map[string][]spell, keys []string, revision int64) (whole, partly []maker) {
	for _, id := range t.ids() {
		l := t.leases[id]
		if t.floor[l.end] >= revision || l.revoked != 0 && l.revoked != revision || l.last > revision {
			continue
		}
		may, sure := t.allUnder(under, id, keys, revision)
		switch {
		case !may:
		case t.leaves(under, id, keys, revision):
			partly = append(partly, maker{op: l.end, lease: l, sure: sure})
		default:
			whole = append(whole, maker{op: l.end, lease: l, sure: sure})
		}
	}
	return whole, partly
}

// allUnder reports whether all keys may have been under the lease just before
// the revision, and whether that is sure.
func (t *timeline) allUnder(under map[string][]spell, lease int64, keys []string, revision int64) (may, sure bool) {
	deletes := &t.h.Operations[t.leases[lease].end].Request
	sure = true
	for _, key := range keys {
		was, known := t.before(under, key, revision)
		if known && was != lease || !writesTo(deletes, key) {
			return false, false
		}
		sure = sure && known
	}
	return true, sure
}

// leaves reports whether another key was surely under the lease at the revision,
// and stayed.
func (t *timeline) leaves(under map[string][]spell, lease int64, keys []string, revision int64) bool {
	return slices.ContainsFunc(t.h.Operations[t.leases[lease].end].Request.Then, func(d ringproof.Request) bool {
		was, known := t.before(under, d.Key, revision)
		return known && was == lease && !slices.Contains(keys, d.Key) && t.covers(d.Key, revision, revision)
	})
}

// before returns the lease that the key was under just before the revision, if
// watches saw all that could have put it under another.
func (t *timeline) before(under map[string][]spell, key string, revision int64) (lease int64, known bool) {
	spells := under[key]
	n, _ := slices.BinarySearchFunc(spells, revision, func(s spell, r int64) int { return cmp.Compare(s.revision, r) })
	if n == 0 || !t.covers(key, spells[n-1].revision+1, revision-1) {
		return 0, false
	}
	return spells[n-1].lease, true
}

// settleRevoked takes the revision of the answer for that of the end of each
// lease that was revoked and that no watch saw go, unless it belongs to another:
// then the lease had no keys. Whether it had any, the replay tells.
func (t *timeline) settleRevoked(o open) {
	for _, id := range t.ids() {
		l := t.leases[id]
		if l.revoked == 0 || l.ended != 0 {
			continue
		}
		l.ended, o.settled[l.end] = l.revoked, l.revoked
		if _, taken := t.owner[l.revoked]; !taken && !slices.Contains(t.foreign, l.revoked) {
			t.own(l.end, l.revoked)
		}
	}
}

// overBy is a revision by which the lease was over: what was answered to a
// request made after one had been refused for want of the lease.
func (t *timeline) overBy(id int64) int64 {
	refused, last := ringproof.Forever, t.last
	for i := range t.h.Operations {
		if o := &t.h.Operations[i]; wants(o) == id {
			refused = min(refused, o.Return)
		}
	}
	for i := range t.h.Operations {
		o := &t.h.Operations[i]
		if r, ok := tells(o); ok && !o.Request.Serializable && o.Call > refused {
			last = min(last, r)
		}
	}
	return last
}

// wants returns the lease for want of which etcd refused the operation; 0: it
// didn't, or the operation names several. It is the log's word: that of who was
// asked to renew may be the word of a leader of the past.
func wants(o *ringproof.Operation) int64 {
	if o.Request.Kind == ringproof.RequestKeepAlive || !o.Refused || !strings.Contains(o.Err, "requested lease not found") {
		return 0
	}
	var named []int64
	parts(&o.Request, func(r *ringproof.Request) {
		if r.Lease != 0 && !slices.Contains(named, r.Lease) {
			named = append(named, r.Lease)
		}
	})
	if len(named) != 1 {
		return 0
	}
	return named[0]
}

// replayEnd takes away the keys that go with the leases which ended at the
// revision: those that a watch saw go, and where no watch looked, those that are
// under one. If a put without an answer may have come before, nothing tells which
// these are. Several were revoked at one revision if at most one had keys.
func (t *timeline) replayEnd(w write) {
	seen := t.done[w.revision]
	t.done[w.revision] = nil
	for _, id := range t.ids() {
		if l := t.leases[id]; l.ended == w.revision {
			t.replayOne(write{w.revision, l.end}, seen)
		}
	}
}

func (t *timeline) replayOne(w write, seen []act) {
	r := &t.h.Operations[w.op].Request
	for i := range r.Then {
		name := r.Then[i].Key
		key := t.keys[name]
		before := t.newest(key)
		watched := t.covers(name, w.revision, w.revision)
		if !watched && t.ignorant(key) && !slices.Contains(t.branches, w.op) {
			t.branches = append(t.branches, w.op)
		}
		goes := slices.ContainsFunc(seen, func(a act) bool { return a.request.Key == name }) ||
			before.tenancy() == r.Lease && !watched
		if before == nil || !goes {
			continue
		}
		t.done[w.revision] = append(t.done[w.revision], act{request: &r.Then[i]})
		t.changes[key] = append(t.changes[key], next(before, w, &r.Then[i]))
	}
}

// judgeEnds judges what stayed when its lease was over, and what came under it
// later. An end that took no key has no revision of its own.
func (t *timeline) judgeEnds() {
	if !t.leased {
		return
	}
	for _, id := range t.ids() {
		l := t.leases[id]
		if l.ended == 0 {
			continue
		}
		for _, r := range t.h.Operations[l.end].Request.Then {
			if was := t.at(t.keys[r.Key], l.ended); was.tenancy() == id {
				t.wrong(l.end, was.op, t.keys[r.Key], l.ended, "expected %s to go with lease %x, which was over at revision %d; saw it stay as %s", r.Key, id, l.ended, was)
			}
		}
	}
	t.writes = slices.DeleteFunc(t.writes, func(w write) bool {
		idle := isEnd(&t.h.Operations[w.op].Request) && len(t.done[w.revision]) == 0
		if idle {
			delete(t.owner, w.revision)
		}
		return idle
	})
	for key := range t.changes {
		t.judgeLeases(key)
	}
}

// judgeLeases judges under which leases a key was put.
func (t *timeline) judgeLeases(key int) {
	for i := range t.changes[key] {
		c := &t.changes[key][i]
		l := t.leases[c.lease]
		switch {
		case c.lease == 0:
		case l == nil:
			t.wrong(c.op, -1, -1, c.revision, "expected a put under a lease that nobody was granted to be refused, saw it done at revision %d", c.revision)
		case l.ended != 0 && l.ended < c.revision:
			t.wrong(c.op, l.end, key, c.revision, "expected a put under lease %x to be refused, as it was over at revision %d; saw it done at revision %d", c.lease, l.ended, c.revision)
		}
	}
}

// underText says under which lease a key is.
func underText(lease int64) string {
	if lease == 0 {
		return ""
	}
	return fmt.Sprintf(", lease %x", lease)
}

// operationText prints an operation, the end of a lease too, as a line of evidence.
func operationText(o *ringproof.Operation) string {
	if isEnd(&o.Request) {
		return fmt.Sprintf("nobody, from %s on: %s", o.Call, requestText(&o.Request))
	}
	return o.String()
}

func requestText(r *ringproof.Request) string {
	if isEnd(r) {
		return fmt.Sprintf("the end of lease %x", r.Lease)
	}
	return r.String()
}

func exchangeText(r *ringproof.Request, o *ringproof.Operation) string {
	return requestText(r) + " → " + o.Outcome()
}
