// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package admin

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// shared is an address behind which the members of one ring take turns.
type shared struct {
	host.Etcd
	members []uint64 // who answers, one call after another
	linear  []bool   // which of the calls asked for a quorum
	record  string   // what is under the member's key
}

func (s *shared) header() *etcdserverpb.ResponseHeader {
	header := &etcdserverpb.ResponseHeader{ClusterId: 1, MemberId: s.members[0]}
	s.members = s.members[1:]
	return header
}

func (s *shared) MemberList(_ context.Context, opts ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	s.linear = append(s.linear, len(opts) == 0)
	return &clientv3.MemberListResponse{Header: s.header(), Members: []*etcdserverpb.Member{{ID: 7}}}, nil
}

func (s *shared) Get(_ context.Context, _ string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	s.linear = append(s.linear, !clientv3.OpGet("", opts...).IsSerializable())
	record := &mvccpb.KeyValue{Key: []byte(memberKey(7)), Value: []byte(s.record)}
	return &clientv3.GetResponse{Header: s.header(), Kvs: []*mvccpb.KeyValue{record}}, nil
}

// TestViewIsOfOneMember: the list is read with a quorum, and the records of the
// one that gave it. m1 gives the list with a member that was bound just now, and
// m2, which lags, the records without the binding: the member would be bound to
// another disk.
func TestViewIsOfOneMember(t *testing.T) {
	asking := func(members ...uint64) (*Ring, *shared) {
		etcd := &shared{members: members, record: `{"machine":"m1","disk":"d1"}`}
		r := &Ring{Host: host.NewReal("", t.TempDir(), t.TempDir(), nil), clients: map[string]host.Etcd{"http://m": etcd}}
		r.Use("http://m")
		return r, etcd
	}
	r, etcd := asking(1, 1)
	view, err := r.View(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, etcd.linear)
	require.Equal(t, Binding{Machine: "m1", Disk: "d1"}, view.Bindings[7])

	r, _ = asking(1, 2)
	_, err = r.View(t.Context())
	require.ErrorContains(t, err, "member 1 gave the list and 2 the records")

	r, etcd = asking(1, 1)
	etcd.record = "what nobody wrote"
	view, err = r.View(t.Context())
	require.NoError(t, err, "one key that somebody else wrote stops nobody")
	require.Empty(t, view.Bindings)
	require.Len(t, view.Unreadable, 1)
	require.Contains(t, view.Unreadable[0], "/ringadm/members/7 is not ringadm's and is passed over")
}

// TestSilenceIsWhatWasLookedFor: an hour in which the lead stood still makes no
// voter silent for longer than somebody looked.
func TestSilenceIsWhatWasLookedFor(t *testing.T) {
	var o Observer
	var clock time.Duration
	for i, look := range []struct {
		after time.Duration
		there bool
		want  time.Duration
	}{
		{0, true, 0},
		{time.Second, false, 0}, // silent since some time after the last look
		{time.Second, false, time.Second},
		{time.Hour, false, time.Second + mostBetweenObservations},
		{2 * time.Second, false, 3*time.Second + mostBetweenObservations},
		{time.Second, true, 0},
		{time.Second, false, 0},
	} {
		clock += look.after
		if got := o.missed(7, look.there, o.passed(clock)); got != look.want {
			t.Errorf("look %d: silent for %v, want %v", i+1, got, look.want)
		}
	}
}

// TestAlarmsOfNoMember: v3.5 says of no member that it is corrupt, but of the ring, and
// v3.6 too where as many have the one data as the other.
func TestAlarmsOfNoMember(t *testing.T) {
	for text, want := range map[string]map[ring.ID]string{
		"memberID:7 alarm:CORRUPT ": {7: ring.Corrupt},
		"memberID:7  alarm:NOSPACE": {7: ring.NoSpace},
		(&etcdserverpb.AlarmMember{Alarm: etcdserverpb.AlarmType_CORRUPT}).String(): {0: ring.Corrupt},
		"etcdserver: no leader": {},
	} {
		alarms := map[ring.ID]string{}
		readAlarms(alarms, []string{text})
		require.Equal(t, want, alarms, text)
	}
}

// TestWhatALearnerIsSent: it may be any member's file that it gets, as any may lead.
func TestWhatALearnerIsSent(t *testing.T) {
	r := (&kept{leader: 1}).ring(t)
	list, err := r.List(t.Context())
	require.NoError(t, err)
	seen := new(Observer).Observe(t.Context(), r, View{Members: list.Members})
	require.EqualValues(t, 3<<20, seen.Bytes)
}

// TestADecisionIsOfRoles: a learner was to be removed, which is safe, and it has
// been promoted since.
func TestADecisionIsOfRoles(t *testing.T) {
	etcd := &shared{members: []uint64{1}}
	r := &Ring{Host: host.NewReal("", t.TempDir(), t.TempDir(), nil), clients: map[string]host.Etcd{"http://m": etcd}}
	r.Use("http://m")
	err := r.Do(t.Context(), ring.Action{Kind: ring.Remove, Member: 7, On: ring.Roles([]ring.Member{{ID: 7, Learner: true}})}, Unfenced())
	require.ErrorContains(t, err, "the membership is not the one that this was decided on")
}
