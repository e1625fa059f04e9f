// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/explore"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/internal/suite"
	"github.com/ringproof/ringproof/reports"
	"github.com/ringproof/ringproof/scenarios"
)

// gaugeFile holds the gauge beside the report.
const gaugeFile = "gauge.json"

// gaugeFlags are the flags of gauge. Seeds is how many each mutant is given.
type gaugeFlags struct {
	runFlags
	canaries bool
	search   bool
	asJSON   bool
}

// gaugeHelp is what gauge says of itself.
const gaugeHelp = `gauge runs what ringproof must notice, and says whether it did.

A mutant is the reference with one hazard put in. It runs on the cells of the
scenario that shows its harm, seed after seed, until the check that names the
harm has failed it. SEEDS says how many seeds that took, SECONDS how long all
its runs took.

A canary is a release of etcd with a known bug, and the release that mended it:
the first must be failed by its check, the second must pass. No simulated etcd
has the bug, so canaries run in the local world, whatever the default is.

  caught        the intended check failed it
  mistaken      it failed, but only by other checks
  escaped       every cell passed
  spared        a mended release passed
  accused       a mended release failed
  inconclusive  not every cell could be judged

The table is kept as gauge.json in --out. The report beside it shows the cells,
of simulated ones the last of each mutant; there, failing is what mutants and
canaries should do. Exit code 0: each was caught or spared; 1: one was mistaken,
accused or escaped; 3: inconclusive.

With --search it says what each mutant costs to find, as medians over searches
from five starts: SEEDS of its own scenario until the intended check fails it,
and RUNS of plans as explore draws them until any check fails it, with the
SECONDS of one worker that they took. A plan that fails the reference too isn't
counted. Nothing is kept, and exit code 1 says that a scenario missed its mutant.`

func gaugeCommand() *cobra.Command {
	var f gaugeFlags
	c := &cobra.Command{
		Use:   "gauge [MUTANT|CANARY...]",
		Short: "test ringproof itself: would it notice? Runs the mutants, or the canaries",
		Long:  gaugeHelp,
		Example: `  ringproof gauge
  ringproof gauge voter-first --world local
  ringproof gauge --search voter-first
  ringproof gauge --canaries`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.choose(c); err != nil {
				return err
			}
			if f.search {
				return f.measure(c, args)
			}
			trials, err := f.trials(c, args)
			if err != nil {
				return err
			}
			return gauge(c, f, trials)
		},
	}
	f.add(c)
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the first run of each cell")
	c.Flags().Uint64Var(&f.seeds, "seeds", 0, "the most seeds of each cell (default 25 in sim, 1 in local)")
	c.Flags().BoolVar(&f.canaries, "canaries", false, "the canaries instead of the mutants; in the local world")
	c.Flags().BoolVar(&f.search, "search", false, "say what each mutant costs to find; in the simulated world")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the table as JSON")
	return c
}

// choose fills in what the command line leaves open: canaries are real, and a
// search is simulated.
func (f *gaugeFlags) choose(c *cobra.Command) error {
	if f.canaries && !c.Flags().Changed("world") {
		f.world = "local"
	}
	switch err := known(f.world); {
	case err != nil:
		return err
	case f.canaries && f.search:
		return usage("--canaries and --search: canaries are real releases of etcd, and a search is simulated; take one of them")
	case f.canaries && f.world != "local":
		return usage("--canaries --world %s: canaries are real releases of etcd; leave --world out", f.world)
	case f.search && f.world != "sim":
		return usage("--search --world %s: a search is simulated; leave --world out", f.world)
	case f.search && c.Flags().Changed("seed"):
		return usage("--search --seed %d: a search has starts of its own, so that its figures can be compared; leave --seed out", f.seed)
	}
	if f.world == "sim" && !c.Flags().Changed("jobs") {
		f.jobs = runtime.NumCPU() // nothing waits in a simulated world
	}
	if f.seeds == 0 {
		f.seeds = map[string]uint64{"sim": 25, "local": 1}[f.world]
	}
	return nil
}

// trial is one mutant, or one release of a canary, and what became of it.
type trial struct {
	Name     string   `json:"name"`
	Kind     string   `json:"kind"`     // mutant, affected or fixed
	Check    string   `json:"check"`    // that must fail it
	CaughtBy []string `json:"caughtBy"` // the checks that failed it
	Verdict  string   `json:"verdict"`
	Seeds    int      `json:"seeds"`   // that ran, the last of them the one that decided
	Seconds  float64  `json:"seconds"` // on the wall, all its cells
	Cells    []string `json:"cells"`   // that ran
	Replay   string   `json:"replay,omitempty"`

	jobs   []suite.Job
	unsure bool
}

// The kinds of trials: a mutant of the reference, a release with a bug, and one
// without it.
const (
	mutant   = "mutant"
	affected = "affected"
	fixed    = "fixed"
)

// What becomes of a trial.
const (
	caught   = "caught"
	mistaken = "mistaken"
	escaped  = "escaped"
	spared   = "spared"
	accused  = "accused"
	unjudged = "inconclusive"
)

func (t trial) columns() []string {
	return []string{t.Name, t.Check, strings.Join(t.CaughtBy, " "), t.Verdict, fmt.Sprint(t.Seeds), fmt.Sprintf("%.1f", t.Seconds)}
}

func gauge(c *cobra.Command, f gaugeFlags, trials []trial) error {
	var jobs []suite.Job
	for _, t := range trials {
		jobs = append(jobs, t.jobs...)
	}
	return enclosed(c, f.runFlags, jobs, func(enclosed runFlags, releases map[string]etcdbin.Release) error {
		report := enclosed.report("what must be noticed", releases)
		var err error
		if f.world == "sim" {
			report.Cells, err = enclosed.simulated(c, f.jobs, trials)
		} else {
			report.Cells, err = decide(c.Context(), trials, func(due []suite.Job) ([]reports.Cell, error) { return enclosed.cellsOf(c, due, releases) })
		}
		if err != nil {
			return err
		}
		for i := range trials {
			trials[i].judge()
		}
		f.out = enclosed.out
		return gauged(c, f, trials, report)
	})
}

// decide runs round after round, a cell of each trial that is open, until none
// is, and returns the cells.
func decide(ctx context.Context, trials []trial, run func([]suite.Job) ([]reports.Cell, error)) (all []reports.Cell, err error) {
	for ctx.Err() == nil {
		open, due := next(trials)
		if len(due) == 0 {
			break
		}
		cells, err := run(due)
		if err != nil {
			return all, err
		}
		for i, cell := range cells {
			open[i].credit(cell)
		}
		all = append(all, cells...)
	}
	return all, nil
}

// simulated decides in workers, which keep nothing, and then runs the last cell
// of each trial once more: it comes to the same, and is kept for the report.
func (f runFlags) simulated(c *cobra.Command, workers int, trials []trial) ([]reports.Cell, error) {
	pool, err := newPool(workers)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if _, err := decide(c.Context(), trials, func(due []suite.Job) ([]reports.Cell, error) { return pooled(c.Context(), pool, due) }); err != nil {
		return nil, err
	}
	var last []suite.Job
	for _, t := range trials {
		if n := len(t.Cells); n > 0 {
			last = append(last, t.jobs[n-1])
		}
	}
	cells, err := f.cellsOf(c, last, nil)
	for i := range trials {
		for _, cell := range cells {
			if n := len(trials[i].Cells); n > 0 && trials[i].jobs[n-1].Plan.Subject == cell.Subject {
				trials[i].Replay = cell.Replay
			}
		}
	}
	return cells, err
}

// pooled runs the jobs in workers.
func pooled(ctx context.Context, pool *explore.Pool, jobs []suite.Job) ([]reports.Cell, error) {
	work := make([]explore.Job, len(jobs))
	for i, j := range jobs {
		work[i].Plan = j.Plan
	}
	results, err := allOf(ctx, pool, work)
	if err != nil {
		return nil, err
	}
	var cells []reports.Cell
	for i, r := range results {
		cell := reports.Cell{Name: jobs[i].Plan.Cell, Subject: jobs[i].Plan.Subject, Verdict: r.Outcome.Verdict, Findings: r.Outcome.Findings}
		cell.Measurements.WallSeconds = &r.Outcome.WallSeconds
		cells = append(cells, cell)
	}
	return cells, nil
}

// allOf runs the jobs, and takes none of them for granted: what ringproof itself
// breaks on proves nothing about a mutant.
func allOf(ctx context.Context, pool explore.Runner, jobs []explore.Job) ([]explore.Result, error) {
	results := pool.Run(ctx, jobs)
	for i, r := range results {
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case r.Err != nil:
			return nil, environment(fmt.Errorf("running %s: %w", jobs[i].Plan.Cell, r.Err))
		case r.Broken != "":
			return nil, failure{exitBug, fmt.Errorf("a bug of ringproof itself: %s with %s: %s", jobs[i].Plan.Cell, jobs[i].Plan.Subject, r.Broken)}
		}
	}
	return results, nil
}

// trials are those named, or all.
func (f gaugeFlags) trials(c *cobra.Command, names []string) ([]trial, error) {
	if f.canaries {
		return f.runFlags.canaries(c, names)
	}
	return f.mutants(c, names)
}

func (f runFlags) mutants(c *cobra.Command, names []string) ([]trial, error) {
	all, err := named(names, subject.Mutants(), func(m subject.Mutant) string { return m.Name })
	if err != nil {
		return nil, err
	}
	var trials []trial
	for _, m := range all {
		f.subject, f.cells = subject.Reference+"+"+m.Name, []string{m.Scenario}
		jobs, err := f.chosen(c, nil)
		if err != nil {
			return nil, err
		}
		trials = append(trials, newTrial(m.Name, mutant, m.Check, jobs))
	}
	return trials, nil
}

// canaries are two trials each: the release with the bug, and the mended one.
func (f runFlags) canaries(c *cobra.Command, names []string) ([]trial, error) {
	all, err := scenarios.Canaries()
	if err == nil {
		all, err = named(names, all, func(s *scenarios.Scenario) string { return s.Name })
	}
	if err != nil {
		return nil, err
	}
	var trials []trial
	for _, s := range all {
		f.subject, f.cells = subject.Reference, []string{s.Name}
		jobs, err := f.chosen(c, nil)
		if err != nil {
			return nil, err
		}
		of := map[scenarios.Release][]suite.Job{}
		for _, job := range jobs {
			version := scenarios.Release(job.Plan.Ring.Version)
			of[version] = append(of[version], job)
		}
		bug, check := s.Canary, string(s.Canary.Check)
		trials = append(trials,
			newTrial(fmt.Sprintf("%s %s", s.Name, bug.Affected), affected, check, of[bug.Affected]),
			newTrial(fmt.Sprintf("%s %s", s.Name, bug.Fixed), fixed, check, of[bug.Fixed]))
	}
	return trials, nil
}

// named picks from all by their names; no names pick all.
func named[E any](names []string, all []E, name func(E) string) ([]E, error) {
	if len(names) == 0 {
		return all, nil
	}
	var words []string
	for _, e := range all {
		words = append(words, name(e))
	}
	for _, n := range names {
		if !slices.Contains(words, n) {
			return nil, usage("there is no %q to gauge; %s", n, hint(n, words))
		}
	}
	return slices.DeleteFunc(all, func(e E) bool { return !slices.Contains(names, name(e)) }), nil
}

func newTrial(name, kind, check string, jobs []suite.Job) trial {
	return trial{Name: name, Kind: kind, Check: check, CaughtBy: []string{}, Cells: []string{}, jobs: jobs}
}

// next takes the next cell of every trial that isn't decided yet.
func next(trials []trial) (open []*trial, due []suite.Job) {
	for i := range trials {
		t := &trials[i]
		if ran := len(t.Cells); ran < len(t.jobs) && !t.decided() {
			open, due = append(open, t), append(due, t.jobs[ran])
		}
	}
	return open, due
}

// decided tells whether no further cell can change the verdict.
func (t *trial) decided() bool {
	if t.Kind == fixed {
		return len(t.CaughtBy) > 0
	}
	return slices.Contains(t.CaughtBy, t.Check)
}

// credit adds what the trial's next cell came to.
func (t *trial) credit(cell reports.Cell) {
	if n := len(t.Cells); n == 0 || t.jobs[n].Plan.Seed != t.jobs[n-1].Plan.Seed {
		t.Seeds++
	}
	t.Cells = append(t.Cells, cell.Name)
	t.Replay = cell.Replay
	if cell.Measurements.WallSeconds != nil {
		t.Seconds += *cell.Measurements.WallSeconds
	}
	for _, f := range cell.Findings {
		if f.Verdict == ringproof.Fail && !slices.Contains(t.CaughtBy, f.Check) {
			t.CaughtBy = append(t.CaughtBy, f.Check)
		}
	}
	t.unsure = t.unsure || cell.Verdict == ringproof.Inconclusive
}

func (t *trial) judge() {
	whole := !t.unsure && len(t.Cells) > 0 && len(t.Cells) == len(t.jobs)
	switch {
	case t.decided() && t.Kind == fixed:
		t.Verdict = accused
	case t.decided():
		t.Verdict = caught
	case len(t.CaughtBy) > 0:
		t.Verdict = mistaken
	case !whole:
		t.Verdict = unjudged
	case t.Kind == fixed:
		t.Verdict = spared
	default:
		t.Verdict = escaped
	}
}

func (t trial) good() bool { return t.Verdict == caught || t.Verdict == spared }

// gauged keeps and prints the table, and ends with its verdict.
func gauged(c *cobra.Command, f gaugeFlags, trials []trial, report reports.Report) error {
	if err := reports.Write(f.out, report); err != nil {
		return environment(err)
	}
	text, err := json.MarshalIndent(trials, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(f.out, gaugeFile), append(text, '\n'), 0o644); err != nil {
		return environment(err)
	}
	rows := rowsOf(trials, func(t trial) trial { return t })
	if err := (listed{[]string{"ON TRIAL", "CHECK", "FAILED BY", "VERDICT", "SEEDS", "SECONDS"}, rows}).print(c, f.asJSON); err != nil {
		return err
	}
	return gaugeVerdict(c, trials, filepath.Join(f.out, reports.PageFile))
}

func gaugeVerdict(c *cobra.Command, trials []trial, page string) error {
	count := map[string]int{}
	good := 0
	for _, t := range trials {
		count[t.Verdict]++
		if t.good() {
			good++
		} else if t.Replay != "" {
			fmt.Fprintf(c.ErrOrStderr(), "%s %s; replay: %s\n", t.Name, t.Verdict, t.Replay)
		}
	}
	var parts []string
	for _, verdict := range []string{caught, spared, mistaken, accused, escaped, unjudged} {
		if count[verdict] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[verdict], verdict))
		}
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s: %s\nreport: %s\n", counted(len(trials), "trial"), strings.Join(parts, ", "), page)
	switch {
	case good == len(trials):
		return nil
	case good+count[unjudged] < len(trials):
		return errVerdict{ringproof.Fail}
	}
	return errVerdict{ringproof.Inconclusive}
}
