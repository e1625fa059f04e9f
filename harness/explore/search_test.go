// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/scenarios"
)

// timeless is a tally without what the wall clock says.
func timeless(t *testing.T, tally *Tally) string {
	t.Helper()
	tally.WallSeconds = 0
	for _, f := range tally.Findings {
		f.Seconds = 0
	}
	text, err := json.MarshalIndent(tally, "", " ")
	require.NoError(t, err)
	return string(text)
}

func TestSearchDoesNotDependOnWorkers(t *testing.T) {
	for _, novelty := range []bool{false, true} {
		var tallies []string
		for _, jobs := range []int{1, 7} {
			s := Search{Runner: &abreast{simulate: toy, jobs: jobs}, Subject: "reference", Seed: 5, Runs: 300, Novelty: novelty}
			tally, err := s.Run(context.Background())
			require.NoError(t, err)
			assert.Equal(t, 300, tally.Runs)
			tallies = append(tallies, timeless(t, tally))
		}
		assert.Equal(t, tallies[0], tallies[1], "novelty %v", novelty)
	}
}

func TestSearchCounts(t *testing.T) {
	tally, err := Search{Runner: &abreast{simulate: toy, jobs: 2}, Subject: "reference+toy", Seed: 1, Runs: 1500}.Run(context.Background())
	require.NoError(t, err)
	require.Len(t, tally.Findings, 1, "every seed shows the same bug, whatever member it hits")
	f := tally.Findings[0]
	assert.Greater(t, f.Count, 1)
	assert.Equal(t, int(f.Seed), f.AtRun, "seeds are counted from 1")
	assert.Equal(t, "reference+toy", f.Plan.Subject)
	assert.NotEmpty(t, tally.Inconclusive)
	assert.Equal(t, "linearizable: out of time", tally.Inconclusive[0].Why)
	assert.Equal(t, ringproof.Fail, tally.Verdict())
	assert.False(t, tally.Broken())
	assert.InDelta(t, 15000, tally.SimSeconds, 0.1)
	assert.Less(t, tally.NewLately, tally.Tuples, "what the first 500 runs showed is not new lately")
}

// The corpus must pay: what is rare because it takes several things in a row
// is found by varying what has some of them.
func TestNoveltyGoesDeeper(t *testing.T) {
	depth := func(novelty bool) (sum int) {
		for _, seed := range []uint64{1, 10001, 20001, 30001, 40001} { // one search may be lucky
			tally, err := Search{Runner: &abreast{simulate: deep, jobs: 1}, Subject: "reference", Seed: seed, Runs: 4000, Novelty: novelty}.Run(context.Background())
			require.NoError(t, err)
			sum += tally.Tuples
		}
		return sum
	}
	assert.Greater(t, depth(true), depth(false))
}

// deep shows how many faults, from the first on, are in the order of the
// alphabet and all different.
func deep(_ context.Context, p ringproof.Plan, _ Options) (Outcome, error) {
	o := Outcome{Verdict: ringproof.Pass}
	last := ""
	for depth, i := range faultSteps(p) {
		if kind := string(p.Steps[i].Fault.Kind); kind > last {
			o.Tuples = append(o.Tuples, fmt.Sprint(depth))
			last = kind
			continue
		}
		break
	}
	return o, nil
}

func TestSearchTellsTheFirstEventThatDiffers(t *testing.T) {
	from := 0
	other := func(ctx context.Context, p ringproof.Plan, o Options) (Outcome, error) {
		from = max(from, o.TraceFrom)
		outcome, err := toy(ctx, p, o)
		if p.Seed == 3 {
			outcome.Hash++
			outcome.Marks = []uint64{1, 7}
			if o.TraceTo > 0 {
				outcome.TraceLines[1] = "B"
			}
		}
		return outcome, err
	}
	s := Search{Runner: &abreast{simulate: toy, jobs: 2}, Mirror: &abreast{simulate: other, jobs: 1}, Verify: true, Subject: "reference", Seed: 1, Runs: 10}
	tally, err := s.Run(context.Background())
	require.NoError(t, err)
	require.Len(t, tally.Divergences, 1)
	d := tally.Divergences[0]
	assert.Equal(t, "explore#3", d.Cell)
	assert.Equal(t, [2]string{"b", "B"}, d.Lines)
	assert.Equal(t, MarkEvery+1, from, "the window begins where the marks part")
	assert.NotEqual(t, d.Hashes[0], d.Hashes[1])
	assert.True(t, tally.Broken())
	assert.Equal(t, ringproof.Fail, tally.Verdict())
}

func TestFirstDifference(t *testing.T) {
	assert.Equal(t, 2, firstDifference([]int{1, 2, 3}, []int{1, 2, 4}))
	assert.Equal(t, 2, firstDifference([]int{1, 2, 3}, []int{1, 2}))
	assert.Equal(t, 2, firstDifference([]int{1, 2}, []int{1, 2}))
	assert.Equal(t, "(the trace ends)", lineAt([]string{"a"}, 1))
	assert.Equal(t, "7 request: put", lineAt([]string{"6 task", "7 request", "   to m1", "   put"}, 3))
}

func TestSearchStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ends := func(c context.Context, p ringproof.Plan, o Options) (Outcome, error) {
		if p.Seed > 1000 { // some rounds later
			cancel()
		}
		return toy(c, p, o)
	}
	tally, err := Search{Runner: &abreast{simulate: ends, jobs: 2}, Seed: 1}.Run(ctx)
	require.NoError(t, err, "the end of the time is no error")
	assert.Positive(t, tally.Runs)

	tally, err = Search{Runner: &abreast{simulate: toy, jobs: 2}, Seed: 1, Until: func(t *Tally) bool { return len(t.Findings) > 0 }}.Run(context.Background())
	require.NoError(t, err)
	assert.Len(t, tally.Findings, 1)

	broken := func(context.Context, ringproof.Plan, Options) (Outcome, error) {
		return Outcome{}, errors.New("no such world")
	}
	_, err = Search{Runner: &abreast{simulate: broken, jobs: 1}, Seed: 4, Runs: 1}.Run(context.Background())
	assert.EqualError(t, err, "running explore#4: no such world")

	nothing, err := Search{Runner: &abreast{simulate: toy, jobs: 1}, Runs: 1}.Run(cancelled())
	require.NoError(t, err)
	assert.Equal(t, ringproof.Inconclusive, nothing.Verdict(), "what never ran has not passed")
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestWhatIsFoundIsKept(t *testing.T) {
	runner := &abreast{simulate: toy, jobs: 2}
	tally, err := Search{Runner: runner, Subject: "reference", Seed: 1, Runs: 300}.Run(context.Background())
	require.NoError(t, err)
	told := 0
	require.NoError(t, Shrinker{Runner: runner}.ShrinkAll(context.Background(), tally.Findings, func(*Found) { told++ }))
	assert.Equal(t, 1, told)
	f := tally.Findings[0]
	dir := t.TempDir()
	require.NoError(t, f.Save(context.Background(), runner, dir))

	text, err := os.ReadFile(filepath.Join(dir, "findings", f.Key, PlanFile))
	require.NoError(t, err)
	p, found := scenarios.ReadPlan(PlanFile, text)
	require.False(t, found.Failed(), "%s", found)
	assert.Len(t, p.Steps, 2)
	again, err := toy(context.Background(), withoutExpect(p), Options{})
	require.NoError(t, err)
	assert.Equal(t, p.Expect.Hash, HexHash(again.Hash), "the saved plan is the one that was run")
	assert.Contains(t, string(text), "# replay: "+f.Replay+"\n")
	readme, err := os.ReadFile(filepath.Join(f.Dir, ReadmeFile))
	require.NoError(t, err)
	assert.Contains(t, string(readme), f.Replay)
	assert.FileExists(t, filepath.Join(f.Dir, OutcomeFile))
	assert.FileExists(t, filepath.Join(f.Dir, FirstFile))
}

func withoutExpect(p ringproof.Plan) ringproof.Plan {
	p.Expect = nil
	return p
}

// TestFit: a plan that the subject can't be tried on is drawn and left out, and the
// seeds of the others are theirs all the same.
func TestFit(t *testing.T) {
	var seeds []uint64
	runner := runnerFunc(func(jobs []Job) (all []Result) {
		for _, j := range jobs {
			seeds = append(seeds, j.Plan.Seed)
			assert.Equal(t, "odd", j.Plan.Subject)
			assert.Empty(t, where(j.Plan, func(s ringproof.Step) bool { return s.Op != nil }))
			all = append(all, Result{Outcome: Outcome{Verdict: ringproof.Pass}})
		}
		return all
	})
	tally, err := Search{Runner: runner, Subject: "odd", Seed: 1, Runs: round + 6, Fit: func(p ringproof.Plan) (ringproof.Plan, bool) {
		return Without(p, func(s ringproof.Step) bool { return s.Op != nil }), p.Seed%2 == 1
	}}.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{35, 35}, []int{tally.Runs, tally.LeftOut})
	for i, seed := range seeds {
		assert.EqualValues(t, 2*i+1, seed)
	}
}

type runnerFunc func([]Job) []Result

func (f runnerFunc) Run(_ context.Context, jobs []Job) []Result { return f(jobs) }
