// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// failingPlan is a drawn plan with the toy's bug in it.
func failingPlan(t *rapid.T) (ringproof.Plan, string) {
	return failingFrom(rapid.Uint64Range(0, 1<<30).Draw(t, "from"))
}

func failingFrom(seed uint64) (ringproof.Plan, string) {
	for ; ; seed++ {
		p := Genome{Seed: seed}.Plan(seed)
		o, _ := toy(context.Background(), p, Options{})
		if key, err := o.KeyOf("quorum-margin"); err == nil {
			return p, key
		}
	}
}

func TestShrinkLeavesWhatTheBugNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, key := failingPlan(t)
		small, err := Shrinker{Runner: &abreast{simulate: toy, jobs: 1}}.Shrink(context.Background(), p, key)
		require.NoError(t, err)
		require.True(t, small.Minimal, "%d runs", small.Runs)
		assert.Equal(t, 2, small.Steps, "the lost volume and the partition")
		assert.Equal(t, 2, small.Faults)
		assert.Equal(t, 1, small.Plan.Ring.Size)
		assert.Equal(t, "none", small.Plan.Workload.Profile)
		for _, s := range small.Plan.Steps {
			assert.Empty(t, faults.Validate(*s.Fault))
			assert.Nil(t, s.After)
			assert.Empty(t, s.Join)
		}
		assert.Equal(t, "quorum-margin", small.Plan.Expect.Check)
		assert.Equal(t, HexHash(small.Outcome.Hash), small.Plan.Expect.Hash)
	})
}

// A choice by who answers first would make the smallest plan depend on the
// machine's load, and the key of a saved finding useless for comparison.
func TestShrinkDoesNotDependOnWorkers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, key := failingPlan(t)
		alone, err := Shrinker{Runner: &abreast{simulate: toy, jobs: 1}}.Shrink(context.Background(), p, key)
		require.NoError(t, err)
		many, err := Shrinker{Runner: &abreast{simulate: toy, jobs: 8}}.Shrink(context.Background(), p, key)
		require.NoError(t, err)
		assert.Equal(t, digest(alone.Plan), digest(many.Plan))
		assert.Equal(t, alone.Runs, many.Runs)
	})
}

func TestShrinkOfTheSmallestIsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, key := failingPlan(t)
		s := Shrinker{Runner: &abreast{simulate: toy, jobs: 1}}
		once, err := s.Shrink(context.Background(), p, key)
		require.NoError(t, err)
		twice, err := s.Shrink(context.Background(), once.Plan, key)
		require.NoError(t, err)
		assert.Equal(t, digest(once.Plan), digest(twice.Plan))
	})
}

func TestShrinkKeepsToItsBudget(t *testing.T) {
	p, key := failingFrom(1)
	runner := &abreast{simulate: toy, jobs: 1}
	small, err := Shrinker{Runner: runner, Runs: 3}.Shrink(context.Background(), p, key)
	require.NoError(t, err)
	assert.False(t, small.Minimal)
	assert.Equal(t, int64(small.Runs), runner.ran.Load())
	assert.Less(t, small.Runs, 3+batch)
	o, _ := toy(context.Background(), small.Plan, Options{})
	assert.True(t, o.fails(key), "what is left when the budget ends still fails")
}

func TestShrinkRefusesWhatPasses(t *testing.T) {
	p := Genome{Seed: 1}.Plan(1)
	p.Steps = nil
	_, err := Shrinker{Runner: &abreast{simulate: toy, jobs: 1}}.Shrink(context.Background(), p, "quorum-margin-00000000")
	assert.ErrorIs(t, err, ErrPasses)
}

// A candidate that grows the plan, or is the plan, would shrink for ever.
func TestEveryCandidateIsAnotherPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := composed(t)
		before := digest(p)
		for i, pass := range passes {
			for _, smaller := range pass(p) {
				assert.False(t, digest(smaller) == before, "pass %d offers the plan itself", i)
				assert.LessOrEqual(t, len(smaller.Steps), len(p.Steps))
			}
		}
		assert.Equal(t, before, digest(p), "a pass changed the plan that it was given")
	})
}

func TestDropMendsWhatIsLeft(t *testing.T) {
	none := 0
	p := ringproof.Plan{Ring: ringproof.RingSpec{Size: 3, Machines: 5}, Steps: []ringproof.Step{
		{Name: "grow", Op: &ringproof.Op{Kind: ringproof.OpScale, To: 5}, Detach: true},
		{Name: "cut", After: &ringproof.Trigger{Event: ringproof.EventStepBegun, Step: "grow"}, Fault: &ringproof.Fault{Kind: ringproof.FaultPartition, Target: "leader"}},
		{Name: "settle", Join: []string{"grow"}, Assert: &ringproof.Assert{Voters: 5, Learners: &none}},
	}}
	q := edit(p, func(p *ringproof.Plan) { drop(p, []int{0}) })
	require.Len(t, q.Steps, 2)
	assert.Nil(t, q.Steps[0].After, "the step that it waited for is gone")
	assert.Empty(t, q.Steps[1].Join)
	assert.Equal(t, 3, q.Steps[1].Assert.Voters, "nobody asks for five any more")
	assert.Equal(t, 5, p.Steps[2].Assert.Voters)
}

// A plan that names a machine which it doesn't have fails, if at all, for
// another reason.
func TestNamedMachinesAreKept(t *testing.T) {
	p := ringproof.Plan{Ring: ringproof.RingSpec{Size: 3, Machines: 9}, Steps: []ringproof.Step{
		{Name: "move", Op: &ringproof.Op{Kind: ringproof.OpReplace, Target: "m2"}},
		{Name: "swap", Fault: &ringproof.Fault{Kind: ringproof.FaultDiskSwap, Target: "m1,m6"}},
		{Name: "grow", Op: &ringproof.Op{Kind: ringproof.OpScale, To: 5}},
	}}
	assert.Equal(t, 6, needed(p))
	p.Steps[1].Fault.Target = "leader"
	assert.Equal(t, 6, needed(p), "five voters, and somewhere to move one to")
	p.Steps[0].Op.Kind = ringproof.OpRestart
	assert.Equal(t, 5, needed(p))
}

// A step that aims at whom another hit would hit nobody once that one is left out.
func TestWhoAimsAtWhomAnotherHitAimsElsewhere(t *testing.T) {
	cut := ringproof.Step{Name: "cut", Fault: &ringproof.Fault{Kind: ringproof.FaultPartition, Target: "m2", Shape: "isolate"}}
	hand := ringproof.Step{Name: "hand", Fault: &ringproof.Fault{Kind: ringproof.FaultForeignHand, Does: ringproof.MemberRemove, Target: "step/cut"}}
	lost := ringproof.Step{Name: "lost", Fault: &ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "step/hand"}}
	p := ringproof.Plan{Ring: ringproof.RingSpec{Size: 3}, Steps: []ringproof.Step{cut, hand, lost}}
	without := func(names ...string) (targets []string) {
		for _, s := range Without(p, func(s ringproof.Step) bool { return slices.Contains(names, s.Name) }).Steps {
			targets = append(targets, s.Fault.Target)
		}
		return targets
	}
	assert.Equal(t, []string{"m2", "step/hand"}, without("cut"))
	assert.Equal(t, []string{"m2"}, without("cut", "hand"))
	assert.Equal(t, []string{"m2", "step/cut"}, without("hand"))
	assert.Equal(t, "step/cut", hand.Fault.Target, "the plan itself stays as it was")
}
