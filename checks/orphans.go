// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"maps"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// adopt gives the deletions of each revision that no answered operation owns to
// who may have made them: the end of a lease, or a write without an answer.
func (t *timeline) adopt(o open, orphans map[int64][]string) {
	under := t.spells()
	var found []orphan
	for _, revision := range slices.Sorted(maps.Keys(orphans)) {
		keys := orphans[revision]
		if owner, ok := t.owner[revision]; ok { // a transaction, another change of which was seen later
			for _, key := range keys {
				t.agree(owner, &ringproof.WatchEvent{Revision: revision, Delete: true, KV: ringproof.KV{Key: key}})
			}
			continue
		}
		found = append(found, orphan{revision, keys, t.makers(o, under, keys, revision)})
	}
	for i, m := range assign(found) {
		t.take(o, found[i], m)
	}
}

// orphan is the deletions of one revision, and who may have made them.
type orphan struct {
	revision int64
	keys     []string
	makers   []maker // the likeliest first
}

// maker is an operation that may have deleted keys.
type maker struct {
	op    int
	lease *lease // whose end it is, if it is one
	again bool   // it may be taken for several revisions
	sure  bool   // all that was deleted was under the lease
}

// makers lists who may have deleted the keys at the revision. A lease that leaves
// a key behind did not end, unless nothing else explains it.
func (t *timeline) makers(o open, under map[string][]spell, keys []string, revision int64) []maker {
	whole, partly := t.endsAt(under, keys, revision)
	all := whole
	for _, op := range o.deletes[keys[0]] {
		each := &t.h.Operations[op]
		other := slices.ContainsFunc(keys, func(key string) bool { return !slices.Contains(o.deletes[key], op) })
		if other || each.Refused || o.settled[op] != 0 || t.floor[op] >= revision {
			continue
		}
		if each.Request.General() {
			all = append(all, maker{op: op, again: true})
		} else if len(keys) == 1 {
			all = append(all, maker{op: op})
		}
	}
	if len(all) == 0 {
		return partly
	}
	return all
}

// assign chooses for each of the orphans one of its makers, so that as many as
// possible have one. Which delete of a key was done first nothing tells: one that
// is taken for a revision gives way if a later revision has no other.
func assign(orphans []orphan) []maker {
	holder := map[int]int{} // by operation
	chosen := make([]maker, len(orphans))
	var find func(i int, tried map[int]bool) bool
	find = func(i int, tried map[int]bool) bool {
		for _, m := range orphans[i].makers {
			if tried[m.op] {
				continue
			}
			tried[m.op] = true
			if other, held := holder[m.op]; !held || m.again || find(other, tried) {
				holder[m.op], chosen[i] = i, m
				return true
			}
		}
		return false
	}
	for i := range orphans {
		if !find(i, map[int]bool{}) {
			chosen[i].op = -1
		}
	}
	return chosen
}

// take has the maker own what it deleted. A transaction that may have led to
// another branch elsewhere is taken to have done no more than was seen.
func (t *timeline) take(o open, of orphan, m maker) {
	if m.op < 0 {
		t.wrong(-1, -1, -1, of.revision, "expected only deletions that clients asked for, a watch saw %s deleted at revision %d", strings.Join(of.keys, ", "), of.revision)
		return
	}
	t.confuse(of)
	if !m.again {
		o.settled[m.op] = of.revision
	}
	if l := m.lease; l != nil {
		l.ended, l.doubtful = of.revision, len(of.makers) > 1 || !m.sure
		if l.doubtful {
			t.branches = append(t.branches, m.op)
		}
	}
	if t.h.Operations[m.op].Request.General() {
		for _, key := range of.keys {
			t.done[of.revision] = append(t.done[of.revision], act{request: &ringproof.Request{Kind: ringproof.RequestDelete, Key: key}})
		}
	}
	t.own(m.op, of.revision)
}

// confuse notes the keys that several may have deleted, and of which watches
// didn't see all: who is taken for this revision may have been at one that nobody saw.
func (t *timeline) confuse(of orphan) {
	for _, key := range of.keys {
		if len(of.makers) > 1 && slices.ContainsFunc(of.makers, func(m maker) bool { return !t.covers(key, t.floor[m.op]+1, t.last) }) {
			t.confused[t.keys[key]] = true
		}
	}
}
