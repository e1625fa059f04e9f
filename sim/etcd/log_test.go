// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
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
