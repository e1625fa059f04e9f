// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"cmp"
	"maps"
	"slices"

	"github.com/coreos/go-semver/semver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	serverversion "go.etcd.io/etcd/server/v3/etcdserver/version"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ringproof/ringproof/sim/etcd/mvcc"
)

// state is all that the log decides: what etcd keeps in its database file.
type state struct {
	index, term uint64 // of the last applied entry
	conf        *raftpb.ConfState
	kv          *mvcc.Store
	book        *book
	alarms      []*pb.AlarmMember // by kind and member
}

func newState() *state {
	return &state{kv: mvcc.New(), book: newBook(), conf: &raftpb.ConfState{}}
}

// clone returns a state that goes on independently.
func (s *state) clone() *state {
	c := *s
	c.kv, c.book, c.alarms = s.kv.Clone(), s.book.clone(), slices.Clone(s.alarms)
	return &c
}

func (s *state) alarmed(kind pb.AlarmType) bool {
	return slices.ContainsFunc(s.alarms, func(a *pb.AlarmMember) bool { return a.GetAlarm() == kind })
}

// alarm returns what an alarm request did; etcd answers with the alarm that
// was raised already, and with none if there was none to disarm.
func (s *state) alarm(r *pb.AlarmRequest) []*pb.AlarmMember {
	if r.GetAction() == pb.AlarmRequest_GET {
		return slices.DeleteFunc(slices.Clone(s.alarms), func(a *pb.AlarmMember) bool {
			return r.GetAlarm() != pb.AlarmType_NONE && a.GetAlarm() != r.GetAlarm()
		})
	}
	a := &pb.AlarmMember{MemberID: r.GetMemberID(), Alarm: r.GetAlarm()}
	at, found := slices.BinarySearchFunc(s.alarms, a, func(x, y *pb.AlarmMember) int {
		return cmp.Or(cmp.Compare(x.GetAlarm(), y.GetAlarm()), cmp.Compare(x.GetMemberID(), y.GetMemberID()))
	})
	switch {
	case r.GetAction() == pb.AlarmRequest_ACTIVATE && r.GetAlarm() == pb.AlarmType_NONE:
		return nil
	case r.GetAction() == pb.AlarmRequest_ACTIVATE && !found:
		s.alarms = slices.Insert(slices.Clone(s.alarms), at, a)
	case !found:
		return nil
	case r.GetAction() == pb.AlarmRequest_DEACTIVATE:
		s.alarms = slices.Delete(slices.Clone(s.alarms), at, at+1)
	}
	return []*pb.AlarmMember{a}
}

// book is the membership as etcd stores it, for membership.RaftCluster.
type book struct {
	members   map[types.ID]*membership.Member
	removed   map[types.ID]bool
	version   *semver.Version
	downgrade *serverversion.DowngradeInfo
}

var _ membership.MembershipBackend = (*book)(nil)

func newBook() *book {
	return &book{members: map[types.ID]*membership.Member{}, removed: map[types.ID]bool{}}
}

func (b *book) clone() *book {
	c := *b
	c.members, c.removed = b.MustReadMembersFromBackend()
	return &c
}

// MustReadMembersFromBackend returns copies: RaftCluster changes its members in
// place.
func (b *book) MustReadMembersFromBackend() (map[types.ID]*membership.Member, map[types.ID]bool) {
	members := make(map[types.ID]*membership.Member, len(b.members))
	for id, m := range b.members { // order: a map from a map
		members[id] = m.Clone()
	}
	return members, maps.Clone(b.removed)
}

func (b *book) MustSaveMemberToBackend(m *membership.Member) { b.members[m.ID] = m.Clone() }

func (b *book) MustDeleteMemberFromBackend(id types.ID) {
	delete(b.members, id)
	b.removed[id] = true
}

func (b *book) TrimMembershipFromBackend() error {
	clear(b.members)
	clear(b.removed)
	return nil
}

func (b *book) MustCreateBackendBuckets()                                    {}
func (b *book) ClusterVersionFromBackend() *semver.Version                   { return b.version }
func (b *book) MustSaveClusterVersionToBackend(v *semver.Version)            { b.version = v }
func (b *book) DowngradeInfoFromBackend() *serverversion.DowngradeInfo       { return b.downgrade }
func (b *book) MustSaveDowngradeToBackend(info *serverversion.DowngradeInfo) { b.downgrade = info }
