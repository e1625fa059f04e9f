// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/harness/explore"
	"github.com/ringproof/ringproof/reports"
)

// starts are the first seeds of the searches for one mutant: so far apart that
// no two try the same plan. Their number is odd, so that one is in the middle.
var starts = []uint64{1, 10001, 20001, 30001, 40001}

const (
	mostRuns = 400 // drawn plans of one search
	ahead    = 4   // plans of one search that run at once; those after a hit are forgotten
)

// measure says what each mutant costs to find.
func (f mutateFlags) measure(c *cobra.Command, names []string) error {
	mutants, err := named(names, slices.Clone(f.own().Mutants), func(m harness.Mutant) string { return m.Name })
	if err != nil {
		return err
	}
	pool, err := newPool(f.jobs)
	if err != nil {
		return err
	}
	defer pool.Close()
	line := newLiveLine(c.ErrOrStderr())
	defer line.end()
	told := func(what string, done, all int) { line.tell("%s: %d of %d searches ended", what, done, all) }
	trials, err := f.searchScenarios(c, pool, names, told)
	if err != nil {
		return err
	}
	hunts, err := searchDrawn(c.Context(), pool, f.own().Name, mutants, told)
	if err != nil {
		return err
	}
	line.end()
	s := harness.Costs{Command: "ringproof mutate --search", Starts: starts, Seeds: int(f.seeds), Runs: mostRuns, Mutants: []harness.Cost{}}
	for _, m := range mutants {
		found := summed(m.Name, trials, hunts)
		found.Unsearched = m.Undrawn != ""
		s.Mutants = append(s.Mutants, found)
	}
	before, err := f.own().costs()
	return cmp.Or(err, measured(c, s, before, f.asJSON))
}

// searchScenarios runs each mutant's own scenario from every start.
func (f mutateFlags) searchScenarios(c *cobra.Command, pool *explore.Pool, names []string, told func(string, int, int)) ([]harness.Trial, error) {
	var trials []harness.Trial
	for _, f.seed = range starts {
		some, err := f.mutants(c, names)
		if err != nil {
			return nil, err
		}
		trials = append(trials, some...)
	}
	_, err := harness.Mutate(c.Context(), trials, func(due []harness.Job) ([]reports.Cell, error) {
		told("scenarios", len(trials)-len(due), len(trials))
		return pooled(c.Context(), pool, due)
	})
	return trials, cmp.Or(err, c.Context().Err())
}

// hunt is one search for a mutant among drawn plans.
type hunt struct {
	subject string // without the mutant
	mutant  string
	seed    uint64 // of the next plan
	ran     int
	seconds float64
	checks  []string // those that failed the last plan; none: it passed
}

func (h *hunt) over() bool { return len(h.checks) > 0 || h.ran == mostRuns }

// due are the next plans, as explore draws them.
func (h *hunt) due() []explore.Job {
	var jobs []explore.Job
	for i := range min(ahead, mostRuns-h.ran) {
		seed := h.seed + uint64(i)
		plan := explore.Genome{Seed: seed}.Plan(seed)
		plan.Subject = h.subject + "+" + h.mutant
		jobs = append(jobs, explore.Job{Plan: plan})
	}
	return jobs
}

// searchDrawn searches for every mutant from every start, all at once.
func searchDrawn(ctx context.Context, pool explore.Runner, subject string, mutants []harness.Mutant, told func(string, int, int)) ([]*hunt, error) {
	var hunts []*hunt
	for _, start := range starts {
		for _, m := range mutants {
			if m.Undrawn != "" {
				continue
			}
			hunts = append(hunts, &hunt{subject: subject, mutant: m.Name, seed: start})
		}
	}
	open := slices.Clone(hunts)
	for {
		open = slices.DeleteFunc(open, func(h *hunt) bool { return h.over() })
		told("drawn plans", len(hunts)-len(open), len(hunts))
		if len(open) == 0 {
			return hunts, nil
		}
		var jobs []explore.Job
		for _, h := range open {
			jobs = append(jobs, h.due()...)
		}
		results, err := allOf(ctx, pool, jobs)
		if err != nil {
			return nil, err
		}
		for _, h := range open {
			n := len(h.due())
			if err := h.count(ctx, pool, jobs[:n], results[:n]); err != nil {
				return nil, err
			}
			jobs, results = jobs[n:], results[n:]
		}
	}
}

// count adds runs up to the first that fails. What fails the subject without it
// is no sign of the mutant.
func (h *hunt) count(ctx context.Context, pool explore.Runner, jobs []explore.Job, results []explore.Result) error {
	for i, r := range results {
		h.ran++
		h.seconds += r.Outcome.WallSeconds
		checks := failing(r.Outcome)
		if len(checks) > 0 {
			plain := jobs[i]
			plain.Plan.Subject = h.subject
			baseline, err := allOf(ctx, pool, []explore.Job{plain})
			if err != nil {
				return err
			}
			if len(failing(baseline[0].Outcome)) == 0 {
				h.checks = checks
				return nil
			}
		}
		h.seed++
	}
	return nil
}

// failing are the checks that failed the run.
func failing(o explore.Outcome) []string {
	var checks []string
	for _, f := range o.Findings {
		if f.Verdict == ringproof.Fail && !slices.Contains(checks, f.Check) {
			checks = append(checks, f.Check)
		}
	}
	return checks
}

// summed takes the medians of one mutant's searches.
func summed(name string, trials []harness.Trial, hunts []*hunt) harness.Cost {
	found := harness.Cost{Name: name, FailedBy: []string{}}
	var seeds, runs []int
	var seconds []float64
	for i := range trials {
		if t := &trials[i]; t.Name == name && t.Decided() {
			seeds = append(seeds, t.Seeds)
		}
	}
	count := map[string]int{}
	for _, h := range hunts {
		if h.mutant != name || len(h.checks) == 0 {
			continue
		}
		runs, seconds, found.Seed = append(runs, h.ran), append(seconds, h.seconds), cmp.Or(found.Seed, h.seed)
		for _, check := range h.checks {
			if count[check]++; count[check] == 1 {
				found.FailedBy = append(found.FailedBy, check)
			}
		}
	}
	slices.SortStableFunc(found.FailedBy, func(a, b string) int { return count[b] - count[a] })
	found.Seeds, found.Runs = median(seeds), median(runs)
	found.Seconds = float64(int(median(seconds)*100+0.5)) / 100
	return found
}

// median is the middle one of the values from all starts, where those that are
// missing are larger than all others; 0 when it is one of the missing.
func median[T cmp.Ordered](values []T) (middle T) {
	slices.Sort(values)
	if i := len(starts) / 2; i < len(values) {
		middle = values[i]
	}
	return middle
}

// foundRow is what one mutant cost to find, and cost before.
type foundRow struct {
	harness.Cost
	search, before harness.Costs
}

func (r foundRow) columns() []string {
	was := "-"
	if f, known := r.before.Of(r.Name); known {
		was = figures(r.before, f)[1]
	}
	return append([]string{r.Name}, append(figures(r.search, r.Cost), was, strings.Join(r.FailedBy, " "))...)
}

// slower reports whether a mutant takes more drawn plans than before, by more than the next search
// from five starts may: it was found and isn't any more, or takes three times as many and ten.
func slower(now, before harness.Cost) bool {
	found := before.Runs > 0 && !before.Unsearched && !now.Unsearched
	return found && (now.Runs == 0 || now.Runs > 3*before.Runs+10)
}

// figures are the columns SEEDS, RUNS and SECONDS of a mutant.
func figures(s harness.Costs, f harness.Cost) []string {
	seeds, runs, seconds := fmt.Sprint(f.Seeds), fmt.Sprint(f.Runs), fmt.Sprintf("%.1f", f.Seconds)
	if f.Seeds == 0 {
		seeds = fmt.Sprintf("never in %d", s.Seeds)
	}
	switch {
	case f.Unsearched:
		runs, seconds = "not searched", "-"
	case f.Runs == 0:
		runs, seconds = fmt.Sprintf("never in %d", s.Runs), "-"
	}
	return []string{seeds, runs, seconds}
}

// measured prints the search beside the one before, and ends with its verdict.
func measured(c *cobra.Command, s, before harness.Costs, asJSON bool) error {
	var err error
	if asJSON {
		err = printJSON(c.OutOrStdout(), s)
	} else {
		rows := rowsOf(s.Mutants, func(f harness.Cost) foundRow { return foundRow{f, s, before} })
		err = listed{[]string{"MUTANT", "SEEDS", "RUNS", "SECONDS", "RUNS BEFORE", "FAILED BY"}, rows}.print(c, false)
	}
	for _, f := range s.Mutants {
		if was, known := before.Of(f.Name); known && slower(f, was) {
			fmt.Fprintf(c.ErrOrStderr(), "%s takes more drawn plans than before: %s, and took %d\n", f.Name, figures(s, f)[1], was.Runs)
		}
	}
	if err == nil && slices.ContainsFunc(s.Mutants, func(f harness.Cost) bool { return f.Seeds == 0 }) {
		return errVerdict{ringproof.Fail}
	}
	return err
}
