// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/reports"
)

// TestMutate plays rounds of cells that came to what is written, and wants each
// trial judged by its own check.
func TestMutate(t *testing.T) {
	fail := func(check string) ringproof.Finding { return ringproof.Finding{Check: check, Verdict: ringproof.Fail} }
	failed := func(checks ...string) reports.Cell {
		c := reports.Cell{Verdict: ringproof.Fail}
		for _, name := range checks {
			c.Findings = append(c.Findings, fail(name))
		}
		return c
	}
	passed, unsure := reports.Cell{Verdict: ringproof.Pass}, reports.Cell{}
	reach := func(c reports.Cell) reports.Cell { c.Reached = []string{"m"}; return c }
	milder := func(c reports.Cell) reports.Cell { c.Missed = []string{"lose"}; return c }
	for name, c := range map[string]struct {
		kind  string
		jobs  int
		cells []reports.Cell // that come to be run
		want  string
	}{
		"killed at once, and the second cell not run": {OfMutant, 2, []reports.Cell{failed("converges", "mine")}, Killed},
		"reproduced in the second cell":               {OfAffected, 2, []reports.Cell{passed, failed("mine")}, Reproduced},
		"failed by another check only":                {OfMutant, 1, []reports.Cell{failed("converges")}, AnotherCheck},
		"killed by the second seed":                   {OfMutant, 4, []reports.Cell{passed, passed, failed("mine")}, Killed},
		"passed everywhere":                           {OfMutant, 2, []reports.Cell{passed, reach(passed)}, Survived},
		"passed everywhere, and did nothing wrong":    {OfMutant, 2, []reports.Cell{passed, passed}, NotCovered},
		"not judged once":                             {OfMutant, 2, []reports.Cell{unsure, passed}, Unjudged},
		"not run at all":                              {OfMutant, 0, nil, Unjudged},
		"a fixed release passes everywhere":           {OfFixed, 2, []reports.Cell{passed, passed}, Passed},
		"a fixed release fails, by whatever check":    {OfFixed, 2, []reports.Cell{failed("converges")}, FalsePositive},
		"failed without the faults that show the bug": {OfAffected, 1, []reports.Cell{milder(failed("mine"))}, Unjudged},
		"passed without the faults that show the bug": {OfFixed, 1, []reports.Cell{milder(passed)}, Unjudged},
		"a mutant is killed by whatever fault":        {OfMutant, 1, []reports.Cell{milder(failed("mine"))}, Killed},
		"a fixed release is not judged once":          {OfFixed, 2, []reports.Cell{passed, unsure}, Unjudged},
	} {
		t.Run(name, func(t *testing.T) {
			jobs := make([]Job, c.jobs)
			for i := range jobs {
				jobs[i].Plan.Cell, jobs[i].Plan.Seed = string(rune('a'+i)), uint64(i/2) // two cells a seed
			}
			trials := []Trial{NewTrial("m", c.kind, "mine", jobs), NewTrial("other", OfMutant, "converges", nil)}
			for _, cell := range c.cells {
				open, due := next(trials)
				require.Len(t, due, 1)
				cell.Name = due[0].Plan.Cell
				open[0].credit(cell)
			}
			_, due := next(trials)
			assert.Empty(t, due)
			trials[0].judge()
			assert.Equal(t, c.want, trials[0].Verdict)
			assert.Len(t, trials[0].Cells, len(c.cells))
			assert.Equal(t, (len(c.cells)+1)/2, trials[0].Seeds)
			assert.Empty(t, trials[1].FailedBy)
		})
	}
}

// TestWeigh: a check carries what passes without it, and nothing that another one
// fails or doubts too.
func TestWeigh(t *testing.T) {
	finding := func(check string, v ringproof.Verdict) ringproof.Finding {
		return ringproof.Finding{Check: check, Verdict: v}
	}
	cell := func(failed ...string) (all []ringproof.Finding) {
		all = []ringproof.Finding{finding("converges", ringproof.Pass), finding("watch", ringproof.Pass)}
		for _, check := range failed {
			all = append(all, finding(check, ringproof.Fail))
		}
		return all
	}
	doubted := append(cell("converges"), finding("watch", ringproof.Inconclusive))
	of := func(kind, name string, cells ...[]ringproof.Finding) Trial {
		return Trial{Name: name, Kind: kind, findings: cells}
	}
	weights := Weigh([]Trial{
		of(OfMutant, "only", cell(), cell("converges")),
		of(OfMutant, "both", cell("converges", "watch")),
		of(OfMutant, "either", cell("converges"), cell("watch")),
		of(OfMutant, "doubted", doubted),
		of(OfMutant, "none", cell()),
		of(OfMutant, "not run"),
		of(OfMutant, "nothing judged", nil),
		of(OfAffected, "a known bug", cell("converges")),
		of(OfMutant, "doubts", []ringproof.Finding{finding("converges", ringproof.Pass), finding("assumptions", ringproof.Inconclusive)}),
	})
	carried := map[string][]string{}
	for _, w := range weights {
		carried[w.Check] = w.Only
	}
	assert.Len(t, weights, len(checks.All())+len(checks.Always()))
	assert.Equal(t, []string{"only"}, carried["converges"])
	assert.Equal(t, []string{"doubts"}, carried["assumptions"])
	assert.Empty(t, carried["watch"])
	assert.Empty(t, carried["steps"])
}

// TestWeighAsksWhatIsJudged: a check that no trial's plan has anything for is not idle there.
func TestWeighAsksWhatIsJudged(t *testing.T) {
	asked := func(jobs ...Job) bool {
		weights := Weigh([]Trial{{Kind: OfMutant, Jobs: jobs}})
		i := slices.IndexFunc(weights, func(w Weight) bool { return w.Check == "status-honest" })
		return weights[i].Asked
	}
	machines := Job{Plan: ringproof.Plan{Mode: ringproof.ModeSafe}}
	pods := Job{Plan: ringproof.Plan{Mode: ringproof.ModeSafe, Ring: ringproof.RingSpec{On: ringproof.OnKubernetes}}}
	assert.False(t, asked(machines))
	assert.True(t, asked(machines, pods))
	pods.NotApplicable = "the world has no pods"
	assert.False(t, asked(pods))
}

// TestDoubtIsNoticed: a check that never fails notices a mutant by its doubt, and
// only the mutant that is its own.
func TestDoubtIsNoticed(t *testing.T) {
	doubt := reports.Cell{Findings: []ringproof.Finding{{Check: "assumptions"}, {Check: "watch"}}}
	for check, want := range map[string]string{"assumptions": Killed, "watch": Unjudged} {
		own := NewTrial("m", OfMutant, check, make([]Job, 1))
		own.credit(doubt)
		own.judge()
		assert.Equal(t, want, own.Verdict, check)
	}
}
