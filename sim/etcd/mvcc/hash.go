// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package mvcc

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/encoding/protowire"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// compactionHash is the hash of the changes up to a compaction, made from what
// the compaction before it had left.
type compactionHash struct {
	hash                 uint32
	revision, compactRev int64
}

// Hash is etcd's HashKV, bit for bit: it is equal for stores of equal history
// since the same compaction. Revision 0 is the current one. A revision that was
// one of the last ten compactions gives the hash from just before it, with the
// compact revision of that time. It fails with ErrGRPCCompacted and
// ErrGRPCFutureRev.
func (s *Store) Hash(revision int64) (hash uint32, hashed, compactRev int64, err error) {
	for _, h := range s.hashes {
		if h.revision == revision {
			return h.hash, h.revision, h.compactRev, nil
		}
	}
	switch {
	case revision > 0 && revision < s.compactRev:
		return 0, 0, 0, rpctypes.ErrGRPCCompacted
	case revision > s.revision:
		return 0, 0, 0, rpctypes.ErrGRPCFutureRev
	case revision == 0:
		revision = s.revision
	}
	return s.hashUpTo(revision, s.anyKey(revision)), revision, s.compactRev, nil
}

func (s *Store) compactionHash(revision int64) compactionHash {
	some := s.anyKey(revision) || slices.ContainsFunc(s.log[s.logged(revision):s.logged(revision+1)], func(c *change) bool { return c.deleted })
	return compactionHash{s.hashUpTo(revision, some), revision, s.compactRev}
}

// keepHash remembers the ten with the highest revisions, as etcd does.
func (s *Store) keepHash(h compactionHash) {
	s.hashes = append(s.hashes, h)
	if len(s.hashes) > 10 {
		s.hashes = s.hashes[1:]
	}
}

func (s *Store) anyKey(revision int64) (found bool) {
	s.head.Ascend(func(head *change) bool {
		found = s.at(head, revision) != nil
		return !found
	})
	return found
}

// hashUpTo hashes the changes up to a revision in their order. Of those up to
// compactRev it leaves out what a compaction at revision would forget, as
// another member may have made it already; and, by a rule of etcd's that is
// kept for the sake of its hashes, leaves out none when that would be all.
func (s *Store) hashUpTo(revision int64, some bool) uint32 {
	hash := crc32.Update(0, castagnoli, []byte("key")) // the name of the bucket
	var buffer []byte
	write := func(c *change) {
		buffer = c.encode(buffer[:0])
		hash = crc32.Update(hash, castagnoli, buffer)
	}
	for _, c := range s.compacted() {
		head, _ := s.head.Get(c)
		if c.main() <= revision && (!some || s.at(head, revision) == c) {
			write(c)
		}
	}
	n := s.logged(revision + 1)
	whole := s.floor.Len() == 0 // then a longer history hashes on where a shorter one ended
	first := 0
	if whole && s.summed.changes <= n && s.summed.changes > 0 {
		first, hash = s.summed.changes, s.summed.hash
	}
	for _, c := range s.log[first:n] {
		write(c)
	}
	if whole {
		s.summed = summed{n, hash}
	}
	return hash
}

// summed is the hash of the first changes of the log.
type summed struct {
	changes int
	hash    uint32
}

// compacted are the changes kept of the revisions up to compactRev, in order.
func (s *Store) compacted() []*change {
	all := make([]*change, 0, s.floor.Len())
	s.floor.Ascend(func(c *change) bool {
		all = append(all, c)
		return true
	})
	slices.SortFunc(all, func(a, b *change) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// encode is a change as etcd's file has it: the revision, and the key-value in
// its protocol buffer.
func (c *change) encode(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(c.main()))
	b = append(b, '_')
	b = binary.BigEndian.AppendUint64(b, uint64(c.sub))
	if c.deleted {
		b = append(b, 't')
		return appendBytes(b, 1, c.kv.Key)
	}
	b = appendBytes(b, 1, c.kv.Key)
	b = appendNumber(b, 2, c.kv.CreateRevision)
	b = appendNumber(b, 3, c.kv.ModRevision)
	b = appendNumber(b, 4, c.kv.Version)
	b = appendBytes(b, 5, c.kv.Value)
	return appendNumber(b, 6, c.kv.Lease)
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func appendNumber(b []byte, field protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}
