// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package mvcc

import (
	"bytes"
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// ErrEmptyWatchRange has the text with which etcd cancels a watch whose range
// ends before it begins.
var ErrEmptyWatchRange = errors.New("mvcc: watcher range is empty")

// Watch is a place in the history of a store, and what is looked for from there
// on. It makes no work for the store: it is asked with Next.
type Watch struct {
	store           *Store
	key, end        []byte
	noPut, noDelete bool
	previous        bool  // events show what was there before
	next            int64 // the first revision that wasn't looked at
	resume          int64 // where it begins again in a restored store
	behind          bool  // hasn't yet caught up with the store
}

// Watch begins at the start revision, or after the current one when that is 0.
// An empty key is the smallest, a zero byte. The error is the reason with which
// etcd cancels the watch in the answer that creates it; a start that is
// compacted comes out of Next.
func (s *Store) Watch(req *pb.WatchCreateRequest) (*Watch, error) {
	if req.StartRevision < 0 {
		return nil, rpctypes.ErrCompacted
	}
	w := &Watch{
		store:    s,
		key:      req.Key,
		end:      req.RangeEnd,
		noPut:    slices.Contains(req.Filters, pb.WatchCreateRequest_NOPUT),
		noDelete: slices.Contains(req.Filters, pb.WatchCreateRequest_NODELETE),
		previous: req.PrevKv,
		next:     req.StartRevision,
	}
	if len(w.key) == 0 {
		w.key = []byte{0}
	}
	if len(w.end) != 0 && !endless(w.end) && bytes.Compare(w.key, w.end) >= 0 {
		return nil, ErrEmptyWatchRange
	}
	if w.next == 0 {
		w.next = s.revision + 1
	}
	w.resume, w.behind = w.next, w.next <= s.revision
	return w, nil
}

// Restore moves the watch to the store that its member was sent as a snapshot.
// As in etcd it goes back to its last event: one that saw none for long is lost
// when the new store is compacted beyond that, though it missed nothing.
func (w *Watch) Restore(s *Store) {
	w.store, w.next, w.behind = s, w.resume, w.resume <= s.revision
}

// Next gives the events that weren't given yet, in order and all of a revision
// together. upTo is the revision that the watch has now seen all of: the
// current one, unless limit revisions with events of its keys came before (0:
// no limit; etcd's is 1,000). When compacted isn't 0, events may be lost: etcd
// cancels the watch with this compact revision. It costs nothing while no
// revision is new.
func (w *Watch) Next(limit int) (events []*mvccpb.Event, upTo, compacted int64) {
	s := w.store
	switch {
	case w.next > s.revision:
		return nil, s.revision, 0
	case w.next < s.compactRev:
		return nil, 0, s.compactRev
	}
	b := batch{limit: limit}
	if w.next == s.compactRev {
		for _, c := range s.edge {
			w.take(&b, c)
		}
	}
	fresh := s.log[s.logged(w.next):]
	w.next, upTo = s.revision+1, s.revision
	for _, c := range fresh {
		if !w.take(&b, c) {
			w.next, upTo = c.main(), c.main()-1
			break
		}
	}
	w.mark(b.last)
	return b.events, upTo, 0
}

// mark keeps the place that Restore goes back to, by etcd's rule: while a watch
// keeps up, only an event moves it.
func (w *Watch) mark(last int64) {
	caughtUp := w.next > w.store.revision
	switch {
	case w.behind || !caughtUp:
		w.resume = w.next
	case last > 0:
		w.resume = last + 1
	}
	w.behind = !caughtUp
}

// batch is what one call of Next gives.
type batch struct {
	events    []*mvccpb.Event
	limit     int
	revisions int   // with a change of the watch's keys, filtered or not
	last      int64 // the last such revision
}

// take adds an event, and refuses one that would exceed the limit.
func (w *Watch) take(b *batch, c *change) bool {
	if !w.covers(c.kv.Key) {
		return true
	}
	if c.main() != b.last {
		if b.limit > 0 && b.revisions == b.limit {
			return false
		}
		b.revisions++
		b.last = c.main()
	}
	switch {
	case c.deleted && !w.noDelete:
		b.events = append(b.events, w.event(mvccpb.Event_DELETE, c))
	case !c.deleted && !w.noPut:
		b.events = append(b.events, w.event(mvccpb.Event_PUT, c))
	}
	return true
}

func (w *Watch) covers(key []byte) bool {
	switch {
	case len(w.end) == 0:
		return bytes.Equal(key, w.key)
	case bytes.Compare(key, w.key) < 0:
		return false
	}
	return endless(w.end) || bytes.Compare(key, w.end) < 0
}

// event shows what was there before unless that can't be read any more, which
// etcd doesn't tell apart from a key that wasn't there.
func (w *Watch) event(kind mvccpb.Event_EventType, c *change) *mvccpb.Event {
	e := &mvccpb.Event{Type: kind, Kv: &c.kv}
	before := c.main() - 1
	if w.previous && before >= w.store.compactRev {
		if old := w.store.at(c, before); old != nil {
			e.PrevKv = &old.kv
		}
	}
	return e
}
