// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"encoding/json"
	"time"

	"github.com/coreos/go-semver/semver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	serverversion "go.etcd.io/etcd/server/v3/etcdserver/version"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// apply applies committed entries in order.
func (s *Server) apply(entries []*raftpb.Entry) {
	for _, e := range entries {
		s.applied, s.term = e.GetIndex(), e.GetTerm()
		if e.GetIndex() <= s.state.index {
			s.applyAgain(e)
			continue
		}
		s.committed = max(s.committed, entries[len(entries)-1].GetIndex())
		s.state.index, s.state.term = e.GetIndex(), e.GetTerm()
		if e.GetType() == raftpb.EntryConfChange {
			s.applyChange(e, membership.ApplyBoth)
		} else {
			s.applyNormal(e)
		}
		if s.over {
			return
		}
	}
	if n := len(entries); n > 0 {
		if last := entries[n-1]; last.GetIndex() == s.state.index {
			s.data.made = made{s.state, last, s.release}
		}
		s.reads.applied()
	}
}

// applyAgain is for an entry that the database has already.
func (s *Server) applyAgain(e *raftpb.Entry) {
	if s.replay == nil {
		return
	}
	if e.GetType() == raftpb.EntryConfChange {
		s.applyChange(e, membership.ApplyV2storeOnly)
	}
	if e.GetIndex() == s.state.index {
		s.replay = nil
	}
}

// errJob is what etcd logs when applying an entry panics.
const errJob = "execute job failed"

// oldFormat is the request ID of what 3.5 writes into the log in the format of
// etcd 2: names, client URLs and the cluster's version. 3.6 reads it and 3.7
// panics, even if the ring has moved on since: it reads the log from its last
// snapshot on.
const oldFormat = 1

// written is a request of a member about the ring itself, in its own format.
func (s *Server) written(r *pb.InternalRaftRequest) *pb.InternalRaftRequest {
	if !s.since3(6) {
		r.ID = oldFormat
	}
	return r
}

func (s *Server) applyNormal(e *raftpb.Entry) {
	if len(e.Data) == 0 {
		s.reads.firstCommit()
		if s.lead == s.id {
			s.leases.promote()
			s.host.After(0, s.watchVersions)
		}
		return
	}
	r := s.asks(e)
	if r.GetID() == oldFormat && s.since3(7) {
		s.exit(2, errJob)
		return
	}
	kv, id := s.state.kv, r.GetHeader().GetID()
	before := kv.Revision()
	kv.Unheard = s.proposals.waits[id] == nil && !s.does.Own
	response, err := s.dispatch(r)
	kv.Unheard = false
	if s.over {
		return
	}
	if kv.Revision() != before {
		s.notifyWatches()
	}
	if r.DowngradeInfoSet != nil && !s.since3(6) {
		return // 3.5 carries it out and answers nobody: whoever asked waits in vain (applierV3backend.Apply)
	}
	if err == rpctypes.ErrGRPCNoSpace && s.open && !s.state.alarmed(pb.AlarmType_NOSPACE) {
		s.outOfSpace(func() { s.proposals.finish(id, response, err) })
		return
	}
	s.proposals.finish(id, response, err)
}

// asks is the request in an entry.
func (s *Server) asks(e *raftpb.Entry) *pb.InternalRaftRequest {
	if s.does.Own {
		return decoded(e)
	}
	return s.host.Requests().of(e)
}

// outOfSpace raises this member's alarm, and then goes on. Each member does so whose
// own file is full, whoever was asked: it stops the writes of all.
func (s *Server) outOfSpace(then func()) {
	alarm := &pb.AlarmRequest{MemberID: s.id, Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	s.propose(&pb.InternalRaftRequest{Alarm: alarm}, func(any, error) { then() })
}

// dispatch carries out one request. What it decides must hang on nothing but
// the log: all members apply it.
func (s *Server) dispatch(r *pb.InternalRaftRequest) (any, error) {
	switch {
	case r.ClusterVersionSet != nil:
		s.applyVersion(r.ClusterVersionSet)
		return nil, nil
	case r.ClusterMemberAttrSet != nil:
		s.applyAttributes(r.ClusterMemberAttrSet)
		return nil, nil
	case r.DowngradeInfoSet != nil:
		s.applyDowngrade(r.DowngradeInfoSet)
		return nil, nil
	case r.Alarm != nil:
		return &pb.AlarmResponse{Header: &pb.ResponseHeader{}, Alarms: s.state.alarm(r.Alarm)}, nil
	case s.state.alarmed(pb.AlarmType_CORRUPT):
		return nil, rpctypes.ErrGRPCCorrupt
	case r.LeaseGrant != nil, r.LeaseRevoke != nil:
		return s.dispatchLease(r)
	}
	return s.dispatchKV(r)
}

// dispatchKV applies the request that fills the database beyond its quota, and
// answers that there is no space: only what comes after the alarm is refused.
func (s *Server) dispatchKV(r *pb.InternalRaftRequest) (any, error) {
	kv := s.state.kv
	charge := cost(r)
	if charge > 0 && s.state.alarmed(pb.AlarmType_NOSPACE) {
		return nil, rpctypes.ErrGRPCNoSpace
	}
	fits := s.fits(charge)
	var response any
	var err error
	switch {
	case r.Put != nil:
		response, err = kv.Put(r.Put)
	case r.DeleteRange != nil:
		response = kv.DeleteRange(r.DeleteRange)
	case r.Txn != nil:
		response, err = kv.Txn(r.Txn)
	case r.Compaction != nil:
		err = kv.Compact(r.Compaction.GetRevision())
		response = &pb.CompactionResponse{Header: &pb.ResponseHeader{Revision: kv.Revision()}}
	}
	if err == nil && !fits {
		err = rpctypes.ErrGRPCNoSpace
	}
	return response, err
}

func (s *Server) dispatchLease(r *pb.InternalRaftRequest) (any, error) {
	kv := s.state.kv
	if r.LeaseRevoke != nil {
		err := kv.Revoke(r.LeaseRevoke.GetID())
		if err == nil {
			s.leases.revoked(r.LeaseRevoke.GetID())
		}
		return &pb.LeaseRevokeResponse{Header: s.header()}, err
	}
	if s.state.alarmed(pb.AlarmType_NOSPACE) {
		return nil, rpctypes.ErrGRPCNoSpace
	}
	fits := s.fits(leaseCost)
	id, ttl := r.LeaseGrant.GetID(), s.leases.atLeast(r.LeaseGrant.GetTTL())
	err := kv.Grant(id, ttl)
	if err != nil {
		return nil, err
	}
	s.leases.granted(id, ttl)
	if !fits {
		err = rpctypes.ErrGRPCNoSpace
	}
	return &pb.LeaseGrantResponse{Header: s.header(), ID: id, TTL: ttl}, err
}

func (s *Server) applyVersion(r *membershippb.ClusterVersionSetRequest) {
	v := semver.New(r.GetVer())
	if s.tooOld(v, s.state.book.downgrade) {
		return
	}
	before := s.state.book.version
	s.ring.SetVersion(v, ignoreVersion, membership.ApplyBoth)
	s.migrate()
	if before != nil && v.LessThan(*before) {
		s.snapshots.force = true
	}
}

func (s *Server) applyAttributes(r *membershippb.ClusterMemberAttrSetRequest) {
	a := r.GetMemberAttributes()
	s.ring.UpdateAttributes(types.ID(r.GetMember_ID()), membership.Attributes{Name: a.GetName(), ClientURLs: a.GetClientUrls()}, membership.ApplyBoth)
	s.view.stale = true
}

func (s *Server) applyDowngrade(r *membershippb.DowngradeInfoSetRequest) {
	info := &serverversion.DowngradeInfo{}
	if r.GetEnabled() {
		info.Enabled, info.TargetVersion = true, r.GetVer()
	}
	s.ring.SetDowngradeInfo(info, membership.ApplyBoth)
}

// applyChange checks a change of the membership again: two that were fine when
// they were asked for may not be one after the other. One that the database has
// already is for raft alone (membership.ApplyV2storeOnly), and held to what the log has before it.
func (s *Server) applyChange(e *raftpb.Entry, to membership.ShouldApplyV3) {
	var c raftpb.ConfChange
	must(proto.Unmarshal(e.Data, &c))
	if err := s.ringOf(to).ValidateConfigurationChange(&c, membership.ApplyBoth); err != nil {
		none := proto.Clone(&c).(*raftpb.ConfChange)
		none.NodeId = new(raft.None)
		s.raft().ApplyConfChange(none)
		s.proposals.finish(c.GetId(), nil, changeError(err))
		return
	}
	s.state.conf = s.raft().ApplyConfChange(&c)
	s.view.stale = true
	switch c.GetType() {
	case raftpb.ConfChangeRemoveNode:
		s.ringOf(to).RemoveMember(types.ID(c.GetNodeId()), membership.ApplyBoth)
		if c.GetNodeId() == s.id {
			s.leave()
		} else {
			s.peers.remove(c.GetNodeId())
		}
	case raftpb.ConfChangeUpdateNode:
		var m membership.Member
		must(json.Unmarshal(c.Context, &m))
		s.ringOf(to).UpdateRaftAttributes(m.ID, m.RaftAttributes, membership.ApplyBoth)
		s.peers.update(uint64(m.ID), m.PeerURLs)
	default:
		s.applyAdd(&c, to)
	}
	s.view.stale = true
	s.proposals.finish(c.GetId(), s.members().all, nil)
}

// ringOf is what a change is held to: the ring as the database has it, or as the log has it so far.
func (s *Server) ringOf(to membership.ShouldApplyV3) *membership.RaftCluster {
	if to == membership.ApplyBoth {
		return s.ring
	}
	return s.replay
}

func (s *Server) applyAdd(c *raftpb.ConfChange, to membership.ShouldApplyV3) {
	var m membership.ConfigChangeContext
	must(json.Unmarshal(c.Context, &m))
	if m.IsPromote {
		s.ringOf(to).PromoteMember(m.ID, membership.ApplyBoth)
		return
	}
	s.ringOf(to).AddMember(&m.Member, membership.ApplyBoth)
	s.peers.add(uint64(m.ID), m.PeerURLs)
}

// file is how large the database is, as etcd knows it: as of the last batch that it
// wrote. What comes between two batches fits whatever it takes, so that a full
// database is larger than its quota.
type file struct {
	size, used int64
	at         time.Duration
}

// batch is how long etcd collects writes before it puts them into its file.
const batch = 100 * time.Millisecond

func (s *Server) measure() {
	s.file = file{s.state.kv.Size(), s.state.kv.SizeInUse(), s.now()}
	s.data.stored = s.state.index
}

// What etcd charges a request against the quota, in bytes.
const (
	defaultQuota = 2 * 1024 * 1024 * 1024
	kvCost       = 256
	leaseCost    = 64
)

func (s *Server) quota() int64 {
	if s.config.Quota == 0 {
		return defaultQuota
	}
	return s.config.Quota
}

func (s *Server) fits(charge int) bool {
	return charge == 0 || s.quota() < 0 || s.file.size+int64(charge) < s.quota()
}

func cost(r *pb.InternalRaftRequest) int {
	switch {
	case r.Put != nil:
		return putCost(r.Put)
	case r.Txn != nil:
		return txnCost(r.Txn)
	}
	return 0
}

func putCost(r *pb.PutRequest) int { return kvCost + len(r.GetKey()) + len(r.GetValue()) }

func txnCost(r *pb.TxnRequest) int {
	return max(opsCost(r.GetSuccess()), opsCost(r.GetFailure()))
}

func opsCost(ops []*pb.RequestOp) int {
	sum := 0
	for _, op := range ops {
		if put := op.GetRequestPut(); put != nil {
			sum += putCost(put)
		} else if txn := op.GetRequestTxn(); txn != nil {
			sum += txnCost(txn)
		}
	}
	return sum
}
