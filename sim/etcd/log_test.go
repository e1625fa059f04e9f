// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"pgregory.net/rapid"

	_ "github.com/ringproof/ringproof/internal/needs" // the seed, in CI
)

// TestWhoseFindsTheLast: the last index of a log is found from its end, as it is by
// reading all of it. It catches an entry that a snapshot from the leader did away
// with, and one from before the snapshot that a start begins with.
func TestWhoseFindsTheLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := NewDir()
		d.add(record{owner: &owner{member: 1, cluster: 2}})
		for range rapid.IntRange(0, 12).Draw(t, "records") {
			d.add(anyRecord(t))
		}
		want, l := uint64(0), d.read()
		if l.snap != nil {
			want = l.snap.index()
		}
		if n := len(l.entries); n > 0 {
			want = l.entries[n-1].GetIndex()
		}
		_, _, last, found, err := d.Whose()
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want, last, "%v", d)
	})
}

// TestForgottenHardStatesToldBatchesApart: no file of a real log gets shorter, so what lies behind a
// hole tells of it also after a snapshot, whose log is kept for those who are behind.
func TestForgottenHardStatesToldBatchesApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, last := &Dir{}, uint64(0)
		d.add(record{owner: &owner{member: 1, cluster: 2}})
		for range rapid.IntRange(2, 20).Draw(t, "records") {
			if last > 0 && rapid.Bool().Draw(t, "hard") {
				d.add(record{hard: hard{term: 1, commit: last}})
				continue
			}
			last++
			d.add(record{entry: &raftpb.Entry{Index: new(last)}})
		}
		from := rapid.IntRange(0, d.wal.Len()-1).Draw(t, "from")
		behind := d.wal.Slice()[from:]
		want, first := batches(behind), firstEntry(behind)
		s := newState()
		s.index = last
		d.add(record{hard: hard{term: 1, commit: last}})
		d.add(record{snap: &snapshot{state: s}})
		d.markSynced(d.end(), last)
		all := d.wal.Slice()
		got := first != nil && batches(all[slices.IndexFunc(all, func(r record) bool { return r.entry == first }):])
		require.Equal(t, want, got, "%v", behind)
	})
}

func firstEntry(all []record) *raftpb.Entry {
	for _, r := range all {
		if r.entry != nil {
			return r.entry
		}
	}
	return nil
}

func anyRecord(t *rapid.T) record {
	index := rapid.Uint64Range(1, 6).Draw(t, "index")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return record{hard: hard{term: 1, commit: index}}
	case 1:
		s := newState()
		s.index = index
		return record{snap: &snapshot{state: s, received: rapid.Bool().Draw(t, "received")}}
	}
	return record{entry: &raftpb.Entry{Index: &index}}
}
