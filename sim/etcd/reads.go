// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"encoding/binary"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3"
)

// readRetry is how long etcd waits for a read index before it asks again.
const readRetry = 500 * time.Millisecond

// reads are linearizable reads. All that come while one index is being
// confirmed share the next.
type reads struct {
	server  *Server
	waiting []func(error)
	round   []func(error)
	asked   []uint64 // the IDs of this round's questions
	index   uint64   // confirmed, and not applied yet
	begin   time.Duration
	retry   time.Duration
}

// read calls f once what was committed by now is applied here.
func (s *Server) read(f func(error)) {
	s.reads.waiting = append(s.reads.waiting, f)
	s.reads.next()
}

func (r *reads) next() {
	if len(r.round) > 0 || len(r.waiting) == 0 || r.server.over {
		return
	}
	r.round, r.waiting = r.waiting, nil
	r.begin = r.server.now()
	r.ask()
}

func (r *reads) ask() {
	s := r.server
	id := s.ids.next()
	r.asked = append(r.asked, id)
	r.retry = s.now() + readRetry
	s.raft().ReadIndex(binary.BigEndian.AppendUint64(nil, id))
	s.advance()
}

func (r *reads) pending() bool { return len(r.round) > 0 && r.index == 0 }

func (r *reads) confirm(rs raft.ReadState) {
	if !r.pending() || len(rs.RequestCtx) != 8 || !slices.Contains(r.asked, binary.BigEndian.Uint64(rs.RequestCtx)) {
		return // the answer to a round that was given up
	}
	r.index = rs.Index
	r.applied()
}

// applied ends the round if its index is applied.
func (r *reads) applied() {
	if r.index > 0 && r.server.state.index >= r.index {
		r.end(nil)
	}
}

func (r *reads) end(err error) {
	round := r.round
	r.round, r.asked, r.index = nil, nil, 0
	for _, f := range round {
		f(err)
	}
	r.next()
}

func (r *reads) look(now time.Duration) {
	switch {
	case !r.pending():
	case now-r.begin >= r.server.config.ReqTimeout():
		r.end(rpctypes.ErrGRPCTimeout)
	case now >= r.retry:
		r.ask()
	}
}

func (r *reads) leaderChanged() {
	if r.pending() {
		r.end(rpctypes.ErrGRPCLeaderChanged)
	}
}

// firstCommit is the first entry of a term: before it a leader answers no
// read, and has dropped what it was asked.
func (r *reads) firstCommit() {
	if r.pending() {
		r.ask()
	}
}
