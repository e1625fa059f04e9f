// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/ringproof/ringproof"
)

// workloadPrefix is where clients write. Keys elsewhere are foreign: the
// subject's own leadership and presence under /ringadm/ take revisions too, so
// the clients' revisions have gaps.
const workloadPrefix = "/w/"

// timeline is the clients' keyspace at every revision. Revisions order it:
// etcd gives each write the next one, so the answers themselves say in which
// order the writes took effect, and n log n is enough where a search over
// orders may never end.
type timeline struct {
	h       *ringproof.History
	keys    map[string]int
	names   []string   // of keys
	changes [][]change // by key, ascending
	writes  []write    // what took effect, ascending
	owner   map[int64]int
	foreign []int64 // revisions that watches show to be nobody's among the clients
	floor   []int64 // by operation: the greatest revision told to anyone before its call
	last    int64   // the greatest revision told to any client, or of the dump

	done  map[int64][]act // by revision: what a transaction carried out, or what went with a lease
	shown map[int]string  // by transaction without an answer: one of its values that somebody saw

	leases map[int64]*lease // of those granted, and asked for in a put
	leased bool             // some request names a lease

	unresolved []int        // operations that took effect or not: nothing tells
	branches   []int        // transactions that took effect, by one branch or the other: nothing tells
	confused   map[int]bool // keys whose deletions may have been others' than those they were given to
	dropped    int          // operations whose outcome no client was told, and that surely had no effect

	prefixes map[string][]int
	covered  map[string][]span
	wrongs   []wrong
}

// change is a key from its revision on, until its next change.
type change struct {
	revision, create, version int64
	value                     string
	lease                     int64
	deleted                   bool
	op                        int
}

// write is an operation that took effect at a revision.
type write struct {
	revision int64
	op       int
}

// span is the revisions from..to, both included.
type span struct{ from, to int64 }

// wrong is one disagreement between the timeline and what a client was told.
type wrong struct {
	op       int
	other    int // the other operation of the pair, or -1
	key      int // -1 when it isn't about the state of one key
	revision int64
	message  string
}

// rebuild makes the timeline of h. What can't be is in its wrongs.
func rebuild(h *ringproof.History) *timeline {
	h, leases := withEnds(h)
	t := &timeline{
		h: h, leases: leases, keys: map[string]int{}, owner: make(map[int64]int, len(h.Operations)),
		prefixes: map[string][]int{}, covered: map[string][]span{}, done: map[int64][]act{}, shown: map[int]string{}, confused: map[int]bool{},
	}
	t.intern()
	t.sweep()
	t.collect()
	open := t.unanswered()
	orphans := t.resolveByWatch(open)
	t.resolveByReads(open)
	t.adopt(open, orphans)
	t.settleRevoked(open)
	t.settle(open)
	t.replay()
	t.judgeEnds()
	return t
}

// workload reports whether clients own the key.
func (t *timeline) workload(key string) bool {
	if strings.HasPrefix(key, workloadPrefix) {
		return true
	}
	_, asked := t.keys[key]
	return asked
}

func (t *timeline) intern() {
	for i := range t.h.Operations {
		t.internAll(&t.h.Operations[i].Request)
	}
	t.changes = make([][]change, len(t.names))
}

func (t *timeline) internAll(r *ringproof.Request) {
	t.leased = t.leased || r.Lease != 0
	if !r.General() {
		if r.Kind != ringproof.RequestRange && r.Kind != ringproof.RequestCompact && !r.Kind.Operates() && !r.Kind.OfLease() {
			t.internOne(r.Key)
		}
		return
	}
	for _, c := range r.If {
		t.internOne(c.Key)
	}
	for i := range r.Then {
		t.internAll(&r.Then[i])
	}
	for i := range r.Else {
		t.internAll(&r.Else[i])
	}
}

func (t *timeline) internOne(key string) {
	if _, ok := t.keys[key]; !ok {
		t.keys[key] = len(t.names)
		t.names = append(t.names, key)
	}
}

// tells returns the revision that an answer vouches for. A compaction's header
// may be of any later moment, and what a member says of itself, or before it has
// a lease renewed, of any earlier one: so they tell nothing.
func tells(o *ringproof.Operation) (int64, bool) {
	if o.Response == nil || o.Request.Kind == ringproof.RequestCompact || o.Request.Kind == ringproof.RequestKeepAlive || o.Request.Kind.Operates() {
		return 0, false
	}
	return o.Response.Revision, true
}

// tookEffect reports whether an answered operation changed the keyspace.
func tookEffect(o *ringproof.Operation) bool {
	if o.Response == nil {
		return false
	}
	switch o.Request.Kind {
	case ringproof.RequestPut:
		return true
	case ringproof.RequestDelete:
		return o.Response.Deleted > 0
	case ringproof.RequestTxn:
		if o.Request.General() {
			return slices.ContainsFunc(told(o), act.changes)
		}
		return o.Response.Succeeded
	}
	return false
}

// sweep goes through calls and returns in real time, and checks the one rule
// that makes the order of revisions an order in which things could have
// happened: what was called after something had returned doesn't come before it.
func (t *timeline) sweep() {
	ops := t.h.Operations
	t.floor = make([]int64, len(ops))
	calls, returns := byCall(ops), byReturn(ops)
	next, told, teller := 0, int64(0), -1
	t.last = t.h.Evidence.Revision
	for _, i := range calls {
		for ; next < len(returns) && ops[returns[next]].Return < ops[i].Call; next++ {
			if r, _ := tells(&ops[returns[next]]); r > told {
				told, teller = r, returns[next]
			}
		}
		t.floor[i] = told
		r, ok := tells(&ops[i])
		t.last = max(t.last, r)
		if !ok {
			continue
		}
		switch {
		case r < 1 || tookEffect(&ops[i]) && r < 2: // an empty etcd is at revision 1
			t.wrong(i, -1, -1, r, "expected a revision that etcd can have, saw %d", r)
		case ops[i].Request.Serializable || teller < 0:
		case tookEffect(&ops[i]) && r <= told:
			t.wrong(i, teller, -1, r, "expected a revision above %d, which a client held before the call; saw %d", told, r)
		case r < told:
			t.wrong(i, teller, -1, r, "expected a revision of at least %d, which a client held before the call; saw %d", told, r)
		}
	}
}

func byCall(ops []ringproof.Operation) []int {
	return ordered(ops, func(o *ringproof.Operation) ringproof.Instant { return o.Call })
}

func byReturn(ops []ringproof.Operation) []int {
	return ordered(ops, func(o *ringproof.Operation) ringproof.Instant { return o.Return })
}

func ordered(ops []ringproof.Operation, when func(*ringproof.Operation) ringproof.Instant) []int {
	order := make([]int, len(ops))
	sorted := true
	for i := range ops {
		order[i] = i
		sorted = sorted && (i == 0 || when(&ops[i-1]) <= when(&ops[i]))
	}
	if !sorted {
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(when(&ops[a]), when(&ops[b])) })
	}
	return order
}

// collect takes the answered writes; each must have a revision of its own.
func (t *timeline) collect() {
	for i := range t.h.Operations {
		if o := &t.h.Operations[i]; tookEffect(o) {
			t.own(i, o.Response.Revision)
		}
	}
}

func (t *timeline) own(op int, revision int64) bool {
	if other, taken := t.owner[revision]; taken {
		if other != op {
			t.wrong(op, other, -1, revision, "expected a revision of its own, saw %d, which another write holds", revision)
		}
		return false
	}
	t.owner[revision] = op
	t.writes = append(t.writes, write{revision, op})
	return true
}

// open is the writes that got no answer.
type open struct {
	values  map[string]int   // of puts and txns, by the unique value
	deletes map[string][]int // by key
	settled map[int]int64    // operation → the revision at which it took effect
}

func (t *timeline) unanswered() open {
	o := open{values: map[string]int{}, deletes: map[string][]int{}, settled: map[int]int64{}}
	for i := range t.h.Operations {
		each := &t.h.Operations[i]
		if each.Response != nil || !each.Request.Writes() || isEnd(&each.Request) {
			continue
		}
		parts(&each.Request, func(r *ringproof.Request) {
			switch {
			case r.Kind == ringproof.RequestDelete:
				o.deletes[r.Key] = append(o.deletes[r.Key], i)
			case r.Writes():
				o.values[r.Value] = i
			}
		})
	}
	return o
}

// resolveByWatch finds the owner of every revision that a watch shows, but of
// deletions that nobody was told to have made.
func (t *timeline) resolveByWatch(o open) (orphans map[int64][]string) {
	orphans = map[int64][]string{} // keys that are deleted at a revision
	seen := map[int64]bool{}       // foreign, or told of already
	for w := range t.h.Watches {
		for e := range t.h.Watches[w].Events {
			event := &t.h.Watches[w].Events[e]
			if event.Bookmark {
				continue
			}
			if owner, ok := t.owner[event.Revision]; ok {
				t.agree(owner, event)
				continue
			}
			if seen[event.Revision] {
				continue
			}
			switch {
			case !t.workload(event.KV.Key):
				seen[event.Revision] = true
				t.foreign = append(t.foreign, event.Revision)
			case event.Delete:
				if !slices.Contains(orphans[event.Revision], event.KV.Key) {
					orphans[event.Revision] = append(orphans[event.Revision], event.KV.Key)
				}
			case !t.resolve(o, event.KV.Key, event.KV.Value, event.Revision):
				seen[event.Revision] = true
				t.invented(event)
			}
		}
	}
	return orphans
}

// agree checks that a watch saw the owner of the revision do what it did.
func (t *timeline) agree(owner int, event *ringproof.WatchEvent) {
	if !does(&t.h.Operations[owner].Request, event) {
		t.wrong(owner, -1, -1, event.Revision, "expected it at revision %d, where a watch saw %s", event.Revision, event.String())
	}
}

func (t *timeline) resolve(o open, key, value string, revision int64) bool {
	op, ok := o.values[value]
	if !ok || !writesTo(&t.h.Operations[op].Request, key) {
		return false
	}
	if t.h.Operations[op].Request.General() {
		t.shown[op] = value
	}
	if before, again := o.settled[op]; again {
		if before != revision {
			t.wrong(op, -1, -1, revision, "expected one effect, saw it at revisions %d and %d", before, revision)
		}
		return true
	}
	o.settled[op] = revision
	if t.h.Operations[op].Refused {
		t.wrong(op, -1, -1, revision, "expected no effect of a refused write, saw its value at revision %d", revision)
	}
	if t.own(op, revision) && revision <= t.floor[op] {
		t.wrong(op, -1, -1, revision, "expected a revision above %d, which a client held before the call; saw %d", t.floor[op], revision)
	}
	return true
}

func (t *timeline) invented(event *ringproof.WatchEvent) {
	for i := range t.h.Operations {
		if asksTo(&t.h.Operations[i].Request, func(r *ringproof.Request) bool { return r.Value == event.KV.Value }) {
			t.wrong(i, -1, -1, event.Revision, "expected it where its answer says, a watch saw it at revision %d", event.Revision)
			return
		}
	}
	t.wrong(-1, -1, -1, event.Revision, "expected only values that clients wrote, a watch saw %s", event.String())
}

// resolveByReads takes what reads, previous values and the dump tell of
// unanswered writes that no watch told of.
func (t *timeline) resolveByReads(o open) {
	if !o.doubtful() {
		return
	}
	see := func(kvs []ringproof.KV) {
		for i := range kvs {
			t.resolve(o, kvs[i].Key, kvs[i].Value, kvs[i].ModRevision)
		}
	}
	var answer func(*ringproof.Response)
	answer = func(r *ringproof.Response) {
		see(r.KVs)
		for i := range r.Results {
			answer(&r.Results[i])
		}
	}
	for i := range t.h.Operations {
		if r := t.h.Operations[i].Response; r != nil {
			answer(r)
		}
	}
	see(t.h.Evidence.Dump)
	for _, w := range t.h.Watches {
		for i := range w.Events {
			if w.Events[i].Prev != nil {
				see([]ringproof.KV{*w.Events[i].Prev})
			}
		}
	}
}

func (o open) doubtful() bool {
	for _, op := range o.values {
		if o.settled[op] == 0 {
			return true
		}
	}
	return false
}

// settle drops the unanswered writes that surely had no effect that anyone was
// told of: refused ones, and those whose key was watched from their call to
// the last revision that a client or the dump tells of.
func (t *timeline) settle(o open) {
	for i := range t.h.Operations {
		each := &t.h.Operations[i]
		if each.Response != nil || !each.Request.Writes() || o.settled[i] != 0 {
			continue
		}
		last := t.last
		if isEnd(&each.Request) {
			last = t.overBy(each.Request.Lease)
		}
		if each.Refused || !asksTo(&each.Request, func(r *ringproof.Request) bool { return !t.covers(r.Key, t.floor[i]+1, last) }) {
			t.dropped++
			continue
		}
		t.unresolved = append(t.unresolved, i)
	}
}

// replay applies the writes in the order of their revisions.
func (t *timeline) replay() {
	slices.SortFunc(t.writes, func(a, b write) int { return cmp.Compare(a.revision, b.revision) })
	for _, w := range t.writes {
		o := &t.h.Operations[w.op]
		if isEnd(&o.Request) {
			t.replayEnd(w)
			continue
		}
		if o.Request.General() {
			t.replayTxn(w)
			continue
		}
		key := t.keys[o.Request.Key]
		before := t.newest(key)
		t.judgeWrite(w, key, before)
		t.changes[key] = append(t.changes[key], next(before, w, &o.Request))
	}
}

func (t *timeline) newest(key int) *change {
	if n := len(t.changes[key]); n > 0 && !t.changes[key][n-1].deleted {
		return &t.changes[key][n-1]
	}
	return nil
}

func next(before *change, w write, r *ringproof.Request) change {
	after := change{revision: w.revision, op: w.op, value: r.Value, lease: r.Lease, create: w.revision, version: 1}
	if r.Kind == ringproof.RequestDelete {
		return change{revision: w.revision, op: w.op, deleted: true}
	}
	if before != nil {
		after.create, after.version = before.create, before.version+1
	}
	return after
}

func (t *timeline) judgeWrite(w write, key int, before *change) {
	o := &t.h.Operations[w.op]
	switch {
	case o.Request.Kind == ringproof.RequestTxn && mod(before) != o.Request.Compare:
		t.wrong(w.op, opOf(before), key, w.revision, "expected its comparison to fail at revision %d: %s was %s", w.revision, o.Request.Key, before)
	case o.Request.Kind == ringproof.RequestDelete && before == nil:
		t.wrong(w.op, -1, key, w.revision, "expected nothing to delete at revision %d: %s was absent", w.revision, o.Request.Key)
	case o.Request.Kind == ringproof.RequestDelete && o.Response != nil && o.Response.Deleted != 1:
		t.wrong(w.op, -1, -1, w.revision, "expected one key deleted, saw %d", o.Response.Deleted)
	}
}

func mod(c *change) int64 {
	if c == nil {
		return 0
	}
	return c.revision
}

func opOf(c *change) int {
	if c == nil {
		return -1
	}
	return c.op
}

// String prints v7@30, or absent.
func (c *change) String() string {
	if c == nil || c.deleted {
		return "absent"
	}
	return fmt.Sprintf("%q written at revision %d (create %d, version %d%s)", c.value, c.revision, c.create, c.version, underText(c.lease))
}

// at returns the key as it was at the revision, nil if absent.
func (t *timeline) at(key int, revision int64) *change {
	changes := t.changes[key]
	n := sort.Search(len(changes), func(i int) bool { return changes[i].revision > revision })
	if n == 0 || changes[n-1].deleted {
		return nil
	}
	return &changes[n-1]
}

func (c *change) equal(kv *ringproof.KV) bool {
	return c.value == kv.Value && c.lease == kv.Lease && c.revision == kv.ModRevision && c.create == kv.CreateRevision && c.version == kv.Version
}

// under returns the keys with the prefix, in order of their names.
func (t *timeline) under(prefix string) []int {
	if found, ok := t.prefixes[prefix]; ok {
		return found
	}
	var found []int
	for key, name := range t.names {
		if strings.HasPrefix(name, prefix) {
			found = append(found, key)
		}
	}
	slices.SortFunc(found, func(a, b int) int { return strings.Compare(t.names[a], t.names[b]) })
	t.prefixes[prefix] = found
	return found
}

// covers reports whether watches saw all that happened to the key in from..to.
func (t *timeline) covers(key string, from, to int64) bool {
	if from > to {
		return true
	}
	spans, ok := t.covered[key]
	if !ok {
		spans = coverage(t.h.Watches, key)
		t.covered[key] = spans
	}
	for _, s := range spans {
		if s.from <= from && to <= s.to {
			return true
		}
	}
	return false
}

// coverage joins the spans of all streams that the key belongs to.
func coverage(watches []ringproof.Watch, key string) []span {
	var spans []span
	for i := range watches {
		if s := spanOf(&watches[i]); strings.HasPrefix(key, watches[i].Prefix) && s.from <= s.to {
			spans = append(spans, s)
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var joined []span
	for _, s := range spans {
		if n := len(joined); n > 0 && s.from <= joined[n-1].to+1 {
			joined[n-1].to = max(joined[n-1].to, s.to)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// spanOf returns what one stream promises to have shown; empty when it showed
// nothing.
func spanOf(w *ringproof.Watch) span {
	if len(w.Events) == 0 {
		return span{1, 0}
	}
	first, last := w.Events[0], w.Events[len(w.Events)-1]
	s := span{w.Start, last.Revision}
	if w.Start == 0 {
		s.from = first.Revision
		if first.Bookmark {
			s.from++
		}
	}
	return s
}

func (t *timeline) wrong(op, other, key int, revision int64, format string, args ...any) {
	t.wrongs = append(t.wrongs, wrong{op: op, other: other, key: key, revision: revision, message: fmt.Sprintf(format, args...)})
}

// ignorant reports whether a write of which nothing says whether it was done
// could explain a wrong about the key.
func (t *timeline) ignorant(key int) bool {
	if key < 0 {
		return false
	}
	writes := func(op int) bool { return writesTo(&t.h.Operations[op].Request, t.names[key]) }
	return t.confused[key] || slices.ContainsFunc(t.unresolved, writes) || slices.ContainsFunc(t.branches, writes)
}
