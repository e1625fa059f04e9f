// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package mvcc is the keyspace of a simulated etcd: the part of the replicated
// state machine that keys, revisions, transactions, leases and watches live
// in. It follows etcd 3.7.3, and 3.5 and 3.6 where their answers differ. It is
// pure: equal calls on equal stores give equal answers.
//
// What a store is given and what it answers is shared, not copied: neither a
// request nor a key-value of an answer may be changed afterwards.
package mvcc

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"k8s.io/utils/third_party/forked/golang/btree"
)

// Release is the minor release of etcd that a store answers like. What a store
// holds never depends on it: members of different releases stay equal.
type Release uint8

// The releases whose answers differ.
const (
	V3_7 Release = iota
	V3_6
	V3_5
)

// degree is what etcd gives its own index.
const degree = 32

// Store is one member's keyspace. It is for one thread.
type Store struct {
	// Release may be set at any time, as a member's binary may be replaced.
	Release Release
	// Unheard says that nobody reads what Put, DeleteRange and Txn return: of the
	// members that apply a request one answers it. Then only their errors count.
	Unheard bool

	revision   int64
	compactRev int64
	pending    int32 // changes made in revision+1, which isn't complete yet

	// head has the latest change of every key, a deletion too until it is
	// compacted: a read of an older revision begins there.
	head *btree.BTree[*change]
	// floor has the keys as they were at compactRev.
	floor *btree.BTree[*change]
	// edge is what compactRev itself did to the keys, in order: a watch may
	// still begin there, though nothing can be read below it.
	edge []*change
	// log is every change since compactRev, in order; the first has the
	// sequence number begin.
	log   []*change
	begin int64

	leases   *btree.BTree[lease]
	attached *btree.BTree[attachment]

	hashes []compactionHash
	summed summed
	used   int64 // bytes of the changes that are kept
	file   int64 // bytes of the file, which only Defragment makes smaller

	probe  change // what trees are searched with: a search allocates nothing
	nobody answers
}

// answers are what is told to nobody.
type answers struct {
	header pb.ResponseHeader
	put    pb.PutResponse
	remove pb.DeleteRangeResponse
	txn    pb.TxnResponse
}

// change is a put or a deletion of one key. It is never altered once its
// request is carried out: stores cloned from one another share it.
type change struct {
	kv      mvccpb.KeyValue // of a deletion only the key and the revision, as in etcd's events
	seq     int64           // its place among all changes of the store
	before  int64           // the place of this key's change before it; -1: none since compactRev
	sub     int32           // its place in its revision
	size    int32           // bytes in the file
	deleted bool
}

// Headed returns an empty response and the header for it, in one piece of memory:
// they live as long as each other.
func Headed[R any]() (*R, *pb.ResponseHeader) {
	both := &struct {
		response R
		header   pb.ResponseHeader
	}{}
	return &both.response, &both.header
}

func (c *change) main() int64 { return c.kv.ModRevision }

func byKey(a, b *change) bool { return bytes.Compare(a.kv.Key, b.kv.Key) < 0 }

// New is an empty keyspace: revision 1, never compacted.
func New() *Store {
	s := &Store{
		revision:   1,
		compactRev: -1,
		head:       btree.New(degree, byKey),
		floor:      btree.New(degree, byKey),
		leases:     btree.New(degree, byID),
		attached:   btree.New(degree, byLease),
	}
	s.file = s.SizeInUse()
	return s
}

// Clone is a store of its own with the same history, made without copying it.
// Like etcd's snapshots it doesn't carry the hashes that compactions left in
// memory.
func (s *Store) Clone() *Store {
	n := len(s.log)
	return &Store{
		Release:    s.Release,
		revision:   s.revision,
		compactRev: s.compactRev,
		head:       s.head.Clone(),
		floor:      s.floor.Clone(),
		edge:       s.edge,
		log:        s.log[:n:n], // full: the clone's next change goes to an array of its own
		begin:      s.begin,
		leases:     s.leases.Clone(),
		attached:   s.attached.Clone(),
		used:       s.used,
		file:       s.file,
	}
}

// Revision is that of the last change; 1 before there is any.
func (s *Store) Revision() int64 { return s.revision }

// CompactRevision is the oldest revision that can be read; -1, which is also
// what HashKV reports, when none was ever compacted.
func (s *Store) CompactRevision() int64 { return s.compactRev }

// current is the revision that a read sees: within a transaction that changed
// something, its own.
func (s *Store) current() int64 {
	if s.pending > 0 {
		return s.revision + 1
	}
	return s.revision
}

// complete ends the revision in the making: all changes since the last call are
// one revision, and none is no revision.
func (s *Store) complete() {
	if s.pending > 0 {
		s.revision++
		s.pending = 0
		s.file = max(s.file, s.SizeInUse())
	}
}

func (s *Store) put(key, value []byte, lease int64) {
	c := &change{kv: mvccpb.KeyValue{Key: key, Value: value, Lease: lease, Version: 1}}
	c.kv.CreateRevision = s.revision + 1
	old := s.record(c)
	held := int64(0)
	if old != nil && !old.deleted {
		c.kv.CreateRevision = old.kv.CreateRevision
		c.kv.Version = old.kv.Version + 1
		held = old.kv.Lease
	}
	s.attach(key, held, lease)
}

// remove deletes a key that is there.
func (s *Store) remove(c *change) {
	s.attach(c.kv.Key, c.kv.Lease, 0)
	s.record(&change{kv: mvccpb.KeyValue{Key: c.kv.Key}, deleted: true})
}

// record makes c the latest change of its key, and gives the one before.
func (s *Store) record(c *change) *change {
	c.kv.ModRevision = s.revision + 1
	c.seq, c.before = s.begin+int64(len(s.log)), -1
	c.sub = s.pending
	s.pending++
	c.size = int32(perChange + len(c.kv.Key) + len(c.kv.Value))
	s.used += int64(c.size)
	s.log = append(s.log, c)
	old, ok := s.head.ReplaceOrInsert(c)
	if !ok {
		return nil
	}
	c.before = old.seq
	return old
}

// older is the change of c's key before it, as far as it is kept.
func (s *Store) older(c *change) *change {
	if c.before >= s.begin {
		return s.log[c.before-s.begin]
	}
	if c.before < 0 || c.seq < s.begin {
		return nil // there is none, or it is compacted as c itself is
	}
	old, _ := s.floor.Get(c)
	return old
}

// at is the put that a read of c's key at a revision finds, from c on back; nil
// when the key isn't there.
func (s *Store) at(c *change, revision int64) *change {
	for c != nil && c.main() > revision {
		c = s.older(c)
	}
	if c == nil || c.deleted {
		return nil
	}
	return c
}

// get is a single key at a revision; nil when it isn't there.
func (s *Store) get(key []byte, revision int64) *change {
	s.probe.kv.Key = key
	head, _ := s.head.Get(&s.probe)
	return s.at(head, revision)
}

// each visits the keys from key up to end, without it, as they were at a
// revision. As in etcd's requests an empty end means key alone, and a zero byte
// no end. No key may be changed meanwhile.
func (s *Store) each(key, end []byte, revision int64, visit func(*change)) {
	if len(end) == 0 {
		if c := s.get(key, revision); c != nil {
			visit(c)
		}
		return
	}
	toEnd := endless(end)
	s.probe.kv.Key = key
	s.head.AscendGreaterOrEqual(&s.probe, func(head *change) bool {
		if !toEnd && bytes.Compare(head.kv.Key, end) >= 0 {
			return false
		}
		if c := s.at(head, revision); c != nil {
			visit(c)
		}
		return true
	})
}

// endless reports whether the end of a range is the zero byte that stands for
// none: the wire knows no difference between an empty end and a missing one.
func endless(end []byte) bool { return len(end) == 1 && end[0] == 0 }
