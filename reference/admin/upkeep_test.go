// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// kept is a ring of three, m1 to m3, whose members answer; it notes what is done to them.
type kept struct {
	leader uint64
	alarms []*etcdserverpb.AlarmMember
	mute   error // why it doesn't tell of alarms
	done   []string
	elects uint64 // who leads once one is defragmented; 0: who did
	asked  func() // once each was asked how it is
	behind int    // in how many answers m3 is far behind
}

func (k *kept) ring(t *testing.T) *Ring {
	r := &Ring{Host: host.NewReal("", t.TempDir(), t.TempDir(), nil), clients: map[string]host.Etcd{}}
	for id := range uint64(3) {
		r.clients[fmt.Sprintf("http://m%d", id+1)] = keptMember{kept: k, id: id + 1}
	}
	r.Use("http://m2")
	return r
}

// keptMember is one of them.
type keptMember struct {
	host.Etcd
	*kept
	id uint64
}

func (m keptMember) MemberList(context.Context, ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	list := &clientv3.MemberListResponse{Header: &etcdserverpb.ResponseHeader{}}
	for id := range uint64(3) {
		name := fmt.Sprintf("m%d", id+1)
		list.Members = append(list.Members, &etcdserverpb.Member{ID: id + 1, Name: name, ClientURLs: []string{"http://" + name}})
	}
	return list, nil
}

func (m keptMember) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{Revision: 5}}, nil
}

func (m keptMember) Status(context.Context, string) (*clientv3.StatusResponse, error) {
	is := &clientv3.StatusResponse{Header: &etcdserverpb.ResponseHeader{MemberId: m.id, Revision: 5}, Leader: m.leader, DbSize: int64(m.id) << 20}
	if m.kept.behind == 0 || m.id != 3 {
		is.Header.Revision += 5000
	} else {
		m.kept.behind--
	}
	if m.id == 3 && m.asked != nil {
		m.asked()
		m.asked = nil
	}
	return is, nil
}

func (m keptMember) AlarmList(context.Context) (*clientv3.AlarmResponse, error) {
	return &clientv3.AlarmResponse{Alarms: m.alarms}, m.mute
}

func (m keptMember) MoveLeader(_ context.Context, to uint64) (*clientv3.MoveLeaderResponse, error) {
	m.leader = to
	m.done = append(m.done, fmt.Sprintf("m%d hands over to m%d", m.id, to))
	return nil, nil
}

func (m keptMember) Defragment(context.Context, string) (*clientv3.DefragmentResponse, error) {
	led := ""
	if m.leader == m.id {
		led = ", which leads"
	}
	m.done = append(m.done, fmt.Sprintf("m%d%s", m.id, led))
	if m.elects != 0 {
		m.leader, m.elects = m.elects, 0
	}
	return nil, nil
}

// TestNobodyIsDefragmentedWhoLeads: also who was elected since the order was made, the first
// of all included.
func TestNobodyIsDefragmentedWhoLeads(t *testing.T) {
	for name, c := range map[string]struct {
		ring  *kept
		after uint64 // who leads once the order is made
		done  []string
	}{
		"as it was":         {&kept{leader: 1}, 0, []string{"m2", "m3", "m1 hands over to m2", "m1"}},
		"the first, since":  {&kept{leader: 1}, 2, []string{"m2 hands over to m3", "m2", "m3 hands over to m2", "m3", "m1"}},
		"the second, since": {&kept{leader: 1, elects: 3}, 0, []string{"m2", "m3 hands over to m2", "m3", "m1"}},
	} {
		r := c.ring.ring(t)
		if c.after != 0 {
			c.ring.asked = func() { c.ring.leader = c.after }
		}
		require.NoError(t, r.Defragment(t.Context(), time.Second, func(Defragmented) {}), name)
		assert.Equal(t, c.done, c.ring.done, name)
	}
}

// hurried is a host that needs no time to wait.
type hurried struct{ host.Host }

func (hurried) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// TestNobodyIsDefragmentedBesideWhoIsBehind: without the other there would be no quorum in step, and
// leadership would go to who refuses writes until it has caught up.
func TestNobodyIsDefragmentedBesideWhoIsBehind(t *testing.T) {
	for behind, want := range map[int]string{3: "", 1000: "m3 (3) is 5000 revisions behind"} {
		k := &kept{leader: 1, behind: behind}
		r := k.ring(t)
		r.Host = hurried{r.Host}
		err := r.Defragment(t.Context(), time.Second, func(Defragmented) {})
		if want == "" {
			require.NoError(t, err)
			assert.Zero(t, k.behind, "somebody was defragmented before m3 had caught up")
			continue
		}
		require.ErrorContains(t, err, want)
		assert.Empty(t, k.done)
	}
}

// TestNoSnapshotOfCorruptData: m2 answers first, has come as far as the others, and holds
// other data, as etcd has found. What it would give is what somebody restores one day.
func TestNoSnapshotOfCorruptData(t *testing.T) {
	alarm := func(id uint64, kind etcdserverpb.AlarmType) *etcdserverpb.AlarmMember {
		return &etcdserverpb.AlarmMember{MemberID: id, Alarm: kind}
	}
	corrupt := func(ids ...uint64) (all []*etcdserverpb.AlarmMember) {
		for _, id := range ids {
			all = append(all, alarm(id, etcdserverpb.AlarmType_CORRUPT))
		}
		return all
	}
	for name, c := range map[string]struct {
		ring   *kept
		gives  []ring.ID
		refuse string
	}{
		"no alarm":              {&kept{leader: 1}, []ring.ID{2, 3, 1}, ""},
		"no space":              {&kept{leader: 1, alarms: []*etcdserverpb.AlarmMember{alarm(2, etcdserverpb.AlarmType_NOSPACE)}}, []ring.ID{2, 3, 1}, ""},
		"one":                   {&kept{leader: 1, alarms: corrupt(2)}, []ring.ID{3, 1}, ""},
		"one that has left":     {&kept{leader: 1, alarms: corrupt(9)}, []ring.ID{2, 3, 1}, ""},
		"all":                   {&kept{leader: 1, alarms: corrupt(1, 2, 3)}, nil, "m2 (2) holds other data than the rest (alarm CORRUPT)"},
		"somebody, of whom not": {&kept{leader: 1, alarms: corrupt(0)}, nil, "who holds the right ones"},
		"it isn't known":        {&kept{leader: 1, mute: errors.New("no answer")}, nil, "who holds other data than the rest is not known"},
	} {
		all, _, err := c.ring.ring(t).Newest(t.Context())
		var gives []ring.ID
		for _, a := range all {
			gives = append(gives, a.ID)
		}
		assert.Equal(t, c.gives, gives, name)
		if c.refuse == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, c.refuse, name)
		}
	}
}

// TestASumIsThatOfAllButItself: whatever the pieces come in, and a snapshot that is cut
// short, changed or empty is refused.
func TestASumIsThatOfAllButItself(t *testing.T) {
	db := bytes.Repeat([]byte("page"), 1000)
	sum := sha256.Sum256(db)
	whole := append(bytes.Clone(db), sum[:]...)
	changed := bytes.Clone(whole)
	changed[7]++
	for name, text := range map[string][]byte{"whole": whole, "cut short": whole[:len(whole)-1], "without its sum": db, "changed": changed, "empty": nil} {
		for _, piece := range []int{1, 31, 32, 33, 4096} {
			var to bytes.Buffer
			told := int64(0)
			s := &summed{to: &to, hash: sha256.New(), tell: func(n int64) { told = n }}
			for at := 0; at < len(text); at += piece {
				n, err := s.Write(text[at:min(at+piece, len(text))])
				require.NoError(t, err)
				require.Equal(t, min(piece, len(text)-at), n)
			}
			assert.Equal(t, name == "whole", s.check() == nil, "%s in pieces of %d", name, piece)
			assert.Equal(t, text, to.Bytes(), name)
			assert.EqualValues(t, len(text), told, name)
		}
	}
}
