// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

var journal = ringproof.Journal{
	Effects: []ringproof.Effect{
		{Machine: "m1", Name: "etcd member-add", Nth: 1, State: "3+0"}, // failed by itself
		{Machine: "m1", Name: "etcd member-add", Nth: 2, Done: 1, State: "3+0"},
		{Machine: "m1", Name: "etcd member-add", Nth: 3, Done: 2, State: "3+0"},
		{Machine: "m4", Name: "start", Nth: 1, Done: 1, State: "3+1"},
	},
	Decisions: []ringproof.Decision{{Machine: "m1", What: "next", Nth: 1}, {Machine: "m1", What: "next", Nth: 2}},
}

func TestPerturbations(t *testing.T) {
	full, pruned := Perturbations(journal, true)
	assert.Zero(t, pruned)
	assert.Len(t, full, 2+2*7+6+2*2, "each request in seven ways but the one without a reply, the start in six, each decision in two")
	cut := ringproof.Fault{Kind: ringproof.FaultAgentCrash, Target: "m1", Effect: "etcd member-add", Phase: "before", Nth: 2, For: down}
	assert.Equal(t, cut, full[2].Fault)
	cut.Phase, cut.Nth = "after", 1
	assert.Equal(t, cut, full[3].Fault, "what is cut when it is done is counted by what is done")
	assert.Equal(t, ringproof.Fault{Kind: ringproof.FaultStaleView, Target: "m1", Decision: "next", Nth: 1, Back: staleBack, Count: missed}, full[22].Fault)
	assert.Equal(t, Perturbation{"etcd member-add", "machine", cut, &ringproof.Fault{Kind: ringproof.FaultMachineLoss, Target: "m1"}}, full[7])
	cut.Phase, cut.Nth, cut.For = "late", 2, 0
	assert.Equal(t, cut, full[5].Fault, "what comes late is counted when it is asked")

	some, pruned := Perturbations(journal, false)
	assert.Equal(t, 9, pruned, "the second and third member-add found the ring as the first did")
	assert.Len(t, some, len(full)-9, "what the ring was at a decision isn't known: all stay")
}

func TestPerturbationsAreLegal(t *testing.T) {
	all, _ := Perturbations(journal, true)
	for _, p := range all {
		assert.Empty(t, faults.Validate(p.Fault), "%+v", p)
		if p.Then != nil {
			assert.Empty(t, faults.Validate(*p.Then), "%+v", p)
		}
	}
}

// A pair that comes twice, or never, would make "all pairs" a lie.
func TestPairsAreEachOnce(t *testing.T) {
	seen := map[[2]int]bool{}
	for k := range 10 * 9 / 2 {
		i, j := pair(k)
		assert.True(t, 0 <= i && i < j && j < 10, "pair %d is %d, %d", k, i, j)
		seen[[2]int{i, j}] = true
	}
	assert.Len(t, seen, 45)
}

func TestSample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 200).Draw(t, "n")
		limit := rapid.IntRange(0, 250).Draw(t, "limit")
		drawn := sample(rapid.Uint64().Draw(t, "seed"), n, limit)
		want := min(n, limit)
		if limit == 0 {
			want = n
		}
		assert.Len(t, drawn, want)
		assert.True(t, slices.IsSorted(drawn))
		assert.Len(t, slices.Compact(slices.Clone(drawn)), want, "one is drawn twice")
		for _, k := range drawn {
			assert.True(t, 0 <= k && k < n)
		}
	})
	assert.NotEqual(t, sample(1, 1000, 10), sample(2, 1000, 10))
}

// swept is a toy that dies badly: after m4's start. A decision's second turn
// never comes.
func swept(_ context.Context, p ringproof.Plan, o Options) (Outcome, error) {
	outcome := Outcome{Verdict: ringproof.Pass, SimSeconds: 2, WallSeconds: 0.5}
	if o.Journal {
		outcome.Journal = &journal
	}
	for _, i := range faultSteps(p) {
		s := p.Steps[i]
		switch {
		case s.Fault.Effect == "start" && s.Fault.Phase == "after":
			outcome.Verdict = ringproof.Fail
			outcome.Findings = append(outcome.Findings, ringproof.Finding{Check: "converges", Verdict: ringproof.Fail, Message: "expected 5 voters, saw 4"})
		case s.Fault.Decision == "next" && s.Fault.Nth == 2 && outcome.Verdict == ringproof.Pass:
			outcome.Verdict = ringproof.Inconclusive
			outcome.Findings = append(outcome.Findings, ringproof.Finding{Check: "assumptions", Message: fmt.Sprintf("expected every fault to land, %s did not", s.Name)})
		}
	}
	return outcome, nil
}

func sweepOf(t *testing.T, s Sweep) *Swept {
	t.Helper()
	s.Plan = ringproof.Plan{Cell: "grow[size=3]#1", Scenario: "grow", Seed: 1, Steps: []ringproof.Step{{Name: "grow", Op: &ringproof.Op{Kind: ringproof.OpScale, To: 5}}}}
	s.Runner = &abreast{simulate: swept, jobs: 3}
	w, err := s.Run(context.Background())
	require.NoError(t, err)
	return w
}

func TestSweep(t *testing.T) {
	w := sweepOf(t, Sweep{})
	assert.Equal(t, 4, w.Effects)
	assert.Equal(t, 2, w.Decisions)
	assert.Equal(t, 17, w.Plans)
	assert.Equal(t, 17, w.Tally.Runs)
	assert.Equal(t, 2, w.NotReached)
	assert.Empty(t, w.Tally.Inconclusive, "a fault that hits nothing leaves the run as it was")
	require.Len(t, w.Tally.Findings, 1)
	plan := w.Tally.Findings[0].Plan
	assert.Equal(t, "grow[size=3,sweep=9]#1", plan.Cell)
	assert.True(t, plan.Assumptions.FaultsFired)
	require.Len(t, plan.Steps, 2)
	assert.True(t, plan.Steps[0].Detach)
	assert.Contains(t, w.Rows, Row{At: "start", How: "after", Plans: 1, Failed: 1, SimSeconds: 2, Seconds: 0.5})
	assert.Contains(t, w.Rows, Row{At: "decision next", How: "stale-view", Plans: 2, NotReached: 1, SimSeconds: 4, Seconds: 1})
}

func TestSweepOfPairs(t *testing.T) {
	all := sweepOf(t, Sweep{Pairs: true})
	assert.Equal(t, 136, all.Plans)
	assert.Zero(t, all.Unsampled)
	some := sweepOf(t, Sweep{Pairs: true, Limit: 20, Seed: 3})
	assert.Equal(t, 20, some.Plans)
	assert.Equal(t, 116, some.Unsampled)
}

func TestSweepOfWhatFails(t *testing.T) {
	failing, _ := failingFrom(1)
	w, err := Sweep{Plan: failing, Runner: &abreast{simulate: toy, jobs: 1}}.Run(context.Background())
	require.NoError(t, err)
	assert.Zero(t, w.Plans)
	assert.Len(t, w.Tally.Findings, 1)

	passing := Genome{Seed: 1}.Plan(1)
	passing.Steps = nil
	_, err = Sweep{Plan: passing, Runner: &abreast{simulate: toy, jobs: 1}}.Run(context.Background())
	assert.ErrorContains(t, err, "kept no journal")
}

// TestASweepMayTakeWhatThePlanWouldLose: beside a disk that the sweep loses, the plan's own
// loss may be milder than it is written; without one, it may not.
func TestASweepMayTakeWhatThePlanWouldLose(t *testing.T) {
	o := Outcome{Verdict: ringproof.Inconclusive, Findings: []ringproof.Finding{{Check: "assumptions", Message: "expected every fault to land as it is written, lose did not"}}}
	assert.True(t, o.missed([]Perturbation{{How: "disk", Then: &ringproof.Fault{Kind: ringproof.FaultVolumeLoss}}}))
	assert.False(t, o.missed([]Perturbation{{How: "after"}}))
	o.Findings = append(o.Findings, ringproof.Finding{Check: "hash-equal", Message: "no two members were hashed"})
	assert.False(t, o.missed([]Perturbation{{How: "disk", Then: &ringproof.Fault{Kind: ringproof.FaultVolumeLoss}}}))
}
