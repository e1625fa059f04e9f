// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ringproof/ringproof/sim/etcd/mvcc"
)

// Call carries out one unary request of a client, such as *etcdserverpb.PutRequest;
// a LeaseKeepAliveRequest counts as one. The answer is what comes over gRPC. A
// change of the membership has no deadline but the caller's, as in etcd: who
// doesn't wait any more says so to r, a new one; nil is for who waits for ever.
func (s *Server) Call(r *Request, request any, reply func(response any, err error)) {
	if r == nil {
		r = &Request{}
	}
	r.server, s.request = s, r
	s.call(request, reply)
	s.request = nil
}

// Look is what a client hears that asks the member for its status and, without a
// quorum, for the ring's members, which it may not change. A learner gives no
// list.
func (s *Server) Look() (*pb.StatusResponse, *pb.MemberListResponse, error) {
	if s.learns() {
		return s.status(), nil, s.notForLearners()
	}
	list, header := mvcc.Headed[pb.MemberListResponse]()
	s.sign(header)
	list.Header, list.Members = header, s.members().listed
	return s.status(), list, nil
}

func (s *Server) call(request any, reply func(any, error)) {
	if _, client := s.Listening(); !client {
		reply(nil, rpctypes.ErrGRPCStopped)
		return
	}
	if s.learns() && !forLearners(request) {
		reply(nil, s.notForLearners())
		return
	}
	switch r := request.(type) {
	case *pb.RangeRequest:
		s.rangeKeys(r, reply)
	case *pb.PutRequest:
		s.put(r, reply)
	case *pb.DeleteRangeRequest:
		s.deleteRange(r, reply)
	case *pb.TxnRequest:
		s.txn(r, reply)
	case *pb.CompactionRequest:
		s.propose(&pb.InternalRaftRequest{Compaction: r}, s.filled(reply))
	case *pb.LeaseGrantRequest:
		s.leaseGrant(r, reply)
	case *pb.LeaseRevokeRequest:
		s.propose(&pb.InternalRaftRequest{LeaseRevoke: r}, s.filled(reply))
	case *pb.LeaseTimeToLiveRequest:
		s.timeToLive(r, reply)
	case *pb.LeaseLeasesRequest:
		reply(s.listLeases(), nil)
	case *pb.LeaseKeepAliveRequest:
		s.renewLease(r, reply)
	default:
		s.callRing(request, reply)
	}
}

func (s *Server) callRing(request any, reply func(any, error)) {
	switch r := request.(type) {
	case *pb.MemberAddRequest:
		s.memberAdd(r, reply)
	case *pb.MemberRemoveRequest:
		s.memberRemove(r, reply)
	case *pb.MemberUpdateRequest:
		s.memberUpdate(r, reply)
	case *pb.MemberPromoteRequest:
		s.memberPromote(r, reply)
	case *pb.MemberListRequest:
		s.memberList(r, reply)
	case *pb.StatusRequest:
		reply(s.status(), nil)
	case *pb.HashKVRequest:
		reply(s.hashKV(r))
	case *pb.HashRequest:
		hash, revision, _, err := s.state.kv.Hash(0)
		reply(s.filledIn(&pb.HashResponse{Header: &pb.ResponseHeader{Revision: revision}, Hash: hash}, err))
	case *pb.AlarmRequest:
		s.propose(&pb.InternalRaftRequest{Alarm: r}, s.filled(reply))
	case *pb.MoveLeaderRequest:
		s.moveLeader(r, reply)
	case *pb.DefragmentRequest:
		if err := s.data.noFile("/member/snap/db.tmp.0"); err != nil {
			reply(nil, status.Error(codes.Unknown, err.Error()))
			return
		}
		s.state.kv.Defragment()
		s.measure()
		reply(&pb.DefragmentResponse{}, nil)
	case *pb.DowngradeRequest:
		s.downgrade(r, reply)
	default:
		reply(nil, status.Error(codes.Unimplemented, fmt.Sprintf("%T is not modelled", request)))
	}
}

// notForLearners was an error that clients tried again until 3.6: a watch on a
// learner was never refused in their eyes, and never began.
func (s *Server) notForLearners() error {
	if s.since3(6) {
		return rpctypes.ErrGRPCNotSupportedForLearner
	}
	return status.Error(codes.Unavailable, rpctypes.ErrorDesc(rpctypes.ErrGRPCNotSupportedForLearner))
}

// forLearners is what a learner answers.
func forLearners(request any) bool {
	switch r := request.(type) {
	case *pb.StatusRequest:
		return true
	case *pb.RangeRequest:
		return r.GetSerializable()
	}
	return false
}

func (s *Server) header() *pb.ResponseHeader {
	h := &pb.ResponseHeader{}
	s.fill(h)
	return h
}

// fill completes the header that the keyspace began.
func (s *Server) fill(h *pb.ResponseHeader) {
	if h == nil {
		return
	}
	s.sign(h)
	if h.Revision == 0 {
		h.Revision = s.state.kv.Revision()
	}
}

// sign says who answers. An answer about the membership has no revision.
func (s *Server) sign(h *pb.ResponseHeader) {
	h.ClusterId, h.MemberId, h.RaftTerm = s.cluster, s.id, s.term
}

type headed interface{ GetHeader() *pb.ResponseHeader }

func (s *Server) filledIn(response any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if r, ok := response.(headed); ok {
		s.fill(r.GetHeader())
	}
	return response, nil
}

func (s *Server) filled(reply func(any, error)) func(any, error) {
	return func(response any, err error) { reply(s.filledIn(response, err)) }
}

func (s *Server) rangeKeys(r *pb.RangeRequest, reply func(any, error)) {
	if err := mvcc.CheckRange(r); err != nil {
		reply(nil, err)
		return
	}
	get := func(err error) {
		if err != nil {
			reply(nil, err)
			return
		}
		response, err := s.state.kv.Range(r)
		reply(s.filledIn(response, err))
	}
	if r.GetSerializable() {
		get(nil)
		return
	}
	s.read(get)
}

// refused refuses what would exceed the quota, which raises the alarm first, and then what
// needs no agreement to be refused.
func (s *Server) refused(charge int, err error, reply func(any, error)) bool {
	switch {
	case !s.fits(charge):
		s.outOfSpace(func() { reply(nil, rpctypes.ErrGRPCNoSpace) })
	case err != nil:
		reply(nil, err)
	default:
		return false
	}
	return true
}

func (s *Server) put(r *pb.PutRequest, reply func(any, error)) {
	if !s.refused(putCost(r), mvcc.CheckPut(r), reply) {
		s.propose(&pb.InternalRaftRequest{Put: r}, s.filled(reply))
	}
}

func (s *Server) deleteRange(r *pb.DeleteRangeRequest, reply func(any, error)) {
	if err := mvcc.CheckDelete(r); err != nil {
		reply(nil, err)
		return
	}
	s.propose(&pb.InternalRaftRequest{DeleteRange: r}, s.filled(reply))
}

func (s *Server) txn(r *pb.TxnRequest, reply func(any, error)) {
	if s.refused(txnCost(r), mvcc.CheckTxn(r, s.config.MaxTxnOps), reply) {
		return
	}
	readonly, serializable := reading(r)
	if !readonly {
		s.propose(&pb.InternalRaftRequest{Txn: r}, s.filled(reply))
		return
	}
	get := func(err error) {
		if err != nil {
			reply(nil, err)
			return
		}
		response, err := s.state.kv.Txn(r)
		reply(s.filledIn(response, err))
	}
	if serializable {
		get(nil)
		return
	}
	s.read(get)
}

// reading reports whether a transaction only reads, and whether any member may
// answer it alone. A nested one counts as writing, as in etcd.
func reading(r *pb.TxnRequest) (readonly, serializable bool) {
	readonly, serializable = true, true
	for _, ops := range [][]*pb.RequestOp{r.GetSuccess(), r.GetFailure()} {
		for _, op := range ops {
			get := op.GetRequestRange()
			readonly = readonly && get != nil
			serializable = serializable && get.GetSerializable()
		}
	}
	return readonly, readonly && serializable
}

func (s *Server) leaseGrant(r *pb.LeaseGrantRequest, reply func(any, error)) {
	if s.refused(leaseCost, nil, reply) {
		return
	}
	id := r.GetID()
	for id == 0 {
		id = int64(s.ids.next() & (1<<63 - 1))
	}
	s.propose(&pb.InternalRaftRequest{LeaseGrant: &pb.LeaseGrantRequest{ID: id, TTL: r.GetTTL()}}, s.filled(reply))
}

func (s *Server) timeToLive(r *pb.LeaseTimeToLiveRequest, reply func(any, error)) {
	s.leaseTimeToLive(r, func(response any, err error) {
		if err == rpctypes.ErrGRPCLeaseNotFound {
			response, err = &pb.LeaseTimeToLiveResponse{ID: r.GetID(), TTL: -1}, nil
		}
		if err == nil {
			found := proto.Clone(response.(*pb.LeaseTimeToLiveResponse)).(*pb.LeaseTimeToLiveResponse)
			found.Header = s.header()
			response = found
		}
		reply(response, err)
	})
}

func (s *Server) listLeases() *pb.LeaseLeasesResponse {
	response := &pb.LeaseLeasesResponse{Header: s.header()}
	for _, id := range s.state.kv.Leases() {
		response.Leases = append(response.Leases, &pb.LeaseStatus{ID: id})
	}
	return response
}

// renewLease answers with the revision of before the renewal: a later one might
// be that of the lease's end.
func (s *Server) renewLease(r *pb.LeaseKeepAliveRequest, reply func(any, error)) {
	header := s.header()
	s.keepAlive(r.GetID(), func(ttl int64, err error) {
		switch err {
		case nil:
			reply(&pb.LeaseKeepAliveResponse{Header: header, ID: r.GetID(), TTL: ttl}, nil)
		case rpctypes.ErrGRPCLeaseNotFound:
			reply(&pb.LeaseKeepAliveResponse{Header: header, ID: r.GetID()}, nil)
		default:
			reply(nil, err)
		}
	})
}

func (s *Server) status() *pb.StatusResponse {
	r, header := mvcc.Headed[pb.StatusResponse]()
	s.fill(header)
	r.Header, r.Version, r.Leader, r.IsLearner = header, s.version, s.lead, s.learns()
	r.RaftIndex, r.RaftAppliedIndex, r.RaftTerm = s.committed, s.applied, s.term
	r.DbSize, r.DbSizeInUse = s.file.size, s.file.used
	if s.since3(6) {
		r.DbSizeQuota = s.quota()
		r.DowngradeInfo = &pb.DowngradeInfo{}
		r.StorageVersion = s.schema
		if d := s.state.book.downgrade; d != nil {
			r.DowngradeInfo.Enabled, r.DowngradeInfo.TargetVersion = d.Enabled, d.TargetVersion
		}
	}
	if s.lead == raft.None {
		r.Errors = append(r.Errors, "etcdserver: no leader")
	}
	for _, a := range s.state.alarms {
		r.Errors = append(r.Errors, alarmText(a))
	}
	return r
}

// alarmText is protobuf's text form, which varies its spaces from build to
// build on purpose.
func alarmText(a *pb.AlarmMember) string {
	var parts []string
	if a.GetMemberID() != 0 {
		parts = append(parts, fmt.Sprintf("memberID:%d", a.GetMemberID()))
	}
	if a.GetAlarm() != pb.AlarmType_NONE {
		parts = append(parts, "alarm:"+a.GetAlarm().String())
	}
	return strings.Join(parts, " ")
}

func (s *Server) hashKV(r *pb.HashKVRequest) (any, error) {
	hash, hashed, compacted, err := s.state.kv.Hash(r.GetRevision())
	response := &pb.HashKVResponse{Header: &pb.ResponseHeader{}, Hash: hash, CompactRevision: compacted}
	if s.since3(6) {
		response.HashRevision = hashed
	}
	return s.filledIn(response, err)
}

// moveLeader has no deadline in etcd but the client's; one that nobody has the
// patience for is enough here.
func (s *Server) moveLeader(r *pb.MoveLeaderRequest, reply func(any, error)) {
	const patience = time.Minute
	m := s.members().by[r.GetTargetID()]
	switch {
	case s.lead != s.id:
		reply(nil, rpctypes.ErrGRPCNotLeader)
	case m == nil || m.IsLearner:
		reply(nil, rpctypes.ErrGRPCBadLeaderTransferee)
	default:
		s.transfer(r.GetTargetID(), patience, func(moved bool) {
			if !moved {
				reply(nil, status.Error(codes.Unknown, "etcdserver: request timed out, leader transfer took too long"))
				return
			}
			reply(&pb.MoveLeaderResponse{}, nil)
		})
	}
}

// publish tells the ring this member's name and client URLs, and opens the
// client port once that is applied.
func (s *Server) publish() {
	set := &membershippb.ClusterMemberAttrSetRequest{Member_ID: s.id,
		MemberAttributes: &membershippb.Attributes{Name: s.config.Name, ClientUrls: s.config.AdvertiseClient}}
	s.propose(s.written(&pb.InternalRaftRequest{ClusterMemberAttrSet: set}), func(_ any, err error) {
		if err != nil {
			s.host.After(s.config.Heartbeat, s.publish)
			return
		}
		s.ready = true
		s.host.Log("ready to serve client requests")
		s.host.Ready()
	})
}
