// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package mvcc

import (
	"sort"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Compact forgets what only revisions before this one can show: of every key
// the last put up to revision stays if the key was there then. A deletion
// stays while it is at revision itself, for the watches that begin there, as
// it does since etcd 3.5.16. It fails with ErrGRPCCompacted, for the revision
// of the last compaction too, and ErrGRPCFutureRev.
func (s *Store) Compact(revision int64) error {
	switch {
	case revision <= s.compactRev:
		return rpctypes.ErrGRPCCompacted
	case revision > s.revision:
		return rpctypes.ErrGRPCFutureRev
	}
	n := s.logged(revision + 1)
	s.keepHash(s.compactionHash(revision))
	for _, c := range s.edge {
		if c.deleted {
			s.used -= int64(c.size)
		}
	}
	for _, c := range s.log[:n] {
		s.settle(c, revision)
	}
	first := s.logged(revision)
	s.edge = s.edgeOf(s.log[first:n])
	s.log = append(make([]*change, 0, len(s.log)-n+64), s.log[n:]...)
	s.begin += int64(n)
	s.summed = summed{}
	s.compactRev = revision
	return nil
}

// logged is how many changes of the log are before a revision.
func (s *Store) logged(revision int64) int {
	return sort.Search(len(s.log), func(i int) bool { return s.log[i].main() >= revision })
}

// settle carries a change that is compacted over into the floor.
func (s *Store) settle(c *change, revision int64) {
	if !c.deleted {
		if old, found := s.floor.ReplaceOrInsert(c); found {
			s.used -= int64(old.size)
		}
		return
	}
	if old, found := s.floor.Delete(c); found {
		s.used -= int64(old.size)
	}
	if c.main() < revision {
		s.used -= int64(c.size)
	}
	if head, _ := s.head.Get(c); head == c {
		s.head.Delete(c)
	}
}

// edgeOf leaves out what is gone again at the end of its own revision: a put in
// one nested transaction that a later one deletes.
func (s *Store) edgeOf(changes []*change) (edge []*change) {
	for _, c := range changes {
		if last, _ := s.floor.Get(c); c.deleted || last == c {
			edge = append(edge, c)
		}
	}
	return edge
}

const (
	page      = 4096
	emptyFile = 5 * page // what etcd's own buckets take
	perChange = 80       // of a change beside its key and value, the free part of its page included
)

// SizeInUse models the bytes of the file that hold something.
func (s *Store) SizeInUse() int64 {
	return emptyFile + (s.used+page-1)/page*page
}

// Size models the bytes of the file: compaction leaves it as large as it was.
func (s *Store) Size() int64 { return s.file }

// Reopen takes the file as another store left it, of the same log.
func (s *Store) Reopen(other *Store) { s.file = max(other.file, s.SizeInUse()) }

// Defragment makes the file as small as what it holds.
func (s *Store) Defragment() { s.file = s.SizeInUse() }
