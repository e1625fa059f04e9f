// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	_ "github.com/ringproof/ringproof/internal/needs" // the seed, in CI
	"github.com/ringproof/ringproof/scenarios"
)

// composed is a plan of rapid's draws.
func composed(t *rapid.T) ringproof.Plan {
	return Drawn(func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(t, label) })
}

// A plan that can't be read back as it was can't be replayed: a field that YAML
// drops would make the saved counterexample pass.
func TestPlansAreReadBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := composed(t)
		var text bytes.Buffer
		require.NoError(t, scenarios.WritePlan(&text, p))
		back, found := scenarios.ReadPlan("plan.yaml", text.Bytes())
		require.False(t, found.Failed(), "%s\n%s", found, &text)
		assert.Equal(t, digest(p), digest(back))
	})
}

// An unfair plan would accuse a correct subject: the search would be noise.
func TestPlansAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { fair(t, composed(t)) })
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
	earlier, founding := map[string]bool{}, 0
	runs, peers := p.Ring.Version, p.Ring.Peers
	for i, s := range p.Steps {
		for _, name := range s.Join {
			require.True(t, earlier[name], "step %s joins %s, which isn't before it", s.Name, name)
		}
		if s.After != nil && s.After.Step != "" {
			require.True(t, earlier[s.After.Step], "step %s waits for %s, which isn't before it", s.Name, s.After.Step)
		}
		require.False(t, i == founding && s.After != nil && !s.Early(), "nothing happens before the first step that it could wait for")
		if s.Early() && i == founding {
			founding++
		}
		require.False(t, earlier[s.Name], "two steps are named %s", s.Name)
		if of, is := faults.OfStep(target(s)); is {
			require.True(t, earlier[of], "step %s aims at whom %s hit, which isn't before it", s.Name, of)
		}
		earlier[s.Name] = true
		switch {
		case s.Op != nil && strings.HasSuffix(s.Name, "-much"): // and is taken back
			require.Equal(t, asked, p.Steps[i+1].Op.To)
		case s.Op != nil && s.Op.Kind == ringproof.OpScale:
			asked, most = s.Op.To, max(most, s.Op.To)
			require.Equal(t, 1, asked%2, "a correct subject refuses even sizes")
		case s.Op != nil && s.Op.Kind == ringproof.OpReplace:
			gone++
		case s.Op != nil && s.Op.Kind == ringproof.OpUpgrade:
			require.True(t, ringproof.Upgradable(runs, s.Op.Version) && runs != s.Op.Version, "from %s to %s", runs, s.Op.Version)
			runs = s.Op.Version
			require.Equal(t, runs != p.Ring.Version, p.Steps[len(p.Steps)-1].Assert.Release != "")
		case s.Op != nil && s.Op.Kind == ringproof.OpPeers:
			require.Equal(t, "plain", peers)
			require.Equal(t, "tls", p.Ring.Security)
			peers = s.Op.Peers
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
			require.True(t, lasting || !ends, "%s lasts until the last fault ends, so nothing after it can be reached", s.Name)
		}
	}
	require.LessOrEqual(t, swaps, 1, "swaps that overlap aren't undone by undoing each")
	suspended := where(p, func(s ringproof.Step) bool { return s.Op != nil && s.Op.Kind == ringproof.OpSuspend })
	resumed := where(p, func(s ringproof.Step) bool { return s.Op != nil && s.Op.Kind == ringproof.OpResume })
	upgraded := where(p, func(s ringproof.Step) bool { return s.Op != nil && s.Op.Kind == ringproof.OpUpgrade })
	require.False(t, len(suspended) > 0 && len(upgraded) > 1, "the next minor would be asked for before the one before is there")
	require.False(t, len(suspended) > 0 && (len(resumed) == 0 || resumed[len(resumed)-1] < suspended[len(suspended)-1]), "nothing may be done at the end")
	last := p.Steps[len(p.Steps)-1].Assert
	require.NotNil(t, last)
	if p.Mode == ringproof.ModeDisaster {
		require.True(t, last.Halted)
		return
	}
	require.Equal(t, asked, last.Voters)
	require.NotEqual(t, "plain", peers, "peers that are never asked to speak TLS are judged by less")
	if last.Release != "" {
		require.Equal(t, runs, last.Release)
	}
	require.GreaterOrEqual(t, p.Ring.Machines, most+gone, "nobody could converge without the machines")
	for _, s := range p.Steps {
		if s.Detach {
			require.Contains(t, p.Steps[len(p.Steps)-1].Join, s.Name)
		}
	}
}

// TestWhoCanStartNoEtcdHasASubstitute: a disk is full for 32 s, in a ring of five that
// shrinks to three and is to grow again. Its machine loses its member, and would be
// taken for the fifth ten minutes later. Or it is full for 2 s, in which a month passes.
func TestWhoCanStartNoEtcdHasASubstitute(t *testing.T) {
	substituted, kept := 0, 0
	for seed := range uint64(10000) {
		p := Genome{Seed: seed}.Plan(seed)
		if p.Mode == ringproof.ModeDisaster {
			continue
		}
		unfit, most, lost := 0, p.Ring.Size, 0
		ages := len(where(p, func(s ringproof.Step) bool { return s.Fault != nil && s.Fault.Kind == ringproof.FaultTimePasses })) > 0
		for _, s := range p.Steps {
			switch {
			case s.Op != nil && s.Op.Kind == ringproof.OpScale && !strings.HasSuffix(s.Name, "-much"):
				most = max(most, s.Op.To)
			case s.Op != nil && s.Op.Kind == ringproof.OpReplace:
				lost++
			case s.Fault == nil:
			case s.Fault.Kind == ringproof.FaultMachineLoss || s.Fault.Kind == ringproof.FaultVolumeCopy:
				lost++
			case (s.Fault.Kind == ringproof.FaultDiskFull || s.Fault.Kind == ringproof.FaultStartFailure) && (ages || s.Fault.For >= 3*p.Ring.ReplaceAfter):
				unfit++
			}
		}
		scales := where(p, func(s ringproof.Step) bool { return s.Op != nil && s.Op.Kind == ringproof.OpScale })
		switch {
		case unfit == 0:
		case len(scales) > 0 || p.Ring.Machines > p.Ring.Size:
			substituted++
			require.GreaterOrEqual(t, p.Ring.Machines, most+lost+unfit, "seed %d", seed)
		default:
			kept++
		}
	}
	assert.Positive(t, substituted)
	assert.Positive(t, kept, "what keeps its member, as nobody could take its place, is to be met too")
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
	want := []string{"mode disaster", "mode ", "size 1", "size 3", "size 5", "no fault", "overlap", "again", "the same machine", ringproof.LeaveCopy}
	for _, e := range faults.All() {
		if slices.Contains(e.Worlds, "sim") {
			want = append(want, string(e.Kind))
		}
	}
	for _, o := range faults.Operations() {
		if !o.Undrawn {
			want = append(want, string(o.Kind))
		}
	}
	want = append(want, versions...)
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
			kinds[string(s.Fault.Kind)], kinds[s.Fault.Leave] = true, true
			_, same := faults.OfStep(s.Fault.Target)
			kinds["the same machine"] = kinds["the same machine"] || same
			kinds["again"] = kinds["again"] || strings.HasSuffix(s.Name, "-2") && strings.Count(s.Name, "-") == 2
			kinds["overlap"] = kinds["overlap"] || detached
		}
	}
	if len(faultSteps(p)) == 0 {
		kinds["no fault"] = true
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
		if p.Ring.Flags[quota] != q.Ring.Flags[quota] {
			return // a load that outgrows its room is a matter of the ring's, which takes longer
		}
		assert.Equal(t, digest(p), digest(q))
	})
}

// TestWhatMembersAreGiven: flags, a release of their own, and questions are drawn,
// and none that the ring can't have.
func TestWhatMembersAreGiven(t *testing.T) {
	drawn := map[string]int{}
	for seed := range uint64(600) {
		p := Genome{Seed: seed}.Plan(seed)
		drawn[p.Workload.Profile]++
		drawn["flags"] += min(1, len(p.Ring.Flags))
		for machine, own := range p.Ring.Members {
			number, err := strconv.Atoi(strings.TrimPrefix(machine, "m"))
			require.NoError(t, err)
			require.LessOrEqual(t, number, p.Ring.Machines, "seed %d", seed)
			drawn["own flags"] += min(1, len(own.Flags))
			if own.Version != "" {
				drawn["newer"]++
				require.Equal(t, newer[p.Ring.Version], own.Version)
				require.GreaterOrEqual(t, p.Ring.Size, 3, "seed %d", seed)
			}
		}
		for _, s := range p.Steps {
			if s.Op != nil && s.Op.Kind == ringproof.OpAsk {
				drawn["asks"]++
			}
		}
	}
	for _, what := range []string{"operator", "apiserver", "flags", "own flags", "newer", "asks"} {
		require.Greater(t, drawn[what], 5, what)
	}
}
