// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package client

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// guarded refuses some removals, and then has a new member at the host of the one that
// was asked for.
type guarded struct {
	Etcd
	refuses int
	at      uint64
	asked   []uint64
	added   []string
}

func (g *guarded) MemberList(context.Context, ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	return &clientv3.MemberListResponse{Members: []*etcdserverpb.Member{{ID: 1, PeerURLs: []string{"https://10.0.0.1:2380"}}, {ID: g.at, PeerURLs: []string{"https://10.0.0.2:2380"}}}}, nil
}

func (g *guarded) MemberRemove(_ context.Context, id uint64) (*clientv3.MemberRemoveResponse, error) {
	g.asked = append(g.asked, id)
	if g.refuses--; g.refuses >= 0 {
		return nil, rpctypes.ErrUnhealthy
	}
	if id != g.at {
		return nil, rpctypes.ErrMemberNotFound
	}
	return &clientv3.MemberRemoveResponse{}, nil
}

// TestAHandRemovesTheMemberThatItMeant: etcd refuses for a while, and the reply of the
// removal is lost; who is at the host by then is another.
func TestAHandRemovesTheMemberThatItMeant(t *testing.T) {
	for name, c := range map[string]struct {
		refuses int
		becomes uint64 // who is at the host after the first second
		host    string
		says    string
		asked   []uint64
	}{
		"at once":             {0, 2, "10.0.0.2", "member 2 was removed by hand", []uint64{2}},
		"refused twice":       {2, 2, "10.0.0.2", "member 2 was removed by hand", []uint64{2, 2, 2}},
		"another is there":    {1, 3, "10.0.0.2", "member 2 was removed by hand", []uint64{2, 2}},
		"nobody is there":     {0, 2, "10.0.0.9", "", nil},
		"refused to the last": {tries, 2, "10.0.0.2", "", []uint64{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}},
	} {
		g := &guarded{refuses: c.refuses, at: 2}
		ask := func(ctx context.Context, what func(context.Context, Etcd) error) error { return what(ctx, g) }
		sleep := func(context.Context, time.Duration) error { g.at = c.becomes; return nil }
		said, err := HandBy(t.Context(), []Asking{ask}, "", c.host, sleep)
		require.Equal(t, c.says, said, name)
		require.Equal(t, c.says == "", err != nil, "%s: %v", name, err)
		require.Equal(t, c.asked, g.asked, name)
	}
}

func (g *guarded) MemberAddAsLearner(_ context.Context, urls []string) (*clientv3.MemberAddResponse, error) {
	g.added = append(g.added, urls...)
	if g.refuses--; g.refuses >= 0 {
		return nil, rpctypes.ErrTooManyLearners
	}
	return &clientv3.MemberAddResponse{Member: &etcdserverpb.Member{ID: 9}}, nil
}

// TestAHandAdds a member that is reached as the others are, and none where one is.
func TestAHandAdds(t *testing.T) {
	for host, c := range map[string]struct {
		says  string
		added []string
	}{
		"10.0.0.4": {"member 9 was added by hand", []string{"https://10.0.0.4:2380", "https://10.0.0.4:2380"}},
		"10.0.0.2": {"member 2 was added by hand", nil},
	} {
		g := &guarded{refuses: 1, at: 2}
		ask := func(ctx context.Context, what func(context.Context, Etcd) error) error { return what(ctx, g) }
		said, err := HandBy(t.Context(), []Asking{ask}, "add-learner", host, func(context.Context, time.Duration) error { return nil })
		require.NoError(t, err)
		require.Equal(t, c.says, said)
		require.Equal(t, c.added, g.added)
	}
}

// shrinking is a ring that refuses an addition, and has a voter less by the next look.
type shrinking struct {
	guarded
	voters int
}

func (s *shrinking) MemberList(context.Context, ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	all := []*etcdserverpb.Member{{ID: 1, PeerURLs: []string{"https://10.0.0.1:2380"}}, {ID: 2, PeerURLs: []string{"https://10.0.0.2:2380"}}}
	return &clientv3.MemberListResponse{Members: all[:s.voters]}, nil
}

func (s *shrinking) MemberAdd(_ context.Context, urls []string) (*clientv3.MemberAddResponse, error) {
	s.added = append(s.added, urls...)
	return nil, rpctypes.ErrUnhealthy
}

// TestAHandAddsNoVoterToASmallerRing: a voter is added by hand, which etcd refuses while a machine is
// off, and meanwhile one of the two voters leaves. A ring of one that is told of a second voter waits
// for it for good.
func TestAHandAddsNoVoterToASmallerRing(t *testing.T) {
	s := &shrinking{voters: 2}
	ask := func(ctx context.Context, what func(context.Context, Etcd) error) error { return what(ctx, s) }
	_, err := HandBy(t.Context(), []Asking{ask}, "add-voter", "10.0.0.3", func(context.Context, time.Duration) error { s.voters = 1; return nil })
	require.ErrorContains(t, err, "the ring has 1 voters, and had 2")
	require.Len(t, s.added, 1)
}
