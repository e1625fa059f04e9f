// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/scenarios"
)

// A plan that can't be read back as it was can't be replayed: a field that YAML
// drops would make the saved counterexample pass.
func TestPlansAreReadBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Plans().Draw(t, "plan")
		var text bytes.Buffer
		require.NoError(t, scenarios.WritePlan(&text, p))
		back, found := scenarios.ReadPlan("plan.yaml", text.Bytes())
		require.False(t, found.Failed(), "%s\n%s", found, &text)
		assert.Equal(t, digest(p), digest(back))
	})
}

// An unfair plan would accuse a correct subject: the search would be noise.
func TestPlansAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { fair(t, Plans().Draw(t, "plan")) })
}

func TestMutatedPlansAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seeds := rapid.SliceOfN(rapid.Uint64(), 3, 6).Draw(t, "seeds")
		g := Genome{Seed: seeds[0]}
		for _, seed := range seeds[2:] {
			g = g.Mutant(seed, Genome{Seed: seeds[1]})
		}
		fair(t, g.Plan(seeds[0]))
	})
}

func fair(t *rapid.T, p ringproof.Plan) {
	asked, most, gone, swaps := p.Ring.Size, p.Ring.Size, 0, 0
	earlier := map[string]bool{}
	for i, s := range p.Steps {
		for _, name := range s.Join {
			require.True(t, earlier[name], "step %s joins %s, which isn't before it", s.Name, name)
		}
		if s.After != nil && s.After.Step != "" {
			require.True(t, earlier[s.After.Step], "step %s waits for %s, which isn't before it", s.Name, s.After.Step)
		}
		require.False(t, i == 0 && s.After != nil, "nothing happens before the first step that it could wait for")
		require.False(t, earlier[s.Name], "two steps are named %s", s.Name)
		earlier[s.Name] = true
		switch {
		case s.Op != nil && s.Op.Kind == ringproof.OpScale:
			asked, most = s.Op.To, max(most, s.Op.To)
			require.Equal(t, 1, asked%2, "a correct subject refuses even sizes")
		case s.Op != nil && s.Op.Kind == ringproof.OpReplace:
			gone++
		case s.Fault != nil:
			require.Empty(t, faults.Validate(*s.Fault), "step %d", i)
			switch s.Fault.Kind {
			case ringproof.FaultMachineLoss:
				gone++
			case ringproof.FaultDiskSwap:
				swaps++
			}
			lasting := s.Fault.For > 0 || s.Fault.Permanent()
			_, ends := entry(s.Fault.Kind).Param("for")
			require.True(t, lasting || !ends, "%s lasts until the end of harm, so nothing after it can be reached", s.Name)
		}
	}
	require.LessOrEqual(t, swaps, 1, "swaps that overlap aren't undone by undoing each")
	last := p.Steps[len(p.Steps)-1].Assert
	require.NotNil(t, last)
	if p.Mode == ringproof.ModeDisaster {
		require.True(t, last.Halted)
		return
	}
	require.Equal(t, asked, last.Voters)
	require.GreaterOrEqual(t, p.Ring.Machines, most+gone, "nobody could converge without the machines")
	for _, s := range p.Steps {
		if s.Detach {
			require.Contains(t, p.Steps[len(p.Steps)-1].Join, s.Name)
		}
	}
}

func entry(kind ringproof.FaultKind) faults.Entry {
	e, _ := faults.Lookup(kind)
	return e
}

// What depends on the process, such as the order of a map, would make a seed
// mean another plan tomorrow.
func TestTheSamePlansInAnotherProcess(t *testing.T) {
	out, err := again(t, bePrint).Output()
	require.NoError(t, err)
	assert.Equal(t, drawn(), string(out))
	assert.Equal(t, drawn(), drawn())
}

// Swarm: each thing must be done by some plans and missing from others.
func TestPlansDoEverythingAndNotAlways(t *testing.T) {
	const plans = 3000
	did := map[string]int{}
	for seed := range uint64(plans) {
		p := Genome{Seed: seed}.Plan(seed)
		for what := range kindsOf(p) {
			did[what]++
		}
	}
	want := []string{"mode disaster", "mode ", "size 1", "size 3", "size 5", "no harm", "overlap"}
	for _, e := range faults.All() {
		if slices.Contains(e.Worlds, "sim") {
			want = append(want, string(e.Kind))
		}
	}
	for _, kind := range scenarios.Ops() {
		want = append(want, kind)
	}
	for _, version := range versions {
		want = append(want, version)
	}
	for _, what := range want {
		assert.Greater(t, did[what], plans/100, "hardly a plan has %s", what)
		assert.Less(t, did[what], plans*99/100, "nearly every plan has %s", what)
	}
}

func kindsOf(p ringproof.Plan) map[string]bool {
	kinds := map[string]bool{"mode " + string(p.Mode): true, "size " + string(rune('0'+p.Ring.Size)): true, p.Ring.Version: true}
	detached := false
	for _, s := range p.Steps {
		if s.Op != nil {
			kinds[string(s.Op.Kind)] = true
			detached = detached || s.Detach
		}
		if s.Fault != nil {
			kinds[string(s.Fault.Kind)] = true
			kinds["overlap"] = kinds["overlap"] || detached
		}
	}
	if len(harms(p)) == 0 {
		kinds["no harm"] = true
	}
	return kinds
}

// A graft that changed more than its part would make a mutation a new plan,
// and the corpus worth nothing.
func TestAGraftChangesOnePart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Genome{Seed: rapid.Uint64().Draw(t, "seed")}
		grafted := Genome{Seed: g.Seed, Graft: map[string]uint64{"load": rapid.Uint64().Draw(t, "graft")}}
		p, q := g.Plan(1), grafted.Plan(1)
		q.Workload, q.Assumptions, q.Invariants = p.Workload, p.Assumptions, p.Invariants
		assert.Equal(t, digest(p), digest(q))
	})
}
