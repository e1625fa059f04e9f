// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package host

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// TestLastWords: the reason of a panic stands before the stacks of all goroutines, and one
// of an earlier life is none.
func TestLastWords(t *testing.T) {
	stacks := strings.Repeat("goroutine 7 [select]:\n\tmain.go:1\n", 1000)
	log := "{\"level\":\"info\",\"msg\":\"up\"}\n"
	require.Equal(t, "panic: tocommit(9) is out of range\n", lastWords(log + "panic: tocommit(9) is out of range\n" + stacks)[:35])
	require.Len(t, lastWords(log+stacks+strings.Repeat(log, 100)), 2048)
	require.NotContains(t, lastWords(log+"panic: it\n"+stacks+log), "panic")
	require.NotContains(t, lastWords(log+"panic: it\n"+stacks+"flag provided but not defined: -x\nUsage:\n\n  etcd [flags]\n"), "panic")
}

// TestInherited names what an operator has set in vain, and nothing else.
func TestInherited(t *testing.T) {
	before := Inherited()
	t.Setenv("ETCD_FORCE_NEW_CLUSTER", "true")
	t.Setenv("XETCD_NAME", "x")
	require.ElementsMatch(t, append(before, "ETCD_FORCE_NEW_CLUSTER"), Inherited())
}

// TestForcedAgain: of a log that was made that of a ring of one twice, as the ring had grown
// in between, the second time counts.
func TestForcedAgain(t *testing.T) {
	removal := func(index, id, whom uint64) *raftpb.Entry {
		change := &raftpb.ConfChange{Id: &id, Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: &whom}
		text, err := proto.Marshal(change)
		require.NoError(t, err)
		return &raftpb.Entry{Index: &index, Type: raftpb.EntryConfChange.Enum(), Data: text}
	}
	once := []*raftpb.Entry{removal(10, 0, 2), removal(11, 0, 3)}
	require.EqualValues(t, 10, WAL{Member: 1}.With(once).Forced)
	asked := append(once, removal(30, 77, 4))
	require.EqualValues(t, 10, WAL{Member: 1}.With(asked).Forced)
	again := append(asked, removal(50, 0, 5), removal(51, 0, 6))
	require.EqualValues(t, 50, WAL{Member: 1}.With(again).Forced)
}
