// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	stdlog "log"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// What raft is asked for in a second of the calm ring: ticks of 100 ms, writes
// and reads with a quorum, in turn through each of three members. Of the 50
// requests of the workload seven in ten write and a quarter reads with a quorum,
// as the agents and the observer do too; the others ask nothing of raft.
const (
	ticksASecond  = 10
	writesASecond = 35
	readsASecond  = 20
	put           = 64 // bytes of a write, about
)

// trio is three members of raft in one thread, and nothing else: a message is
// there as soon as it is sent, and a disk writes in no time.
type trio struct {
	nodes  [3]*raft.RawNode
	stores [3]*raft.MemoryStorage
	sent   []*raftpb.Message
	reads  int // that raft has answered
}

// raftAlone lets the same raft that the simulated world runs do what the calm
// ring asks of it. The world can't be faster than this.
func raftAlone(context.Context) (simulated float64, err error) {
	t, err := newTrio()
	for n := 0; n < int(calmFor/time.Second) && err == nil; n++ {
		err = t.second(n)
	}
	if err != nil {
		return 0, fmt.Errorf("raft alone: %w", err)
	}
	return calmFor.Seconds(), nil
}

func newTrio() (*trio, error) {
	t := &trio{}
	initialMembers := []raft.Peer{{ID: 1}, {ID: 2}, {ID: 3}}
	for i, initialMember := range initialMembers {
		t.stores[i] = raft.NewMemoryStorage()
		node, err := raft.NewRawNode(&raft.Config{ID: initialMember.ID, ElectionTick: 10, HeartbeatTick: 1, Storage: t.stores[i],
			MaxSizePerMsg: 512 << 10, MaxInflightMsgs: 512, CheckQuorum: true, PreVote: true,
			Logger: &raft.DefaultLogger{Logger: stdlog.New(io.Discard, "", 0)}})
		if err == nil {
			err = node.Bootstrap(initialMembers)
		}
		if err != nil {
			return nil, err
		}
		t.nodes[i] = node
	}
	t.settle()
	err := t.nodes[0].Campaign()
	t.settle()
	return t, err
}

// second does what a second asks for, evenly.
func (t *trio) second(n int) error {
	for i := range writesASecond {
		if err := t.nodes[i%3].Propose(make([]byte, put)); err != nil {
			return err
		}
		t.settle()
		if i < readsASecond {
			t.nodes[i%3].ReadIndex(binary.BigEndian.AppendUint64(nil, uint64(n*readsASecond+i+1)))
			t.settle()
		}
		if i < ticksASecond {
			for _, node := range t.nodes {
				node.Tick()
			}
			t.settle()
		}
	}
	if n%100 == 99 {
		for _, store := range t.stores {
			last, _ := store.LastIndex()
			if err := store.Compact(last - writesASecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle handles what is ready and delivers what is sent, until nothing is left.
func (t *trio) settle() {
	for busy := true; busy; {
		busy = false
		for i, node := range t.nodes {
			for node.HasReady() {
				busy = true
				t.take(i, node.Ready())
			}
		}
		sent := t.sent
		t.sent = nil
		for _, m := range sent {
			busy = true
			_ = t.nodes[m.GetTo()-1].Step(m) // what raft doesn't like it drops
		}
	}
}

func (t *trio) take(i int, rd raft.Ready) {
	if !raft.IsEmptyHardState(rd.HardState) {
		_ = t.stores[i].SetHardState(rd.HardState)
	}
	_ = t.stores[i].Append(rd.Entries)
	for _, e := range rd.CommittedEntries {
		if e.GetType() == raftpb.EntryConfChange {
			var change raftpb.ConfChange
			_ = proto.Unmarshal(e.Data, &change)
			t.nodes[i].ApplyConfChange(&change)
		}
	}
	t.reads += len(rd.ReadStates)
	t.sent = append(t.sent, rd.Messages...)
	t.nodes[i].Advance(rd)
}
