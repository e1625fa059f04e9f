// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"encoding/json"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// view is the membership in forms that cost nothing to look at.
// membership.RaftCluster locks, copies and sorts at every question.
type view struct {
	stale       bool
	all         []*membership.Member // by ID; nobody changes them
	by          map[uint64]*membership.Member
	ids, voters []uint64
	listed      []*pb.Member // as they are listed; nobody changes them
}

func (s *Server) members() *view {
	if !s.view.stale && !s.does.Own {
		return &s.view
	}
	v := view{all: s.ring.Members(), by: map[uint64]*membership.Member{}}
	for _, m := range v.all {
		v.by[uint64(m.ID)] = m
		v.ids = append(v.ids, uint64(m.ID))
		if !m.IsLearner {
			v.voters = append(v.voters, uint64(m.ID))
		}
	}
	v.listed = toProto(v.all)
	s.view = v
	return &s.view
}

func (s *Server) learns() bool {
	m := s.members().by[s.id]
	return m != nil && m.IsLearner
}

// healthInterval is how long a member must have been connected to count.
const healthInterval = 5 * time.Second

// changeError is what etcd's gRPC layer makes of a refused change.
func changeError(err error) error {
	switch {
	case errors.Is(err, membership.ErrIDRemoved), errors.Is(err, membership.ErrIDNotFound):
		return rpctypes.ErrGRPCMemberNotFound
	case errors.Is(err, membership.ErrIDExists):
		return rpctypes.ErrGRPCMemberExist
	case errors.Is(err, membership.ErrPeerURLexists):
		return rpctypes.ErrGRPCPeerURLExist
	case errors.Is(err, membership.ErrMemberNotLearner):
		return rpctypes.ErrGRPCMemberNotLearner
	case errors.Is(err, membership.ErrTooManyLearners):
		return rpctypes.ErrGRPCTooManyLearners
	}
	return status.Error(codes.Unknown, err.Error())
}

func (s *Server) memberAdd(r *pb.MemberAddRequest, done func(any, error)) {
	urls, err := types.NewURLs(r.GetPeerURLs())
	if err != nil {
		done(nil, rpctypes.ErrGRPCMemberBadURLs)
		return
	}
	now := s.host.Now()
	m, kind, change := membership.NewMember("", urls, "", &now), raftpb.ConfChangeAddNode, "add-voter"
	if r.GetIsLearner() {
		m, kind, change = membership.NewMemberAsLearner("", urls, "", &now), raftpb.ConfChangeAddLearnerNode, "add-learner"
	}
	if err := s.mayAdd(m); err != nil {
		s.host.Rejected(change, uint64(m.ID), err)
		done(nil, err)
		return
	}
	s.change(kind, uint64(m.ID), m, func(members []*membership.Member, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		added := &pb.Member{ID: uint64(m.ID), PeerURLs: m.PeerURLs, IsLearner: m.IsLearner}
		done(&pb.MemberAddResponse{Header: s.ringHeader(), Member: added, Members: toProto(members)}, nil)
	})
}

func (s *Server) change(kind raftpb.ConfChangeType, id uint64, about any, done func([]*membership.Member, error)) {
	c := &raftpb.ConfChange{Type: kind.Enum(), NodeId: new(id)}
	if about != nil {
		text, err := json.Marshal(about)
		must(err)
		c.Context = text
	}
	s.proposeChange(c, func(members any, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(members.([]*membership.Member), nil)
	})
}

func (s *Server) mayAdd(m *membership.Member) error {
	if !s.config.StrictReconfig {
		return nil
	}
	if !m.IsLearner && !s.ring.IsReadyToAddVotingMember() {
		return errNotStarted
	}
	voters := s.members().voters
	connected := s.peers.countConnected(voters, s.now()-healthInterval)
	if s.addsWhileSilent() {
		if len(voters) > 1 && connected < (len(voters)+1)/2+1 {
			return rpctypes.ErrGRPCUnhealthy
		}
	} else if connected != len(voters) {
		return rpctypes.ErrGRPCUnhealthy
	}
	return nil
}

// addsWhileSilent is etcd#21640: until then every voter had to be connected,
// since then a quorum that is left if the new member never starts.
func (s *Server) addsWhileSilent() bool {
	switch s.release.Minor {
	case 5:
		return s.release.Patch >= 31
	case 6:
		return s.release.Patch >= 11
	}
	return s.since3(7)
}

func (s *Server) memberRemove(r *pb.MemberRemoveRequest, done func(any, error)) {
	if err := s.mayRemove(r.GetID()); err != nil {
		s.host.Rejected("remove", r.GetID(), err)
		done(nil, err)
		return
	}
	s.change(raftpb.ConfChangeRemoveNode, r.GetID(), nil, func(members []*membership.Member, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(&pb.MemberRemoveResponse{Header: s.ringHeader(), Members: toProto(members)}, nil)
	})
}

func (s *Server) mayRemove(id uint64) error {
	m := s.members().by[id]
	if !s.config.StrictReconfig || m != nil && m.IsLearner {
		return nil
	}
	if !s.ring.IsReadyToRemoveVotingMember(id) {
		return errNotStarted
	}
	if p := s.peers.peers.of(id); id != s.id && (p == nil || !p.active) {
		return nil // it is not part of the quorum that there is
	}
	voters := s.members().voters
	if s.peers.countConnected(voters, s.now()-healthInterval)-1 < 1+(len(voters)-1)/2 {
		return rpctypes.ErrGRPCUnhealthy
	}
	return nil
}

func (s *Server) memberUpdate(r *pb.MemberUpdateRequest, done func(any, error)) {
	m := membership.Member{ID: types.ID(r.GetID()), RaftAttributes: membership.RaftAttributes{PeerURLs: r.GetPeerURLs()}}
	s.change(raftpb.ConfChangeUpdateNode, r.GetID(), m, func(members []*membership.Member, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(&pb.MemberUpdateResponse{Header: s.ringHeader(), Members: toProto(members)}, nil)
	})
}

func (s *Server) memberPromote(r *pb.MemberPromoteRequest, done func(any, error)) {
	s.promote(r.GetID(), func(members any, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(&pb.MemberPromoteResponse{Header: s.ringHeader(), Members: toProto(members.([]*membership.Member))}, nil)
	})
}

// promote makes a learner a voter. Only the leader knows how far it has come.
func (s *Server) promote(id uint64, done func(any, error)) {
	err := s.mayPromote(id)
	if err == nil {
		context := membership.ConfigChangeContext{Member: membership.Member{ID: types.ID(id)}, IsPromote: true}
		s.change(raftpb.ConfChangeAddNode, id, context, func(members []*membership.Member, err error) { done(members, err) })
		return
	}
	if err != rpctypes.ErrGRPCNotLeader {
		done(nil, err)
		return
	}
	s.askLeader(askPromote{id}, s.now()+s.config.ReqTimeout(), func(answer any, err error) bool {
		if err == nil || err == rpctypes.ErrGRPCLearnerNotReady || err == rpctypes.ErrGRPCMemberNotFound || err == rpctypes.ErrGRPCMemberNotLearner {
			done(answer, err)
			return true
		}
		return false
	}, renewRetry, func(err error) { done(nil, err) })
}

func (s *Server) mayPromote(id uint64) error {
	if !s.leads {
		return rpctypes.ErrGRPCNotLeader
	}
	const enough = 0.9
	var own, theirs uint64
	found := false
	s.node.WithProgress(func(member uint64, _ raft.ProgressType, p tracker.Progress) {
		if member == s.id {
			own = p.Match
		}
		if member == id {
			theirs, found = p.Match, true
		}
	})
	switch {
	case !found:
		return rpctypes.ErrGRPCMemberNotFound
	case float64(theirs)/float64(own) < enough:
		return rpctypes.ErrGRPCLearnerNotReady
	case s.config.StrictReconfig && !s.ring.IsReadyToPromoteMember(id):
		return errNotStarted
	}
	return nil
}

func (s *Server) memberList(r *pb.MemberListRequest, done func(any, error)) {
	answer := func(err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(s.list(), nil)
	}
	if r.GetLinearizable() {
		s.read(answer)
		return
	}
	answer(nil)
}

func (s *Server) list() *pb.MemberListResponse {
	return &pb.MemberListResponse{Header: s.ringHeader(), Members: toProto(s.members().all)}
}

func toProto(members []*membership.Member) []*pb.Member {
	all := make([]*pb.Member, len(members))
	for i, m := range members {
		all[i] = &pb.Member{ID: uint64(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, IsLearner: m.IsLearner}
	}
	return all
}

// ringHeader is of answers about the membership: they have no revision.
func (s *Server) ringHeader() *pb.ResponseHeader {
	h := &pb.ResponseHeader{}
	s.sign(h)
	return h
}
