// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
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
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/harness/explore"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/reports"
	"github.com/ringproof/ringproof/scenarios"
)

// mutationFile holds the table beside the report.
const mutationFile = "mutation.json"

// mutateFlags are the flags of mutate. Seeds is how many each mutant is given.
type mutateFlags struct {
	runFlags
	knownBugs bool
	search    bool
	disarm    bool
	asJSON    bool
}

// mutateHelp is what mutate says of itself.
const mutateHelp = `mutate tests the checks by mutation testing: it runs what they must fail, and says
whether they did.

A mutant is the reference with one mistake put in. It runs on the cells of the
scenario that shows the damage, seed after seed, until the check that is meant
for it has failed it. SEEDS says how many seeds that took, SECONDS how long all
its runs took.

With --known-bugs it runs releases of etcd instead: one with a known bug, which its
check must fail, and the release that fixed it, which must pass. No simulated etcd
has the bug, so they run in the local world unless you name another (--world virtual).

  killed          the intended check failed the mutant
  reproduced      the intended check failed the release with the bug
  another-check   it failed, but only by other checks
  survived        every cell passed, and what is wrong was done in some
  not-covered     every cell passed, and in none was it done: nothing was tried
  passed          the release that fixed the bug passed
  false-positive  the release that fixed the bug failed
  inconclusive    not every cell could be judged

The table is kept as mutation.json in --out. The report beside it shows the cells,
of simulated ones the last of each mutant; there, failing is what mutants and
known bugs should do. REACHED says in how many of the cells that ran the mutant did
what it does wrong. Exit code 0: each was killed or reproduced, or passed as it must;
1: one was not; 3: all but those that could not be judged were.

With --disarm it also disarms each check in turn, so that it always passes, and
says which mutants survive then: what no other check notices shows what this one
is for. A check without such a mutant is named, and the exit code is 1.

With --search it says what each mutant costs to find, as medians over searches
from five starts: SEEDS of its own scenario until the intended check fails it,
and RUNS of plans as explore draws them until any check fails it, with the
SECONDS of one worker that they took. A plan that fails the reference too isn't
counted. RUNS BEFORE is what ringproof list mutants prints, and what takes three
times as many now is named. Nothing is kept, and exit code 1 says that a scenario
missed its mutant.`

func (p *program) mutateCommand() *cobra.Command {
	f := mutateFlags{runFlags: runFlags{program: p}}
	c := &cobra.Command{
		Use:   "mutate [MUTANT|BUG...]",
		Short: "test ringproof itself: would it notice? Runs mutants, or known bugs",
		Long:  mutateHelp,
		Example: `  ringproof mutate
  ringproof mutate --disarm
  ringproof mutate voter-first --world local
  ringproof mutate --search voter-first
  ringproof mutate --known-bugs`,
		PreRunE: func(c *cobra.Command, _ []string) error { return counts(c, "jobs", "attempts", "seeds") },
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.choose(c); err != nil {
				return err
			}
			if f.disarm && len(args) > 0 {
				return usage("--disarm %s: only all mutants together carry the checks; leave the names out", args[0])
			}
			if f.search {
				return f.measure(c, args)
			}
			trials, err := f.trials(c, args)
			if err != nil {
				return err
			}
			return mutate(c, f, trials)
		},
	}
	f.add(c)
	f.repeats(c)
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the first run of each cell")
	c.Flags().Uint64Var(&f.seeds, "seeds", 0, "the most seeds of each cell (default 25 in sim, else 1)")
	c.Flags().BoolVar(&f.knownBugs, "known-bugs", false, "the known bugs of etcd instead of the mutants: on real etcd (local when --world is absent)")
	renamedFlag(c, "canaries", "known-bugs")
	c.Flags().BoolVar(&f.search, "search", false, "say what each mutant costs to find; in the simulated world")
	c.Flags().BoolVar(&f.disarm, "disarm", false, "disarm each check in turn, and say which mutants survive then")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the table as JSON")
	return c
}

// choose fills in what the command line leaves open: known bugs are real, and a
// search is simulated.
func (f *mutateFlags) choose(c *cobra.Command) error {
	if f.knownBugs && !c.Flags().Changed("world") {
		in, err := f.Registry.first(false)
		if err != nil {
			return err
		}
		f.world = in.Name
	}
	in, err := f.worldOf(f.world)
	switch {
	case err != nil:
		return err
	case f.knownBugs && f.search:
		return usage("--known-bugs and --search: known bugs are of real releases of etcd, and a search is simulated; take one of them")
	case f.disarm && (f.knownBugs || f.search):
		return usage("--disarm goes with the mutants; leave --known-bugs and --search out")
	case f.knownBugs && in.Simulated:
		return usage("--known-bugs --world %s: known bugs are of real releases of etcd; leave --world out", f.world)
	case f.search && !in.Simulated:
		return usage("--search --world %s: a search is simulated; leave --world out", f.world)
	case f.search && c.Flags().Changed("seed"):
		return usage("--search --seed %d: a search has starts of its own, so that its figures can be compared; leave --seed out", f.seed)
	}
	if in.Simulated && !c.Flags().Changed("jobs") {
		f.jobs = runtime.NumCPU() // nothing waits in a simulated world
	}
	if f.seeds == 0 {
		f.seeds = 1
		if in.Simulated {
			f.seeds = 25
		}
	}
	return nil
}

// trialRow is a trial as a row of the table.
type trialRow struct{ harness.Trial }

func (t trialRow) columns() []string {
	reached := "-"
	if t.Kind == harness.OfMutant {
		reached = fmt.Sprintf("%d of %s", t.Reached, ringproof.Counted(len(t.Cells), "cell"))
	}
	return []string{t.Name, t.Check, strings.Join(t.FailedBy, " "), t.Verdict, fmt.Sprint(t.Seeds), reached, fmt.Sprintf("%.1f", t.Seconds)}
}

func mutate(c *cobra.Command, f mutateFlags, trials []harness.Trial) error {
	var jobs []harness.Job
	for _, t := range trials {
		jobs = append(jobs, t.Jobs...)
	}
	return enclosed(c, f.runFlags, jobs, func(enclosed runFlags, releases map[string]etcdbin.Release) error {
		report := enclosed.report("what must be noticed", releases)
		var err error
		if f.in().Simulated {
			report.Cells, err = enclosed.simulated(c, f.jobs, trials)
		} else {
			report.Cells, err = harness.Mutate(c.Context(), trials, func(due []harness.Job) ([]reports.Cell, error) { return enclosed.cellsOf(c, due, releases) })
		}
		if err != nil {
			return err
		}
		f.out = enclosed.out
		return mutated(c, f, trials, report)
	})
}

// simulated decides in workers, which keep nothing, and then runs the last cell
// of each trial once more: it comes to the same, and is kept for the report.
func (f runFlags) simulated(c *cobra.Command, workers int, trials []harness.Trial) ([]reports.Cell, error) {
	pool, err := newPool(workers)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if _, err := harness.Mutate(c.Context(), trials, func(due []harness.Job) ([]reports.Cell, error) { return pooled(c.Context(), pool, due) }); err != nil {
		return nil, err
	}
	var last []harness.Job
	for _, t := range trials {
		if n := len(t.Cells); n > 0 {
			last = append(last, t.Jobs[n-1])
		}
	}
	cells, err := f.cellsOf(c, last, nil)
	for i := range trials {
		for _, cell := range cells {
			if n := len(trials[i].Cells); n > 0 && trials[i].Jobs[n-1].Plan.Subject == cell.Subject {
				trials[i].Replay = cell.Replay
			}
		}
	}
	return cells, err
}

// pooled runs the jobs in workers.
func pooled(ctx context.Context, pool *explore.Pool, jobs []harness.Job) ([]reports.Cell, error) {
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
		cell := reports.Cell{Name: jobs[i].Plan.Cell, Subject: jobs[i].Plan.Subject, Verdict: r.Outcome.Verdict, Findings: r.Outcome.Findings, Reached: r.Outcome.Reached}
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
func (f mutateFlags) trials(c *cobra.Command, names []string) ([]harness.Trial, error) {
	if f.knownBugs {
		return f.runFlags.knownBugs(c, names)
	}
	return f.mutants(c, names)
}

func (f runFlags) mutants(c *cobra.Command, names []string) ([]harness.Trial, error) {
	all, err := named(names, slices.Clone(f.own().Mutants), func(m harness.Mutant) string { return m.Name })
	if err != nil {
		return nil, err
	}
	if !f.in().Simulated && len(names) == 0 {
		whole := len(all)
		all = slices.DeleteFunc(all, func(m harness.Mutant) bool { return m.Beneath })
		fmt.Fprintf(c.ErrOrStderr(), "%d mutants lie beneath the %s, and are the same in every world: name one to run it in the %s world\n", whole-len(all), f.own().Name, f.world)
	}
	var trials []harness.Trial
	for _, m := range all {
		f.subject, f.cells = f.own().Name+"+"+m.Name, []string{m.Scenario}
		jobs, err := f.chosen(c, nil)
		if err != nil {
			return nil, err
		}
		why := inapplicable(jobs)
		if !f.in().Simulated {
			why = cmp.Or(m.SimOnly, why)
		}
		if why != "" {
			fmt.Fprintf(c.ErrOrStderr(), "%s can't be shown in the %s world: %s\n", m.Name, f.world, why)
			continue
		}
		trials = append(trials, harness.NewTrial(m.Name, harness.OfMutant, m.Check, jobs))
	}
	return trials, nil
}

// inapplicable is why the world can do none of the jobs; "": it can do some.
func inapplicable(jobs []harness.Job) (why string) {
	for _, j := range jobs {
		if j.NotApplicable == "" {
			return ""
		}
		why = j.NotApplicable
	}
	return why
}

// knownBugs are two trials each: the release with the bug, and the one that fixed it.
func (f runFlags) knownBugs(c *cobra.Command, names []string) ([]harness.Trial, error) {
	all, err := scenarios.KnownBugs()
	if err == nil {
		all, err = named(names, all, func(s *scenarios.Scenario) string { return s.Name })
	}
	if err != nil {
		return nil, err
	}
	var trials []harness.Trial
	for _, s := range all {
		f.subject, f.cells = f.own().Name, []string{s.Name}
		jobs, err := f.chosen(c, nil)
		if err != nil {
			return nil, err
		}
		of := map[scenarios.Release][]harness.Job{}
		for _, job := range jobs {
			version := scenarios.Release(job.Plan.Ring.Version)
			of[version] = append(of[version], job)
		}
		bug, check := s.KnownBug, string(s.KnownBug.Check)
		trials = append(trials,
			harness.NewTrial(fmt.Sprintf("%s %s", s.Name, bug.Affected), harness.OfAffected, check, of[bug.Affected]),
			harness.NewTrial(fmt.Sprintf("%s %s", s.Name, bug.Fixed), harness.OfFixed, check, of[bug.Fixed]))
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
			return nil, usage("there is no %q to run; %s", n, hint(n, words))
		}
	}
	return slices.DeleteFunc(all, func(e E) bool { return !slices.Contains(names, name(e)) }), nil
}

// mutated keeps and prints the table, and ends with its verdict.
func mutated(c *cobra.Command, f mutateFlags, trials []harness.Trial, report reports.Report) error {
	if err := reports.Write(f.out, report); err != nil {
		return environment(err)
	}
	text, err := json.MarshalIndent(trials, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(f.out, mutationFile), append(text, '\n'), 0o644); err != nil {
		return environment(err)
	}
	rows := rowsOf(trials, func(t harness.Trial) trialRow { return trialRow{t} })
	if !f.disarm || !f.asJSON {
		if err := (listed{[]string{"ON TRIAL", "CHECK", "FAILED BY", "VERDICT", "SEEDS", "REACHED", "SECONDS"}, rows}).print(c, f.asJSON); err != nil {
			return err
		}
	}
	if err := reports.Retold(c.ErrOrStderr(), report); err != nil {
		return err
	}
	verdict := mutateVerdict(c, trials, filepath.Join(f.out, reports.PageFile))
	if f.disarm {
		return cmp.Or(disarmed(c, trials, f.asJSON), verdict)
	}
	return verdict
}

func mutateVerdict(c *cobra.Command, trials []harness.Trial, page string) error {
	count := map[string]int{}
	good := 0
	for _, t := range trials {
		count[t.Verdict]++
		if t.Good() {
			good++
		} else if t.Replay != "" {
			fmt.Fprintf(c.ErrOrStderr(), "%s %s; replay: %s\n", t.Name, t.Verdict, t.Replay)
		}
	}
	var parts []string
	for _, verdict := range []string{harness.Killed, harness.Reproduced, harness.Passed, harness.AnotherCheck, harness.FalsePositive, harness.Survived, harness.NotCovered, harness.Unjudged} {
		if count[verdict] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[verdict], verdict))
		}
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s: %s\nreport: %s\n", ringproof.Counted(len(trials), "trial"), strings.Join(parts, ", "), page)
	switch {
	case good == len(trials):
		return nil
	case good+count[harness.Unjudged] < len(trials):
		return errVerdict{ringproof.Fail}
	}
	return errVerdict{ringproof.Inconclusive}
}
