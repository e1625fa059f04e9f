// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
)

func viewing(f ringproof.Fault) seam.Setting {
	return seam.Of(ringproof.Seams{Step: "view", Fault: &f}, "m1")
}

// seeing is a brain whose views faults hit; its host's log tells what landed.
func seeing(b auto.Brain, set ...seam.Setting) (auto.Brain, *injector) {
	x := newInjector(func() (seam.Faults, error) { return seam.Faults{Set: set}, nil }, seam.Counters{}, nil)
	x.host, x.journal = newHost(), &seam.Journal{}
	return x.outer().brain(x.host, b), x
}

// Whatever is set, a brain is shown the view of so many decisions ago, the
// first of its life if it has not decided so often, and outside of the faulty
// decisions the present one. The bugs that this catches are a view kept too
// short, off by one, or old for good.
func TestAStaleViewIsSoManyDecisionsOld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := ringproof.Fault{Kind: ringproof.FaultStaleView, Nth: rapid.IntRange(0, 150).Draw(t, "nth"),
			Back: rapid.IntRange(0, faults.MostBack).Draw(t, "back"), Count: rapid.IntRange(0, 150).Draw(t, "count")}
		var shown []int
		b, x := seeing(auto.Brain{Next: func(_ ring.Spec, o ring.Observed) ring.Decision {
			shown = append(shown, len(o.Members))
			return wait("")
		}}, viewing(f))
		var want []int
		for i := 1; i <= 300; i++ {
			b.Next(ring.Spec{}, ring.Observed{Members: make([]ring.Member, i)})
			if first := max(f.Nth, 1); i >= first && i < first+max(f.Count, 1) {
				want = append(want, max(1, i-max(f.Back, 1)))
			} else {
				want = append(want, i)
			}
		}
		require.Equal(t, want, shown)
		landed := x.host.(*fakeHost).events(EventFaultLanded)
		require.Equal(t, max(f.Nth, 1)+max(f.Count, 1) > 2, len(landed) == 1, "the first view of a life is not old: %v", landed)
	})
}

func TestSkippedDecisionsAreWaits(t *testing.T) {
	decided := 0
	b, x := seeing(auto.Brain{
		Next: func(ring.Spec, ring.Observed) ring.Decision { decided++; return wait(ring.Steady) },
		Boot: func(launcher.Evidence) launcher.Boot { decided++; return launcher.Boot{Do: launcher.Start} },
	}, viewing(ringproof.Fault{Kind: ringproof.FaultSkippedView, Nth: 2, Count: 2}),
		seam.Setting{Step: "boot", Series: "boot", Fault: &ringproof.Fault{Kind: ringproof.FaultSkippedView, Decision: DecidesBoot}})
	for i, want := range []bool{true, false, false, true} {
		before := decided
		d := b.Next(ring.Spec{}, ring.Observed{})
		assert.Equal(t, want, decided > before, i)
		assert.Equal(t, want, d.Wait == ring.Steady, i)
		assert.Nil(t, d.Action)
	}
	assert.Equal(t, launcher.Wait, b.Boot(launcher.Evidence{}).Do)
	assert.Equal(t, launcher.Start, b.Boot(launcher.Evidence{}).Do)
	assert.Len(t, x.host.(*fakeHost).events(EventFaultLanded), 2, "once for each step")
	assert.Equal(t, ringproof.Decision{What: DecidesNext, Nth: 4, State: "0 wait: steady"}, x.journal.(*seam.Journal).Decisions[3])
	assert.Equal(t, ringproof.Decision{What: DecidesBoot, Nth: 2, State: "0 start (): "}, x.journal.(*seam.Journal).Decisions[5])
}

// Four voters, of which m2 is decommissioned: it is to go. While the decision was on its
// way another lead has let m3 go. Who carries it out all the same leaves two.
func staleRemoval(t *testing.T, do func(context.Context, *admin.Ring, ring.Action, admin.Fence) error) (left int, err error) {
	before := voting(4, 4)
	now := voting(4, 4)
	now.Members = slices.Delete(now.Members, 2, 3)
	b, x := seeing(auto.Brain{Next: ring.Next, Do: do}, viewing(ringproof.Fault{Kind: ringproof.FaultStaleView, Nth: 2}))
	spec := ring.Spec{Nodes: 3, Version: release, Decommission: []string{"m2"}}
	require.NotNil(t, b.Next(spec, before).Action)
	d := b.Next(spec, now)
	require.Equal(t, ring.Remove, d.Action.Kind)
	require.Equal(t, ring.ID(2), d.Action.Member)
	require.Len(t, x.host.(*fakeHost).events(EventFaultLanded), 1)

	h := newHost()
	for _, m := range now.Members {
		h.etcd.members = append(h.etcd.members, &etcdserverpb.Member{ID: uint64(m.ID), Name: m.Name})
	}
	r := &admin.Ring{Host: h}
	r.Use("https://m1")
	err = b.Do(t.Context(), r, *d.Action, admin.Unfenced())
	return len(h.etcd.members), err
}

func TestTheReferenceSurvivesAStaleViewAndOneThatDoesNotLookAgainDoesNot(t *testing.T) {
	left, err := staleRemoval(t, auto.Reference().Do)
	assert.Equal(t, 3, left)
	assert.ErrorContains(t, err, "the membership is not the one that this was decided on")

	left, err = staleRemoval(t, func(ctx context.Context, r *admin.Ring, a ring.Action, f admin.Fence) error {
		list, err := r.List(ctx)
		require.NoError(t, err)
		a.On = admin.Roles(list.Members)
		return r.Do(ctx, a, f)
	})
	assert.NoError(t, err)
	assert.Equal(t, 2, left, "the planted hazard is none: the view is not old")
}

func TestTheNextDecisionIsNotTakenForTheStaleOne(t *testing.T) {
	b, _ := seeing(auto.Reference(), viewing(ringproof.Fault{Kind: ringproof.FaultStaleView, Nth: 2}))
	spec := ring.Spec{Nodes: 3, Version: release}
	for i, o := range []ring.Observed{voting(5, 5), voting(4, 5), voting(4, 5)} {
		d := b.Next(spec, o)
		require.NotNil(t, d.Action)
		assert.Len(t, d.Action.On, []int{5, 5, 4}[i])
	}
}

// A machine's own log is always of now, and a list from before its last start
// says nothing of it: no delay makes one, and who clears a log that the list
// lacks would clear a good one.
func TestAStaleBootIsStaleElsewhereOnly(t *testing.T) {
	without, with := starts()["spare"], starts()["log"]
	without.Machine, without.Disk, without.Listed, without.Cluster, without.Members = "m1", "old", true, 9, starts()["left"].Members
	without.LetGo, without.Recorded = true, 1
	with.Cluster = 9
	bound := with
	bound.WAL = nil
	set := viewing(ringproof.Fault{Kind: ringproof.FaultStaleView, Decision: DecidesBoot, Nth: 3, Back: 2, Count: 2})

	b, _ := seeing(auto.Reference(), set)
	require.Equal(t, launcher.Wait, b.Boot(without).Do)
	require.Equal(t, launcher.Start, b.Boot(bound).Do)
	got := b.Boot(with)
	assert.Equal(t, launcher.Start, got.Do, "its log was cleared on a list from before its last start: %s", got)

	b, x := seeing(auto.Reference(), set)
	for range 2 {
		require.Equal(t, launcher.Wait, b.Boot(without).Do)
	}
	got = b.Boot(bound)
	assert.Equal(t, launcher.Wait, got.Do, "the list that binds it is not seen yet: %s", got)
	assert.Len(t, x.host.(*fakeHost).events(EventFaultLanded), 1)
	lost := elsewhere(with, without)
	assert.Equal(t, launcher.Clear, launcher.Decide(lost).Do, "the situation shows nothing")
	assert.Equal(t, with.WAL, lost.WAL)
}
