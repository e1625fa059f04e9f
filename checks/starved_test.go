// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// starving takes so much of the stretch from the run.
func starving(h *ringproof.History, from, to float64, lost time.Duration) {
	s := ringproof.Starvation{Span: ringproof.Span{From: sec(from), To: sec(to)}, Lost: ringproof.Duration(lost)}
	h.Evidence.Starved = append(h.Evidence.Starved, s)
}

// verdictOf is what the check says of a history with the plant in it.
func verdictOf(c Check, plant func(*ringproof.History), params map[string]string) ringproof.Verdict {
	h := healthy()
	plant(h)
	return c.Finding(h, params).Verdict
}

// TestAnOutageIsJudgedByTheTimeTheHostGave: nobody has an answer from 7 s to 27 s.
func TestAnOutageIsJudgedByTheTimeTheHostGave(t *testing.T) {
	budget := map[string]string{"maxGap": "15s"}
	for name, test := range map[string]struct {
		starve func(*ringproof.History)
		want   ringproof.Verdict
	}{
		"on a quiet host":                  {func(*ringproof.History) {}, ringproof.Fail},
		"beside 2s of starvation":          {func(h *ringproof.History) { starving(h, 10, 12, 2*time.Second) }, ringproof.Fail},
		"starvation before it":             {func(h *ringproof.History) { starving(h, 0, 7, 6*time.Second) }, ringproof.Fail},
		"starvation that may explain it":   {func(h *ringproof.History) { starving(h, 8, 20, 9*time.Second) }, ringproof.Inconclusive},
		"starvation through and through":   {func(h *ringproof.History) { starving(h, 0, 70, 63*time.Second) }, ringproof.Inconclusive},
		"starvation beside a short budget": {func(h *ringproof.History) { starving(h, 8, 20, 1*time.Second) }, ringproof.Fail},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			got := verdictOf(available, func(h *ringproof.History) {
				h.Operations[0].Call, h.Operations[0].Return = sec(7), sec(27)
				h.Operations = append(h.Operations[:1:1], h.Operations[3])
				h.Operations[1].Call, h.Operations[1].Return = sec(28), sec(29)
				test.starve(h)
			}, budget)
			require.Equal(t, test.want, got)
		})
	}
}

// TestALeaderThatTheHostTook: nobody has an answer for 7.7 s, and half a second is allowed. Who
// starves for 6.8 s of it elects a leader in the rest.
func TestALeaderThatTheHostTook(t *testing.T) {
	for lost, want := range map[time.Duration]ringproof.Verdict{
		6800 * time.Millisecond: ringproof.Inconclusive,
		5000 * time.Millisecond: ringproof.Fail, // 2.7 s are more than an election
		900 * time.Millisecond:  ringproof.Fail,
	} {
		require.Equal(t, want, verdictOf(available, func(h *ringproof.History) {
			h.Operations[0].Call, h.Operations[0].Return = sec(7), sec(14.7)
			h.Operations = h.Operations[:1]
			starving(h, 7, 14.7, lost)
		}, map[string]string{"maxGap": "500ms"}), lost)
	}
}

// TestASilentMemberOfAStarvedHost: the last look took 5 s, in which member 1 gave
// no answer.
func TestASilentMemberOfAStarvedHost(t *testing.T) {
	silent := func(h *ringproof.History) {
		h.Evidence.Final.Until = sec(75)
		h.Evidence.Final.Members[0].Serving, h.Evidence.Final.Members[0].Silent = false, true
	}
	for name, test := range map[string]struct {
		plant func(*ringproof.History)
		want  ringproof.Verdict
	}{
		"on a quiet host":          {silent, ringproof.Fail},
		"starved for a moment":     {func(h *ringproof.History) { silent(h); starving(h, 70, 71, time.Second) }, ringproof.Fail},
		"starved most of the look": {func(h *ringproof.History) { silent(h); starving(h, 70, 75, 4*time.Second) }, ringproof.Inconclusive},
		"starved before the look":  {func(h *ringproof.History) { silent(h); starving(h, 60, 70, 9*time.Second) }, ringproof.Fail},
		"it refused, though starved": {func(h *ringproof.History) {
			silent(h)
			h.Evidence.Final.Members[0].Silent = false
			starving(h, 70, 75, 4*time.Second)
		}, ringproof.Fail},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			require.Equal(t, test.want, verdictOf(noGhostMembers, test.plant, nil))
		})
	}
}

// TestListsThatDifferInTheMiddleOfAChange: member 1 lists what was before a change
// that nobody had seen applied when the last look began.
func TestListsThatDifferInTheMiddleOfAChange(t *testing.T) {
	differ := func(seen float64) func(*ringproof.History) {
		return func(h *ringproof.History) {
			h.Evidence.Final.Until = sec(71)
			h.Evidence.Final.Members[0].Peers = []ringproof.MemberID{1, 3}
			h.Evidence.Changes[5].At = sec(seen)
		}
	}
	require.Equal(t, ringproof.Fail, verdictOf(noGhostMembers, differ(35), nil))
	require.Equal(t, ringproof.Inconclusive, verdictOf(noGhostMembers, differ(70.5), nil))
}

// TestADiskClearedBetweenTwoLists: m3 leaves a ring of three and its disk is
// cleared, both after the look at 40 s. The look at 42 s finds the disk new and
// nobody with a quorum; the list without member 3 is read at 44 s.
func TestADiskClearedBetweenTwoLists(t *testing.T) {
	cleared := func(seen float64, fresh bool) func(*ringproof.History) {
		return func(h *ringproof.History) {
			insert(h, 6, entry("add-learner", 5, 37), entry("promote", 5, 38), entry("remove", 3, seen))
			for _, o := range []ringproof.Observation{seen5(40, 1, true), seen5(42, 2, fresh), seen5(44, 2, true)} {
				look(h, o)
			}
			h.Observations[len(h.Observations)-2].Members = without3(h.Observations[len(h.Observations)-2].Members)
			h.Observations[len(h.Observations)-1].Machines[2].Disk = 2
		}
	}
	for name, test := range map[string]struct {
		plant func(*ringproof.History)
		says  string // "": it passes
	}{
		"a list that no quorum gave in between": {cleared(44, false), ""},
		"seen listed after its disk was gone":   {cleared(44, true), "machine m3 has a new one without a fault"},
		"with none to take its place": {func(h *ringproof.History) {
			cleared(44, false)(h)
			h.Evidence.Changes = slices.DeleteFunc(h.Evidence.Changes, func(c ringproof.ConfChange) bool { return c.Member == 5 })
		}, "remove of 3"},
		"with none to take its place, after its disk was lost": {func(h *ringproof.History) {
			cleared(44, false)(h)
			h.Evidence.Changes = slices.DeleteFunc(h.Evidence.Changes, func(c ringproof.ConfChange) bool { return c.Member == 5 })
			event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventFaultLanded, Step: "loss", Fault: ringproof.FaultVolumeLoss, Machine: "m3"})
		}, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			test.plant(h)
			judged(t, quorumMargin.Finding(h, nil), test.says)
		})
	}
}

// seen5 is a look at four voters, the disk of m3 the nth.
func seen5(at float64, disk int, fresh bool) ringproof.Observation {
	o := seen(at, 2, 1, 3, 4, 5)
	o.Machines[2].Disk, o.Fresh = disk, fresh
	return o
}

func without3(members []ringproof.MemberView) []ringproof.MemberView {
	return append(members[:1:1], members[2:]...)
}

// TestAFarewellWithinTheSpanOfALook: member 2 is removed at 25 s, and a look that
// began at 26 s and ended at 29 s shows it serving: that may have been at 26 s.
func TestAFarewellWithinTheSpanOfALook(t *testing.T) {
	up := func(since float64) func(*ringproof.History) {
		return func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(29), Since: sec(since), Kind: ringproof.EventMemberUp, Member: 2, Machine: "m2"})
		}
	}
	require.Equal(t, ringproof.Pass, verdictOf(noIdentityReuse, up(26), nil))
	require.Equal(t, ringproof.Fail, verdictOf(noIdentityReuse, up(27.5), nil))
	require.Equal(t, ringproof.Pass, verdictOf(noIdentityReuse, func(h *ringproof.History) {
		up(27.5)(h)
		starving(h, 25, 28, 2*time.Second)
	}, nil), "the host was starved, and it was slow to hear")
}

// TestAConvergenceOnAStarvedHost: faults end at 60 s, the ring is whole at 62 s.
func TestAConvergenceOnAStarvedHost(t *testing.T) {
	never := func(h *ringproof.History) { drop(h, ringproof.EventConverged) }
	for name, test := range map[string]struct {
		plant  func(*ringproof.History)
		within string
		want   ringproof.Verdict
	}{
		"late on a quiet host":  {func(*ringproof.History) {}, "1s", ringproof.Fail},
		"late, starved":         {func(h *ringproof.History) { starving(h, 60, 62, 1500*time.Millisecond) }, "1s", ringproof.Inconclusive},
		"never, starved enough": {func(h *ringproof.History) { never(h); starving(h, 60, 62, 1500*time.Millisecond) }, "9s", ringproof.Inconclusive},
		"never, starved little": {func(h *ringproof.History) { never(h); starving(h, 60, 62, 500*time.Millisecond) }, "9s", ringproof.Fail},
		"at the end nobody said anything": {func(h *ringproof.History) {
			h.Evidence.Final.Until, h.Evidence.Final.Fresh, h.Evidence.Final.Members = sec(75), false, nil
			starving(h, 70, 75, 4*time.Second)
		}, "9s", ringproof.Inconclusive},
		"nobody said anything to a host at rest": {func(h *ringproof.History) {
			h.Evidence.Final.Until, h.Evidence.Final.Fresh, h.Evidence.Final.Members = sec(75), false, nil
		}, "9s", ringproof.Fail},
		"at the end a member said nothing": {func(h *ringproof.History) {
			h.Evidence.Final.Until = sec(75)
			h.Evidence.Final.Members[0].Serving, h.Evidence.Final.Members[0].Silent = false, true
			starving(h, 70, 75, 4*time.Second)
		}, "9s", ringproof.Inconclusive},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			require.Equal(t, test.want, verdictOf(converges, test.plant, map[string]string{"within": test.within}))
		})
	}
}

// TestWorkThatAStarvedHostMakes: of what happens at 24 s none may be the subject's, where it had no
// processor for half of the time before. Who has none is taken for one that is away, and what
// he ends is seen late.
func TestWorkThatAStarvedHostMakes(t *testing.T) {
	hosts := map[string]struct {
		starve func(*ringproof.History)
		want   ringproof.Verdict
	}{
		"on a quiet host":           {func(*ringproof.History) {}, ringproof.Fail},
		"beside some starvation":    {func(h *ringproof.History) { starving(h, 10, 20, 3*time.Second) }, ringproof.Fail},
		"on a starved host":         {func(h *ringproof.History) { starving(h, 8, 20, 8*time.Second) }, ringproof.Inconclusive},
		"starvation long before it": {func(h *ringproof.History) { starving(h, 0, 1, time.Second) }, ringproof.Fail},
		"starvation after it":       {func(h *ringproof.History) { starving(h, 25, 60, 30*time.Second) }, ringproof.Fail},
	}
	works := map[string]func() (Check, *ringproof.History, map[string]string){
		"a healthy voter is replaced": func() (Check, *ringproof.History, map[string]string) {
			h := healthy()
			insert(h, len(h.Evidence.Changes), entry("remove", 1, 24))
			return workBounded, h, map[string]string{"changes": "0"}
		},
		"an etcd is ended that no fault hit": func() (Check, *ringproof.History, map[string]string) {
			h := healthy()
			event(h, ringproof.Event{At: sec(24), Kind: ringproof.EventProcessExited, Machine: "m3"})
			return workBounded, h, nil
		},
		"a voter is ended while another is away": func() (Check, *ringproof.History, map[string]string) {
			h := rolled("3.5.35", 2, 3, 1)
			away(h, "m2", 23, 26)
			event(h, ringproof.Event{At: sec(24), Kind: ringproof.EventProcessExited, Machine: "m3"})
			return restartsInTurn, h, nil
		},
		"one left who was to stay": func() (Check, *ringproof.History, map[string]string) {
			h := healthy()
			insert(h, len(h.Evidence.Changes), entry("remove", 1, 24))
			h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "stay", Assert: &ringproof.Assert{Left: &[]string{}}})
			event(h, ringproof.Event{At: sec(50), Kind: ringproof.EventStepFailed, Step: "stay", Text: "expected that nobody has left, saw m1 left"})
			return steps, h, nil
		},
	}
	for work, of := range works {
		for host, test := range hosts {
			t.Run(strings.ReplaceAll(work+" "+host, " ", "-"), func(t *testing.T) {
				c, h, params := of()
				test.starve(h)
				f := c.Finding(h, params)
				require.Equal(t, test.want, f.Verdict, f.String())
			})
		}
	}
}

// TestWhatFailsBesideWhoLeft: that who left can't be told on a starved host hides no other step's failure.
func TestWhatFailsBesideWhoLeft(t *testing.T) {
	for name, others := range map[string][]ringproof.Step{
		"an operation":     {{Name: "grow", Op: &ringproof.Op{Kind: ringproof.OpScale, To: 5}}},
		"another assert":   {{Name: "grow", Assert: &ringproof.Assert{Voters: 5}}},
		"nothing, it left": nil,
	} {
		h := healthy()
		insert(h, len(h.Evidence.Changes), entry("remove", 1, 24))
		h.Plan.Steps = append(append(h.Plan.Steps, others...), ringproof.Step{Name: "stay", Assert: &ringproof.Assert{Left: &[]string{}}})
		event(h, ringproof.Event{At: sec(50), Kind: ringproof.EventStepFailed, Step: "stay", Text: "saw m1 left"})
		for _, s := range others {
			event(h, ringproof.Event{At: sec(51), Kind: ringproof.EventStepFailed, Step: s.Name, Text: "saw 3 voters"})
		}
		starving(h, 8, 20, 8*time.Second)
		want := ringproof.Fail
		if others == nil {
			want = ringproof.Inconclusive
		}
		f := steps.Finding(h, nil)
		require.Equal(t, want, f.Verdict, "%s: %s", name, f)
	}
}

// TestWhatAHostCanFail: a check that forgives a starved run, or has a budget of time or
// of work, says that it is timed; one that is about what was lost never is.
func TestWhatAHostCanFail(t *testing.T) {
	timed := map[string]bool{}
	for _, c := range append(All(), Always()...) {
		timed[c.Name] = c.Timed
		require.Equal(t, !c.Timed, Proves(ringproof.Finding{Check: c.Name, Verdict: ringproof.Fail}), c.Name)
		require.False(t, Proves(ringproof.Finding{Check: c.Name, Verdict: ringproof.Inconclusive}), c.Name)
		for _, p := range c.Params {
			if _, err := time.ParseDuration(p.Default); err == nil && p.Default != "0" && p.Name != "checkTimeout" { // the check's own time
				require.True(t, c.Timed, "%s has the limit %s, a time", c.Name, p.Name)
			}
		}
	}
	for _, name := range []string{"linearizable", "acknowledged-writes-survive", "hash-equal", "one-cluster-identity", "no-identity-reuse", "no-panic", "learner-first", "one-change-at-a-time"} {
		require.False(t, timed[name], name)
	}
	for _, name := range []string{"available", "converges", "quiescent", "work-bounded", "steps"} {
		require.True(t, timed[name], name)
	}
	require.False(t, Proves(ringproof.Finding{Check: "run", Verdict: ringproof.Fail}), "what no check says")
}
