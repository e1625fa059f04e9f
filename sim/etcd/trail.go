// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// trail is what raft sees of the log: the entries in memory. raft.MemoryStorage
// does the same with a lock, a copy of all entries at every cut, and a size
// computed by reflection at every read.
type trail struct {
	hard    *raftpb.HardState
	conf    *raftpb.ConfState // as of what is applied when raft starts
	snap    *raftpb.SnapshotMetadata
	before  uint64 // index and term of what precedes the entries
	term    uint64
	entries []*raftpb.Entry
}

var _ raft.Storage = (*trail)(nil)

func newTrail(log log, conf *raftpb.ConfState) *trail {
	t := &trail{hard: log.hard.state(), conf: conf, snap: &raftpb.SnapshotMetadata{ConfState: &raftpb.ConfState{}}}
	if log.snap != nil {
		t.restore(metadata(log.snap.state))
	}
	t.append(log.entries)
	return t
}

func metadata(s *state) *raftpb.SnapshotMetadata {
	return &raftpb.SnapshotMetadata{Index: new(s.index), Term: new(s.term), ConfState: s.conf}
}

// InitialState is what a restart begins with.
func (t *trail) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return t.hard, t.conf, nil
}

// Entries returns those from lo up to, and not including, hi: at least one, and
// then as many as fit in a number of bytes.
func (t *trail) Entries(lo, hi, atMost uint64) ([]*raftpb.Entry, error) {
	const frame = 24 // what an entry has around its payload
	if lo <= t.before {
		return nil, raft.ErrCompacted
	}
	some := t.entries[lo-t.before-1 : hi-t.before-1 : hi-t.before-1]
	size := uint64(0)
	for i, e := range some {
		if size += uint64(len(e.Data)) + frame; size > atMost && i > 0 {
			return some[:i:i], nil
		}
	}
	return some, nil
}

// Term is that of an entry, or of what precedes them.
func (t *trail) Term(i uint64) (uint64, error) {
	switch {
	case i < t.before:
		return 0, raft.ErrCompacted
	case i == t.before:
		return t.term, nil
	case i > t.last():
		return 0, raft.ErrUnavailable
	}
	return t.entries[i-t.before-1].GetTerm(), nil
}

func (t *trail) last() uint64 { return t.before + uint64(len(t.entries)) }

// LastIndex is that of the last entry.
func (t *trail) LastIndex() (uint64, error) { return t.last(), nil }

// FirstIndex is that of the first entry.
func (t *trail) FirstIndex() (uint64, error) { return t.before + 1, nil }

// Snapshot tells raft up to where it can have one sent; the server replaces it
// by one of what is applied then.
func (t *trail) Snapshot() (*raftpb.Snapshot, error) {
	return &raftpb.Snapshot{Metadata: t.snap}, nil
}

// restore begins anew after a snapshot.
func (t *trail) restore(snap *raftpb.SnapshotMetadata) {
	t.snap, t.before, t.term, t.entries = snap, snap.GetIndex(), snap.GetTerm(), nil
}

// append replaces what there is from the first of the entries on. Slices that
// raft was given keep what they hold.
func (t *trail) append(entries []*raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	keep := entries[0].GetIndex() - t.before - 1
	if keep < uint64(len(t.entries)) {
		t.entries = t.entries[:keep:keep]
	}
	t.entries = append(t.entries, entries...)
}

// cut forgets the entries up to and including an index.
func (t *trail) cut(at uint64) {
	if at <= t.before {
		return
	}
	t.term, _ = t.Term(at)
	t.entries, t.before = t.entries[at-t.before:], at
}
