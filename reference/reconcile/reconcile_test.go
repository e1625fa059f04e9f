// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reconcile

import (
	"context"
	"crypto/tls"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// place is where a reconciler runs that is no machine: it has a clock and a log, and
// whoever touches a disk or a process there panics.
type place struct {
	host.Host
	now   time.Time
	up    time.Duration
	each  time.Duration // by which the clock goes on at each look
	lines []host.Line
	etcd  host.Etcd // that answers at any address
}

func (p *place) Now() time.Time                             { p.now = p.now.Add(p.each); return p.now }
func (p *place) Monotonic() time.Duration                   { p.up += p.each; return p.up }
func (p *place) Log(l host.Line)                            { p.lines = append(p.lines, l) }
func (p *place) Sleep(context.Context, time.Duration) error { return nil }

func (p *place) said() (all []string) {
	for _, l := range p.lines {
		all = append(all, string(l.Event)+" "+l.Command+l.Text)
	}
	p.lines = nil
	return all
}

var add = ring.Action{Kind: ring.AddLearner, Machine: "m4", Disk: "d4", PeerURL: "https://m4:2380"}

func members(urls ...string) (all []*etcdserverpb.Member) {
	for i, url := range urls {
		name, _, _ := strings.Cut(strings.TrimPrefix(url, "https://"), ":")
		all = append(all, &etcdserverpb.Member{ID: uint64(i + 1), Name: name, PeerURLs: []string{url}})
	}
	return all
}

func reconciler(p *place, d ring.Decision) (*Reconciler, *[]ring.Action) {
	done := &[]ring.Action{}
	return &Reconciler{Ring: &admin.Ring{Host: p}, Log: &host.Recorder{Host: p}, Lead: admin.Lead{Holder: "c1", Nonce: "ours"},
		Next: func(ring.Spec, ring.Observed) ring.Decision { return d },
		Do: func(_ context.Context, _ *admin.Ring, a ring.Action, _ admin.Fence) error {
			*done = append(*done, a)
			return nil
		}}, done
}

func TestOneLeadsAndSaysSoOnce(t *testing.T) {
	p := &place{now: time.Unix(1, 0)}
	r, _ := reconciler(p, ring.Decision{})
	ours := admin.View{Lead: &admin.Lead{Nonce: "ours"}, LeadRevision: 3}
	anothers := admin.View{Lead: &admin.Lead{Nonce: "another's"}, LeadRevision: 4}
	for _, c := range []struct {
		view  admin.View
		leads bool
		said  []string
	}{{ours, true, []string{"leads "}}, {ours, true, nil}, {anothers, false, nil}, {ours, true, []string{"leads "}}} {
		f, leads, err := r.Leads(t.Context(), c.view, admin.Lease{})
		require.NoError(t, err)
		require.Equal(t, c.leads, leads)
		require.Equal(t, !c.leads, reflect.DeepEqual(f, admin.Fence{}), "a fence, and it doesn't lead")
		require.Equal(t, c.said, p.said())
	}
	_, leads, err := r.Leads(t.Context(), admin.View{}, admin.Lease{})
	require.False(t, leads)
	require.Error(t, err, "nobody leads, and no endpoint is known to stand at")
}

// full is a ring that takes no record for an alarm.
type full struct {
	noting
	takes error
}

func (x *full) Txn(context.Context) clientv3.Txn { return refusing{x, taking{&x.noting}} }

type refusing struct {
	*full
	clientv3.Txn
}

func (x refusing) If(...clientv3.Cmp) clientv3.Txn { return x }
func (x refusing) Then(ops ...clientv3.Op) clientv3.Txn {
	x.Txn.Then(ops...)
	return x
}
func (x refusing) Commit() (*clientv3.TxnResponse, error) { return &clientv3.TxnResponse{}, x.takes }

// TestTheOldestSucceeds: of those who queue only one asks for the lead, and leads without its record
// where an alarm refuses that, and for nothing else.
func TestTheOldestSucceeds(t *testing.T) {
	ours := admin.Candidate{Lead: admin.Lead{Holder: "c1", Nonce: "ours"}, Revision: 3, Lease: 7}
	other := admin.Candidate{Lead: admin.Lead{Holder: "c2", Nonce: "another's"}, Revision: 4, Lease: 8}
	for name, c := range map[string]struct {
		queue []admin.Candidate
		takes error
		wrote []string
		leads bool
	}{
		"it stands first":            {nil, nil, []string{"/ringadm/queue/c1"}, false},
		"the oldest asks":            {[]admin.Candidate{ours, other}, nil, []string{admin.LeadKey}, false},
		"the second waits":           {[]admin.Candidate{other, ours}, nil, nil, false},
		"the oldest succeeds":        {[]admin.Candidate{ours, other}, rpctypes.ErrNoSpace, []string{admin.LeadKey}, true},
		"of an answer nobody knows":  {[]admin.Candidate{ours, other}, rpctypes.ErrTimeout, []string{admin.LeadKey}, false},
		"there was no room to stand": {nil, rpctypes.ErrNoSpace, []string{"/ringadm/queue/c1"}, false},
	} {
		etcd := &full{takes: c.takes}
		p := &place{now: time.Unix(1, 0), etcd: etcd}
		r, _ := reconciler(p, ring.Decision{})
		r.Queues = true
		r.Ring.Use("http://m1")
		_, leads, err := r.Leads(t.Context(), admin.View{Queue: c.queue}, admin.Lease{ID: 7})
		require.Equal(t, c.leads, leads, name)
		require.Equal(t, c.wrote, etcd.back, name)
		require.Equal(t, c.takes != nil && !c.leads, err != nil, "%s: %v", name, err)
	}
}

func TestAStepMakesTheOneChange(t *testing.T) {
	p := &place{now: time.Unix(1, 0)}
	r, done := reconciler(p, ring.Decision{Action: &add})
	r.Step(t.Context(), admin.View{}, ring.Spec{}, admin.Fence{})
	require.Equal(t, []ring.Action{add}, *done)
	require.Equal(t, []string{"action-begun " + add.String(), "action-done " + add.String()}, p.said())

	r.Log.DryRun = true
	for range 2 {
		r.Step(t.Context(), admin.View{}, ring.Spec{}, admin.Fence{})
	}
	require.Len(t, *done, 1)
	require.Equal(t, []string{"waiting dry run: " + add.String()}, p.said())
}

// TestALongLookDecidesNothing: the lease may be over, and another lead.
func TestALongLookDecidesNothing(t *testing.T) {
	p := &place{each: admin.LeaseTTL}
	r, done := reconciler(p, ring.Decision{Action: &add})
	d := r.Step(t.Context(), admin.View{}, ring.Spec{}, admin.Fence{})
	require.Nil(t, d.Action)
	require.Empty(t, *done)
}

func TestFoundersAreBoundToTheirDisks(t *testing.T) {
	p := &place{now: time.Unix(1, 0)}
	r, done := reconciler(p, ring.Decision{})
	view := admin.View{Members: members("https://m1:2380", "https://m2:2380"), Bindings: map[ring.ID]admin.Binding{1: {Machine: "m1", Disk: "d1"}}}
	initialMembers := []store.InitialMember{{Name: "m1", Machine: "m1", Disk: "d1", PeerURL: "https://m1:2380"}, {Name: "m2", Machine: "m2", Disk: "d2", PeerURL: "https://m2:2380"}}
	require.True(t, r.Bind(t.Context(), view, initialMembers, admin.Fence{}))
	require.Equal(t, []ring.Action{{Kind: ring.Bind, Member: 2, Machine: "m2", Disk: "d2", On: []ring.Role{{ID: 1}, {ID: 2}}}}, *done)
	require.False(t, r.Bind(t.Context(), view, initialMembers[:1], admin.Fence{}), "nobody was bootstrapped at m2")
}

// noting is a ring that takes notes; it lists those of members that were taken back.
type noting struct {
	host.Etcd
	back []string
}

func (n *noting) Txn(context.Context) clientv3.Txn { return taking{n} }

type taking struct{ *noting }

func (x taking) If(...clientv3.Cmp) clientv3.Txn  { return x }
func (x taking) Else(...clientv3.Op) clientv3.Txn { return x }
func (x taking) Then(ops ...clientv3.Op) clientv3.Txn {
	for _, op := range ops {
		x.back = append(x.back, string(op.KeyBytes()))
	}
	return x
}
func (x taking) Commit() (*clientv3.TxnResponse, error) {
	return &clientv3.TxnResponse{Succeeded: true}, nil
}

func (p *place) Dial(string, *tls.Config) (host.Etcd, error) { return p.etcd, nil }
func (p *place) Timeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}

// TestNotesOfWhoStayedAreTakenBack: the agent that let a member go died before it removed it,
// and whoever led next had no reason to. One that was written just now is of a removal that is
// on its way.
func TestNotesOfWhoStayedAreTakenBack(t *testing.T) {
	etcd := &noting{}
	p := &place{now: time.Unix(1, 0), etcd: etcd}
	r, _ := reconciler(p, ring.Decision{})
	r.Ring.Use("http://m1")
	fence := admin.Unfenced()
	noted := func(revision int64) admin.View {
		return admin.View{Members: members("https://m1:2380", "https://m2:2380"), Leaving: map[ring.ID]admin.Leaving{2: {Machine: "m2"}},
			Revisions: map[string]int64{admin.Prefix + "leaving/2": revision}}
	}
	require.NoError(t, r.Tidy(t.Context(), noted(5), fence))
	p.up += 9 * time.Second
	require.NoError(t, r.Tidy(t.Context(), noted(5), fence))
	require.Empty(t, etcd.back, "it may be on its way")
	p.up += 2 * time.Second
	require.NoError(t, r.Tidy(t.Context(), noted(6), fence))
	require.Empty(t, etcd.back, "it was let go once more")
	p.up += 11 * time.Second
	require.NoError(t, r.Tidy(t.Context(), noted(6), fence))
	require.Equal(t, []string{"/ringadm/leaving/2"}, etcd.back)
}

func TestAPersonIsCalledOnceForEachReason(t *testing.T) {
	p := &place{now: time.Unix(1, 0)}
	r, _ := reconciler(p, ring.Decision{Halt: "it is lost", Commands: []string{"restore"}})
	lost := errors.New("no endpoint answered")
	want := []string{"waiting the ring can't be read: no endpoint answered", "halted restoreit is lost"}
	r.Unread(ring.Spec{}, lost)
	require.Equal(t, want, p.said())
	r.Unread(ring.Spec{}, lost)
	require.Empty(t, p.said())
	r.Read()
	r.Unread(ring.Spec{}, lost)
	require.Equal(t, want[1:], p.said(), "the next time is another one")
}

// TestALostRingIsToldByTheTimeThatPasses: while a ring elected a leader the machine's clock was
// set right, by an hour. A person was told that no quorum had answered for that long, and to
// restore a backup.
func TestALostRingIsToldByTheTimeThatPasses(t *testing.T) {
	p := &place{now: time.Unix(1, 0)}
	r, _ := reconciler(p, ring.Decision{})
	var unread time.Duration
	r.Next = func(_ ring.Spec, o ring.Observed) ring.Decision {
		unread = o.Unread
		return ring.Decision{Wait: "it can't be read"}
	}
	for _, c := range []struct{ up, clock, want time.Duration }{{want: 0}, {up: 1, clock: 3600, want: 1}, {up: 2, clock: -7200, want: 3}, {up: 20, want: 23}} {
		p.up, p.now = p.up+c.up*time.Second, p.now.Add(c.clock*time.Second)
		r.Unread(ring.Spec{}, errors.New("no endpoint answered"))
		require.Equal(t, c.want*time.Second, unread)
	}
	r.Read()
	r.Unread(ring.Spec{}, errors.New("no endpoint answered"))
	require.Zero(t, unread, "it was read meanwhile")
}
