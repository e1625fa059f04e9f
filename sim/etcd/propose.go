// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"context"
	"errors"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// maxGap is how far what is applied may lag behind what is committed before
// etcd takes no more.
const maxGap = 5000

var (
	// errTooMany and errNotStarted go over gRPC without their code: etcd's own
	// table maps them to errors that gRPC doesn't know.
	errTooMany    = status.Error(codes.Unknown, "etcdserver: too many requests")
	errNotStarted = status.Error(codes.Unknown, "etcdserver: re-configuration failed due to not enough started members")
	errDeadline   = status.FromContextError(context.DeadlineExceeded).Err()
	errCanceled   = status.FromContextError(context.Canceled).Err()
)

// proposals are what waits to be applied, and what waits for a leader: raft
// takes a proposal only while it knows one.
type proposals struct {
	server *Server
	waits  map[uint64]*wait
	order  []*wait // by deadline, as they all have the same patience
	queue  []*wait
}

// wait is one proposal. Exactly one of data, change and forwarded is set.
type wait struct {
	id        uint64
	begin     time.Duration
	of        *Request // who may cease to wait; nil: this member's own
	data      []byte
	change    *raftpb.ConfChange
	forwarded *raftpb.Message
	done      func(any, error)
	proposed  bool
}

// propose puts a request to the ring and answers with what its application
// answered.
func (s *Server) propose(r *pb.InternalRaftRequest, done func(response any, err error)) {
	if s.committed > s.applied+maxGap {
		done(nil, errTooMany)
		return
	}
	r.Header = &pb.RequestHeader{ID: s.ids.next()}
	data, err := proto.Marshal(r)
	must(err)
	if len(data) > s.config.MaxRequest {
		done(nil, s.tooLarge(r))
		return
	}
	if !s.does.Own {
		s.host.Requests().keep(data, r)
	}
	w := &wait{id: r.Header.ID, begin: s.now(), of: s.request, data: data, done: done}
	s.proposals.waits[w.id] = w
	s.proposals.order = append(s.proposals.order, w)
	s.proposals.put(w)
}

// tooLarge refuses a request. What is far too large gRPC doesn't even hand to etcd: a
// message may be half a megabyte larger than a request (grpcOverheadBytes in
// v3rpc/grpc.go).
func (s *Server) tooLarge(r *pb.InternalRaftRequest) error {
	const overhead = 512 * 1024
	size, most := messageSize(r), s.config.MaxRequest+overhead
	if size > most {
		return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", size, most)
	}
	return rpctypes.ErrGRPCRequestTooLarge
}

// messageSize is of the client's request alone.
func messageSize(r *pb.InternalRaftRequest) int {
	switch {
	case r.Put != nil:
		return proto.Size(r.Put)
	case r.Txn != nil:
		return proto.Size(r.Txn)
	case r.DeleteRange != nil:
		return proto.Size(r.DeleteRange)
	}
	return 0
}

// proposeChange is for a change of the membership: it has no deadline but the
// client's.
func (s *Server) proposeChange(c *raftpb.ConfChange, done func(any, error)) {
	c.Id = new(s.ids.next())
	w := &wait{id: c.GetId(), begin: s.now(), of: s.request, change: c, done: done}
	s.proposals.waits[w.id] = w
	s.proposals.put(w)
}

func (p *proposals) forwarded(m *raftpb.Message) { p.put(&wait{forwarded: m}) }

func (p *proposals) put(w *wait) {
	p.queue = append(p.queue, w)
	p.flush()
	p.server.advance()
}

// flush gives raft what waits, in order, while there is a leader.
func (p *proposals) flush() {
	s := p.server
	for len(p.queue) > 0 && s.lead != raft.None && !s.over {
		w := p.queue[0]
		err := p.give(w)
		if errors.Is(err, raft.ErrProposalDropped) && s.node.BasicStatus().Lead == raft.None {
			return // the leader was lost just now
		}
		p.queue = slices.Delete(p.queue, 0, 1)
		w.proposed = true
		if err != nil && w.data != nil {
			p.finish(w.id, nil, status.Error(codes.Unknown, err.Error()))
		}
	}
}

// early has raft take what waited for a leader together with the first entry of a
// term, every other time: in etcd the loop that hands out what raft has ready and
// the proposals that wait come to raft at once, and either may be first. An entry
// that is written with the term's first is committed by the voters of before.
func (p *proposals) early() {
	s := p.server
	if len(p.queue) == 0 || s.lead != raft.None || s.over {
		return
	}
	if s.node.BasicStatus().Lead == s.id && s.host.Draw("proposals")&1 == 0 {
		s.lead = s.id
		p.flush()
		s.lead = raft.None
	}
}

func (p *proposals) give(w *wait) error {
	defer p.server.crash()
	p.server.answers = true // with the entry, or by handing it on
	switch node := p.server.raft(); {
	case w.forwarded != nil:
		return node.Step(w.forwarded)
	case w.change != nil:
		return node.ProposeConfChange(w.change)
	default:
		return node.Propose(w.data)
	}
}

// finish answers a proposal if it is this member's and still waited for.
func (p *proposals) finish(id uint64, response any, err error) {
	w := p.waits[id]
	if w == nil {
		return
	}
	delete(p.waits, id)
	w.done(response, err)
}

// expire ends what was waited for too long. It may still be applied.
func (p *proposals) expire(now time.Duration) {
	for len(p.order) > 0 {
		w := p.order[0]
		waited := p.waits[w.id] == w
		if waited && now-w.begin < p.server.config.ReqTimeout() {
			return
		}
		p.order = slices.Delete(p.order, 0, 1)
		if waited {
			p.drop(w)
			p.finish(w.id, nil, p.reason(w))
		}
	}
}

func (p *proposals) drop(w *wait) {
	for i, queued := range p.queue {
		if queued == w {
			p.queue = slices.Delete(p.queue, i, i+1)
			return
		}
	}
}

// Request is one of a client, under way.
type Request struct {
	server *Server
	gone   bool
}

// GiveUp withdraws what the client had proposed if raft hasn't taken it yet. A
// write that a member without a leader kept for its client's successors would
// be one that etcd never makes. The answer may come all the same.
func (r *Request) GiveUp() {
	r.gone = true
	p := &r.server.proposals
	for i := 0; i < len(p.queue); {
		w := p.queue[i]
		if w.of != r {
			i++
			continue
		}
		p.drop(w)
		p.finish(w.id, nil, errCanceled)
	}
}

// reason is what etcd guesses about a timeout.
func (p *proposals) reason(w *wait) error {
	s := p.server
	lost := s.elected - 2*s.config.Election
	switch {
	case !w.proposed:
		return errDeadline
	case s.elected > 0 && w.begin > lost && w.begin < s.elected:
		return rpctypes.ErrGRPCTimeoutDueToLeaderFail
	case s.lead == raft.None:
		return rpctypes.ErrGRPCTimeout
	case s.lead == s.id && s.peers.countConnected(s.members().ids, w.begin) >= len(s.members().ids)/2+1,
		s.lead != s.id && s.peers.connected(s.lead, w.begin):
		return rpctypes.ErrGRPCTimeout
	}
	return rpctypes.ErrGRPCTimeoutDueToConnectionLost
}
