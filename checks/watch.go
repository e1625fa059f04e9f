// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// watchGuarantees compares each stream with the union of all streams and the
// acknowledged writes: what one stream saw, another that covers it must have.
var watchGuarantees = Check{
	Name:   "watch",
	Claim:  "Every watch stream is ordered, unique, atomic, reliable, resumable and bookmarkable, with right previous values and creations.",
	Source: "etcd's API guarantees for watch; etcd#18089, #20221: events lost or given twice",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		u := unite(h)
		if u.shown == 0 {
			return unknown("no watch stream showed an event")
		}
		for i := range h.Watches {
			if f, bad := u.judge(&h.Watches[i]); bad {
				return f
			}
		}
		return pass("%s, %s over %s", ringproof.Counted(len(h.Watches), "stream"), ringproof.Counted(u.shown, "event"), ringproof.Counted(len(u.revisions), "revision"))
	},
	suits: func(p ringproof.Plan) bool { return strings.Contains(p.Workload.Profile, "watch") },
}

// effect is one key changed at one revision, as streams and answers tell it.
type effect struct {
	revision int64
	key      string
	value    string
	lease    int64
	deleted  bool
}

// union is all that is known to have happened.
type union struct {
	t         *timeline // only its coverage and what it resolved are used
	effects   map[int64][]effect
	revisions []int64
	byKey     map[string][]effect
	shown     int
}

func unite(h *ringproof.History) *union {
	u := &union{t: rebuild(h), effects: map[int64][]effect{}, byKey: map[string][]effect{}}
	for _, w := range u.t.writes {
		if slices.Contains(u.t.branches, w.op) {
			continue // what it did only the streams know
		}
		u.t.made(w, func(r *ringproof.Request) {
			u.add(effect{w.revision, r.Key, r.Value, r.Lease, r.Kind == ringproof.RequestDelete})
		})
	}
	for i := range h.Watches {
		for e := range h.Watches[i].Events {
			if event := &h.Watches[i].Events[e]; !event.Bookmark {
				u.shown++
				u.add(effect{event.Revision, event.KV.Key, event.KV.Value, event.KV.Lease, event.Delete})
			}
		}
	}
	u.revisions = slices.Sorted(maps.Keys(u.effects))
	for _, r := range u.revisions {
		for _, e := range u.effects[r] {
			u.byKey[e.key] = append(u.byKey[e.key], e)
		}
	}
	return u
}

func (u *union) add(e effect) {
	if e.deleted {
		e.value, e.lease = "", 0
	}
	at := u.effects[e.revision]
	if !slices.ContainsFunc(at, func(known effect) bool { return known.key == e.key }) {
		u.effects[e.revision] = append(at, e)
	}
}

// stream walks one watch.
type stream struct {
	*union
	w        *ringproof.Watch
	last     int64 // the greatest revision of an event
	bookmark int64 // the greatest revision of a bookmark
	keys     map[string]bool
	next     int // into revisions: what the stream must show next
}

func (u *union) judge(w *ringproof.Watch) (ringproof.Finding, bool) {
	s := stream{union: u, w: w, keys: map[string]bool{}}
	s.next, _ = slices.BinarySearch(u.revisions, spanOf(w).from)
	for i := range w.Events {
		if f, bad := s.see(&w.Events[i]); bad {
			return f, true
		}
	}
	if f, bad := s.whole(s.last); bad {
		return f, true
	}
	return ringproof.Finding{}, false
}

func (s *stream) see(e *ringproof.WatchEvent) (ringproof.Finding, bool) {
	if e.Bookmark {
		return s.mark(e)
	}
	switch {
	case !strings.HasPrefix(e.KV.Key, s.w.Prefix):
		return s.broke(e, "Filter", "expected keys under %q", s.w.Prefix)
	case e.Revision < s.w.Start:
		return s.broke(e, "Resumable", "expected revisions from %d on, as asked", s.w.Start)
	case s.bookmark > 0 && e.Revision <= s.bookmark:
		return s.broke(e, "Bookmarkable", "expected nothing up to revision %d after the bookmark that says so", s.bookmark)
	case e.Revision < s.last:
		return s.broke(e, "Ordered", "expected a revision of at least %d", s.last)
	case e.Revision == s.last && s.keys[e.KV.Key]:
		return s.broke(e, "Unique", "expected each change once")
	}
	if f, bad := s.advance(e); bad {
		return f, true
	}
	s.keys[e.KV.Key] = true
	if f, bad := s.content(e); bad {
		return f, true
	}
	return s.before(e)
}

// advance moves to the event's revision: the revision before it must be whole,
// and none between may be missing.
func (s *stream) advance(e *ringproof.WatchEvent) (ringproof.Finding, bool) {
	if e.Revision == s.last {
		return ringproof.Finding{}, false
	}
	if f, bad := s.whole(s.last); bad {
		return f, true
	}
	guarantee := "Reliable"
	if s.last == 0 {
		guarantee = "Resumable"
	}
	missing, ok := s.skipped(e.Revision - 1)
	s.last = e.Revision
	clear(s.keys)
	if ok {
		return s.broke(e, guarantee, "expected %s before it", missing)
	}
	return ringproof.Finding{}, false
}

// skipped returns the first change up to the revision that belongs to the
// stream and that it hasn't shown.
func (s *stream) skipped(upTo int64) (effect, bool) {
	for ; s.next < len(s.revisions) && s.revisions[s.next] <= upTo; s.next++ {
		r := s.revisions[s.next]
		if r <= s.last {
			continue
		}
		for _, e := range s.effects[r] {
			if strings.HasPrefix(e.key, s.w.Prefix) {
				return e, true
			}
		}
	}
	return effect{}, false
}

// whole checks that the stream has shown all keys of the revision.
func (s *stream) whole(revision int64) (ringproof.Finding, bool) {
	for _, e := range s.effects[revision] {
		if revision != 0 && strings.HasPrefix(e.key, s.w.Prefix) && !s.keys[e.key] {
			return s.broke(nil, "Atomic", "expected all of revision %d together, saw it without %s", revision, e)
		}
	}
	return ringproof.Finding{}, false
}

func (s *stream) mark(e *ringproof.WatchEvent) (ringproof.Finding, bool) {
	if e.Revision < s.last || e.Revision < s.bookmark {
		return s.broke(e, "Bookmarkable", "expected a bookmark of revision %d or later", max(s.last, s.bookmark))
	}
	if missing, ok := s.skipped(e.Revision); ok {
		return s.broke(e, "Bookmarkable", "expected %s before the bookmark", missing)
	}
	s.bookmark = e.Revision
	return ringproof.Finding{}, false
}

// content compares the event with what others saw of the same change.
func (s *stream) content(e *ringproof.WatchEvent) (ringproof.Finding, bool) {
	for _, known := range s.effects[e.Revision] {
		if known.key == e.KV.Key && (known.deleted != e.Delete || !e.Delete && (known.value != e.KV.Value || known.lease != e.KV.Lease)) {
			return s.broke(e, "Reliable", "expected %s, as another stream or an answer tells", known)
		}
	}
	return ringproof.Finding{}, false
}

// before checks what the event says of the key before it. Compaction may take
// the previous value, so none is always right; a wrong one never is.
func (s *stream) before(e *ringproof.WatchEvent) (ringproof.Finding, bool) {
	creates := !e.Delete && e.KV.CreateRevision == e.Revision
	if e.Create != creates && e.KV.CreateRevision != 0 {
		return s.broke(e, "IsCreate", "expected creation %t: it was created at revision %d", creates, e.KV.CreateRevision)
	}
	was, known := s.previous(e)
	if known && !e.Delete && e.Create != was.deleted {
		return s.broke(e, "IsCreate", "expected creation %t after %s", was.deleted, was)
	}
	if e.Prev == nil {
		return ringproof.Finding{}, false
	}
	switch {
	case e.Create:
		return s.broke(e, "PrevKV", "expected no previous value of a created key, saw %s", e.Prev.String())
	case e.Prev.Key != e.KV.Key || e.Prev.ModRevision >= e.Revision:
		return s.broke(e, "PrevKV", "expected an earlier value of the key, saw %s", e.Prev.String())
	case known && (was.deleted || was.revision != e.Prev.ModRevision || was.value != e.Prev.Value || was.lease != e.Prev.Lease):
		return s.broke(e, "PrevKV", "expected %s, saw %s", was, e.Prev.String())
	}
	return ringproof.Finding{}, false
}

// previous returns the key's change before the event, if watches cover what is
// between: else there may have been another.
func (s *stream) previous(e *ringproof.WatchEvent) (effect, bool) {
	all := s.byKey[e.KV.Key]
	n, _ := slices.BinarySearchFunc(all, e.Revision, func(a effect, r int64) int { return int(min(max(a.revision-r, -1), 1)) })
	if n == 0 {
		return effect{}, false
	}
	return all[n-1], s.t.covers(e.KV.Key, all[n-1].revision+1, e.Revision-1)
}

// String prints /w/1="v7" at revision 30.
func (e effect) String() string {
	if e.deleted {
		return fmt.Sprintf("%s deleted at revision %d", e.key, e.revision)
	}
	return fmt.Sprintf("%s=%q at revision %d%s", e.key, e.value, e.revision, underText(e.lease))
}

func (s *stream) broke(e *ringproof.WatchEvent, guarantee, format string, args ...any) (ringproof.Finding, bool) {
	at, saw := s.w.Closed, ""
	if e != nil {
		at = e.At
		saw = ", saw " + e.String()
		if e.Bookmark {
			saw = fmt.Sprintf(", saw a bookmark of revision %d", e.Revision)
		}
	}
	return fail(at, "%s is broken on the stream of client %d from %s (prefix %q, from revision %d): %s%s",
		guarantee, s.w.Client, s.w.Endpoint, s.w.Prefix, s.w.Start, fmt.Sprintf(format, args...), saw), true
}
