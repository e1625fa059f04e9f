// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package admin

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// led is a ring of one in which somebody leads; it counts what is asked of it.
type led struct {
	host.Etcd
	held  bool  // the lead that is asked for is held
	takes error // why no note is taken
	fails error // why it answers nobody
	keeps error // why it removes nobody
	wrote []string
	calls []string
}

func (l *led) MemberList(context.Context, ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	l.calls = append(l.calls, "list")
	return &clientv3.MemberListResponse{Header: &etcdserverpb.ResponseHeader{}, Members: []*etcdserverpb.Member{{ID: 7, ClientURLs: []string{"http://own"}}}}, l.fails
}

func (l *led) Txn(context.Context) clientv3.Txn { return txn{led: l} }

func (l *led) MemberRemove(context.Context, uint64) (*clientv3.MemberRemoveResponse, error) {
	l.calls = append(l.calls, "remove")
	return nil, l.keeps
}

func (l *led) Grant(context.Context, int64) (*clientv3.LeaseGrantResponse, error) {
	l.calls = append(l.calls, "grant")
	return &clientv3.LeaseGrantResponse{ID: 1}, l.takes
}

func (l *led) Revoke(context.Context, clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	return nil, nil
}

func (l *led) MemberUpdate(_ context.Context, _ uint64, urls []string) (*clientv3.MemberUpdateResponse, error) {
	l.calls = append(l.calls, urls...)
	return nil, nil
}

type txn struct {
	*led
	notes bool // it writes
}

func (t txn) If(holds ...clientv3.Cmp) clientv3.Txn {
	if len(holds) > 0 {
		t.calls = append(t.calls, "fence")
	}
	return t
}
func (t txn) Then(ops ...clientv3.Op) clientv3.Txn {
	for _, op := range ops {
		what := "put "
		if op.IsDelete() {
			what = "delete "
		}
		t.wrote = append(t.wrote, what+string(op.KeyBytes()))
	}
	t.notes = len(ops) > 0
	return t
}
func (t txn) Else(...clientv3.Op) clientv3.Txn { return t }
func (t txn) Commit() (*clientv3.TxnResponse, error) {
	if t.notes && t.takes != nil {
		return nil, t.takes
	}
	return &clientv3.TxnResponse{Header: &etcdserverpb.ResponseHeader{Revision: 9}, Succeeded: t.held}, nil
}

// TestRemovedWithoutANote: where an alarm lets etcd write nothing, a removal needs no note.
func TestRemovedWithoutANote(t *testing.T) {
	for takes, removed := range map[error]bool{rpctypes.ErrNoSpace: true, rpctypes.ErrCorrupt: true, rpctypes.ErrTimeout: false} {
		etcd := &led{held: true, takes: takes}
		r := &Ring{Host: host.NewReal("", t.TempDir(), t.TempDir(), nil), clients: map[string]host.Etcd{"http://m": etcd}}
		r.Use("http://m")
		err := r.Do(t.Context(), ring.Action{Kind: ring.Remove, Member: 7, On: []ring.Role{{ID: 7}}}, Unfenced())
		require.Equal(t, removed, err == nil, "%v: %v", takes, err)
		require.Equal(t, removed, slices.Contains(etcd.calls, "remove"), "%v", takes)
	}
}

// TestARemovalIsFollowedByAWrite: the ring became one of one and was idle. Its last etcd was killed within a
// tenth of a second, took its peers for removed as it came back, and waited for their votes.
func TestARemovalIsFollowedByAWrite(t *testing.T) {
	for keeps, writes := range map[error]bool{nil: true, rpctypes.ErrUnhealthy: false} {
		etcd := &led{held: true, keeps: keeps}
		r := &Ring{Host: host.NewReal("", t.TempDir(), t.TempDir(), nil), clients: map[string]host.Etcd{"http://m": etcd}}
		r.Use("http://m")
		_ = r.Do(t.Context(), ring.Action{Kind: ring.Remove, Member: 7, On: []ring.Role{{ID: 7}}}, Unfenced())
		require.Equal(t, writes, slices.Contains(etcd.calls[slices.Index(etcd.calls, "remove"):], "grant"), "%v", keeps)
	}
}

// TestARefusedRemovalLeavesNoNote: m2 was to leave, and etcd wouldn't have it. Somebody starts
// m1 with --force-new-cluster a month after, and its ring of one doesn't list m2: by the note
// m2 had left for certain, and its log was set aside. Of a removal that may have been made the
// note stays.
func TestARefusedRemovalLeavesNoNote(t *testing.T) {
	note, gone := "put /ringadm/leaving/7", "delete /ringadm/leaving/7"
	for _, c := range []struct {
		keeps, takes error
		wrote        []string
	}{
		{rpctypes.ErrUnhealthy, nil, []string{note, gone}},
		{rpctypes.ErrMemberNotEnoughStarted, nil, []string{note, gone}},
		{rpctypes.ErrTimeout, nil, []string{note}},
		{rpctypes.ErrNoLeader, nil, []string{note}},
		{rpctypes.ErrMemberNotFound, nil, []string{note}},
		{rpctypes.ErrUnhealthy, rpctypes.ErrNoSpace, []string{note}}, // which was not taken
	} {
		etcd := &led{held: true, keeps: c.keeps, takes: c.takes}
		r := &Ring{Host: host.NewReal("", t.TempDir(), t.TempDir(), nil), clients: map[string]host.Etcd{"http://m": etcd}}
		r.Use("http://m")
		err := r.Do(t.Context(), ring.Action{Kind: ring.Remove, Member: 7, On: []ring.Role{{ID: 7}}}, Unfenced())
		require.Equal(t, c.keeps == rpctypes.ErrMemberNotFound, err == nil, "%v", c.keeps)
		require.Equal(t, c.wrote, etcd.wrote, "%v", c.keeps)
	}
}

// TestWhoLeavesIsNotAsked: etcd of v3.6 dies of its own removal on a slow disk before it has
// said that it is made. Only where no other answers is its own asked.
func TestWhoLeavesIsNotAsked(t *testing.T) {
	for name, test := range map[string]struct {
		others []*led
		asked  int // 0: its own
	}{
		"another answers":    {[]*led{{held: true}}, 1},
		"the second answers": {[]*led{{fails: rpctypes.ErrNoLeader}, {held: true}}, 2},
		"no other answers":   {[]*led{{fails: rpctypes.ErrNoLeader}}, 0},
		"there is no other":  {nil, 0},
	} {
		all := append([]*led{{held: true}}, test.others...)
		urls := []string{"http://own", "http://second", "http://third"}[:len(all)]
		r := &Ring{Host: host.NewReal("", t.TempDir(), t.TempDir(), nil), clients: map[string]host.Etcd{}}
		for i, url := range urls {
			r.clients[url] = all[i]
		}
		r.Use(urls...)
		require.NoError(t, r.Do(t.Context(), ring.Action{Kind: ring.Remove, Member: 7, On: []ring.Role{{ID: 7}}}, Unfenced()), name)
		for i, etcd := range all {
			require.Equal(t, i == test.asked, slices.Contains(etcd.calls, "remove"), "%s: %s", name, urls[i])
		}
		require.ElementsMatch(t, urls, r.endpoints, name)
	}
}

// TestNothingIsChangedUnguarded: whoever forgets what a change was decided on, or
// under which lead it is made, is refused before etcd is asked for anything.
func TestNothingIsChangedUnguarded(t *testing.T) {
	view := View{Lead: &Lead{Holder: "m1", Nonce: "ours"}, LeadRevision: 5, LeadLease: 7}
	late := end{math.MaxInt64, time.Unix(math.MaxInt32, 0)}
	ours, leads := view.Led("ours", Lease{7, late})
	require.True(t, leads)
	other, leads := view.Led("another's", Lease{7, late})
	require.False(t, leads)
	nobodys, leads := View{}.Led("", Lease{until: late})
	require.False(t, leads)
	long, leads := view.Led("ours", Lease{ID: 7})
	require.True(t, leads)
	_, leads = view.Led("ours", Lease{8, late})
	require.False(t, leads, "by another lease, whose end says nothing of the lead's")
	on := []ring.Role{{ID: 7}}
	for _, c := range []struct {
		name   string
		on     []ring.Role
		fence  Fence
		lost   bool
		calls  []string
		refuse string
	}{
		{"the lead's", on, ours, false, []string{"list", "fence", "fence", "remove", "grant"}, ""},
		{"of a lead that was stopped before it asked, for longer than its lease", on, long, false, []string{"list", "fence", "fence"}, "another may lead by now"},
		{"a person's", on, Unfenced(), false, []string{"list", "remove", "grant"}, ""},
		{"of a lead that was lost", on, ours, true, []string{"list", "fence"}, "another machine leads the automation now"},
		{"of a lead that another has", on, other, false, nil, "under nobody's lead"},
		{"of no lead", on, nobodys, false, nil, "under nobody's lead"},
		{"on no membership", nil, ours, false, nil, "which membership it was decided on"},
		{"a person's, on no membership", nil, Unfenced(), false, nil, "which membership it was decided on"},
		{"on no member", []ring.Role{}, ours, false, []string{"list"}, "the membership is not the one that this was decided on"},
	} {
		etcd := &led{held: !c.lost}
		r := &Ring{Host: host.NewReal("", t.TempDir(), t.TempDir(), nil), clients: map[string]host.Etcd{"http://m": etcd}}
		r.Use("http://m")
		err := r.Do(t.Context(), ring.Action{Kind: ring.Remove, Member: 7, On: c.on}, c.fence)
		require.Equal(t, c.calls, etcd.calls, c.name)
		if c.refuse == "" {
			require.NoError(t, err, c.name)
		} else {
			require.ErrorContains(t, err, c.refuse, c.name)
		}
	}
	require.ErrorContains(t, (&Ring{}).Forget(t.Context(), []ring.ID{7}, Fence{}), "under nobody's lead")
}

// clocks are those of a machine.
type clocks struct {
	host.Host
	up  time.Duration
	now time.Time
}

func (c *clocks) Monotonic() time.Duration { return c.up }
func (c *clocks) Now() time.Time           { return c.now }

// TestALeaseEndsByEitherClock: a machine that was suspended has a monotonic clock that stood still,
// and the other may be set. Set ahead, it costs a change; set back, it keeps nobody in the lead.
func TestALeaseEndsByEitherClock(t *testing.T) {
	for name, c := range map[string]struct {
		ran, shown time.Duration
		over       bool
	}{
		"just renewed":     {0, 0, false},
		"before its end":   {LeaseTTL - 1, LeaseTTL - 1, false},
		"at its end":       {LeaseTTL, LeaseTTL, true},
		"suspended":        {time.Second, time.Minute, true},
		"a clock set back": {LeaseTTL, -time.Hour, true},
		"set ahead":        {0, time.Hour, true},
	} {
		h := &clocks{up: time.Hour, now: time.Unix(1, 0)}
		f := Fence{until: in(LeaseTTL, h)}
		h.up, h.now = h.up+c.ran, h.now.Add(c.shown)
		require.Equal(t, c.over, f.over(h), name)
	}
	require.False(t, Unfenced().over(&clocks{}))
}

// TestWhoSucceeds: the oldest in the queue, while nobody has the record and every machine that is
// present stands for it by the lease that it lives by.
func TestWhoSucceeds(t *testing.T) {
	m1 := Candidate{Lead{Holder: "m1", Nonce: "a"}, 3, 7}
	m2 := Candidate{Lead{Holder: "m2", Nonce: "b"}, 5, 8}
	both := map[string]int64{"m1": 7, "m2": 8}
	for name, c := range map[string]struct {
		lead   *Lead
		queue  []Candidate
		leases map[string]int64
		nonce  string
		by     clientv3.LeaseID
		leads  bool
	}{
		"the oldest":                         {nil, []Candidate{m1, m2}, both, "a", 7, true},
		"the second":                         {nil, []Candidate{m1, m2}, both, "b", 8, false},
		"the second, once the first is gone": {nil, []Candidate{m2}, map[string]int64{"m2": 8}, "b", 8, true},
		"beside the lead":                    {&m2.Lead, []Candidate{m1, m2}, both, "a", 7, false},
		"nobody queues":                      {nil, nil, both, "a", 7, false},
		"one is present that doesn't queue":  {nil, []Candidate{m1}, both, "a", 7, false},
		"it got another lease since":         {nil, []Candidate{m1, m2}, both, "a", 9, false},
		"one queues by another lease":        {nil, []Candidate{m1, m2}, map[string]int64{"m1": 7, "m2": 9}, "a", 7, false},
	} {
		view := View{Lead: c.lead, Queue: c.queue, Presences: map[string]Presence{}, Leases: c.leases}
		for machine := range c.leases {
			view.Presences[machine] = Presence{Machine: machine}
		}
		f, leads := view.Succeeds(c.nonce, Lease{ID: c.by})
		require.Equal(t, c.leads, leads, name)
		require.Equal(t, c.leads, len(f.holds) == 2, "%s: it holds while it stands and nobody has the record", name)
	}
}

// TestTheQueueIsRead: what no lease ends, or names another, doesn't stand in it.
func TestTheQueueIsRead(t *testing.T) {
	for text, c := range map[string]struct {
		lease  int64
		stands bool
	}{
		`{"holder":"m1","nonce":"a"}`: {7, true},
		`{"holder":"m1","nonce":"b"}`: {0, false},
		`{"holder":"m2","nonce":"a"}`: {7, false},
		"m1":                          {7, false},
	} {
		var v View
		err := new(parsed).into(&v, queueKey("m1"), []byte(text), 3, c.lease)
		require.Equal(t, c.stands, err == nil, text)
		require.Equal(t, c.stands, len(v.Queue) == 1, text)
	}
}

// TestUpdatesVotersOnly: etcd may make a voter of a learner whose URL is changed
// (etcd#21694), and what is done already isn't done again.
func TestUpdatesVotersOnly(t *testing.T) {
	for _, c := range []struct {
		name   string
		member *etcdserverpb.Member
		asked  []string
		refuse string
	}{
		{"a voter", &etcdserverpb.Member{ID: 7, PeerURLs: []string{"http://m1:2380"}}, []string{"https://m1:2381"}, ""},
		{"a voter with two", &etcdserverpb.Member{ID: 7, PeerURLs: []string{"http://m1:2380", "https://m1:2381"}}, []string{"https://m1:2381"}, ""},
		{"done", &etcdserverpb.Member{ID: 7, PeerURLs: []string{"https://m1:2381"}}, nil, ""},
		{"a learner", &etcdserverpb.Member{ID: 7, IsLearner: true, PeerURLs: []string{"http://m1:2380"}}, nil, "promote it first"},
		{"another", &etcdserverpb.Member{ID: 8}, nil, "there is no member 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			etcd := &led{}
			r := &Ring{Host: host.NewReal("", t.TempDir(), t.TempDir(), nil), clients: map[string]host.Etcd{"m1": etcd}}
			r.Use("m1")
			err := r.update(t.Context(), ring.Action{Kind: ring.Update, Member: 7, PeerURL: "https://m1:2381"}, []*etcdserverpb.Member{c.member}, Unfenced())
			if c.refuse == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.refuse)
			}
			require.Equal(t, c.asked, etcd.calls)
		})
	}
}
