// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"fmt"
	"maps"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// snapshots keep the log short, here and for members that lag too far behind.
type snapshots struct {
	server       *Server
	disk, memory uint64 // indexes of the last ones
	force        bool   // at the next opportunity: the cluster's version went down
	asked        []*raftpb.Message
	incoming     map[uint64]*state // received with a message that raft hasn't taken yet
	inflight     int               // while one is sent the log isn't cut
}

const (
	memoryEvery     = 100 // entries, since 3.6
	askedAtMost     = 16
	releaseInflight = 30 * time.Second
)

// receive keeps a state until raft takes the message that brought it, or never.
func (n *snapshots) receive(body *state) {
	maps.DeleteFunc(n.incoming, func(at uint64, _ *state) bool { return at <= n.server.state.index })
	n.incoming[body.index] = body
}

// look takes a snapshot if one is due, and sends one that raft asked for.
func (n *snapshots) look() {
	s := n.server
	if s.replay != nil {
		return // etcd takes them of what raft has applied
	}
	at := s.state.index
	toDisk := at-n.disk > s.config.SnapCount || n.force && at != n.disk
	toMemory := s.since3(6) && at > n.memory+memoryEvery
	if toDisk || toMemory {
		n.take(toDisk)
	}
	if len(n.asked) > 0 {
		m := n.asked[0]
		n.asked = n.asked[1:]
		n.send(m)
	}
}

func (n *snapshots) take(toDisk bool) {
	s := n.server
	at := s.state.index
	s.trail.snap, n.memory = metadata(s.state), at
	if toDisk {
		if err := s.data.noFile(fmt.Sprintf("/member/snap/%016x-%016x.snap", metadata(s.state).GetTerm(), at)); err != nil {
			why := err.Error()
			if s.since3(6) {
				why = errJob // that panics
			}
			s.exit(2, why)
			return
		}
		n.force, n.disk = false, at
		s.data.add(record{snap: &snapshot{state: s.state.clone()}})
		s.data.flush()
		mark := s.data.end()
		s.host.Sync(s.data, func(err error) { n.saved(mark, err) })
	}
	if n.inflight > 0 {
		return
	}
	s.trail.cut(max(1, at-min(at, s.config.CatchUp)))
}

// saved marks the log up to the snapshot as safe.
func (n *snapshots) saved(mark uint64, err error) {
	s := n.server
	if err != nil {
		s.exit(2, "failed to save snapshot: "+err.Error())
		return
	}
	s.data.markSynced(mark, s.config.CatchUp)
}

// ask is raft's wish to send a snapshot: it knows an old one, and will be sent
// what is applied by then. What is too much is dropped; raft asks again.
func (n *snapshots) ask(m *raftpb.Message) {
	if len(n.asked) < askedAtMost {
		n.asked = append(n.asked, m)
	}
}

func (n *snapshots) send(m *raftpb.Message) {
	s := n.server
	to := m.GetTo()
	p := s.peers.peers.of(to)
	if p == nil {
		return
	}
	body := s.state.clone()
	m = proto.Clone(m).(*raftpb.Message)
	m.Snapshot = &raftpb.Snapshot{Metadata: metadata(body)}
	packet := s.peers.packet(m)
	packet.Body = body
	n.inflight++
	l := p.lines[p.picked] // a stream of its own
	s.host.Ask(l.url, packet, func(_ any, err error) {
		if s.over {
			return
		}
		if err != nil {
			n.inflight--
			p.lose(l, err)
			s.raft().ReportSnapshot(to, raft.SnapshotFailure)
			s.advance()
			return
		}
		p.activate()
		s.host.After(releaseInflight, func() { n.inflight-- })
		s.raft().ReportSnapshot(to, raft.SnapshotFinish)
		s.advance()
	})
}
