// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/internal/suite"
	"github.com/ringproof/ringproof/reports"
	"github.com/ringproof/ringproof/scenarios"
)

// gaugeFile holds the gauge beside the report.
const gaugeFile = "gauge.json"

func gaugeCommand() *cobra.Command {
	var f runFlags
	var canaries, asJSON bool
	c := &cobra.Command{
		Use:   "gauge [MUTANT|CANARY...]",
		Short: "test ringproof itself: would it notice? Runs the mutants, or the canaries",
		Long: `gauge runs what ringproof must notice, and says whether it did.

A mutant is the reference with one hazard put in. It runs on the cells of the
scenario that shows its harm until the check that names the harm has failed it.
A canary is a release of etcd with a known bug, and the release that mended it:
the first must be failed by its check, the second must pass.

  caught        the intended check failed it
  mistaken      it failed, but only by other checks
  escaped       every cell passed
  spared        a mended release passed
  accused       a mended release failed
  inconclusive  not every cell could be judged

The table is kept as gauge.json in --out. The report beside it shows the cells;
there, failing is what mutants and canaries should do. Exit code 0: each was
caught or spared; 1: one was mistaken, accused or escaped; 3: inconclusive.`,
		Example: `  ringproof gauge
  ringproof gauge voter-first
  ringproof gauge --canaries`,
		RunE: func(c *cobra.Command, args []string) error {
			trials, err := f.trials(c, args, canaries)
			if err != nil {
				return err
			}
			return gauge(c, f, trials, asJSON)
		},
	}
	f.add(c)
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of each cell")
	c.Flags().BoolVar(&canaries, "canaries", false, "the canaries instead of the mutants")
	c.Flags().BoolVar(&asJSON, "json", false, "print the table as JSON")
	return c
}

// trial is one mutant, or one release of a canary, and what became of it.
type trial struct {
	Name     string   `json:"name"`
	Kind     string   `json:"kind"`     // mutant, affected or fixed
	Check    string   `json:"check"`    // that must fail it
	CaughtBy []string `json:"caughtBy"` // the checks that failed it
	Verdict  string   `json:"verdict"`
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
	return []string{t.Name, t.Check, strings.Join(t.CaughtBy, " "), t.Verdict, fmt.Sprintf("%.1f", t.Seconds)}
}

func gauge(c *cobra.Command, f runFlags, trials []trial, asJSON bool) error {
	var jobs []suite.Job
	for _, t := range trials {
		jobs = append(jobs, t.jobs...)
	}
	return enclosed(c, f, jobs, func(f runFlags, releases map[string]etcdbin.Release) error {
		report := f.report("what must be noticed", releases)
		for c.Context().Err() == nil {
			due := next(trials)
			if len(due) == 0 {
				break
			}
			cells, err := f.cellsOf(c, due, releases)
			if err != nil {
				return err
			}
			for _, cell := range cells {
				credit(trials, cell)
			}
			report.Cells = append(report.Cells, cells...)
		}
		for i := range trials {
			trials[i].judge()
		}
		return gauged(c, f, trials, report, asJSON)
	})
}

// trials are those named, or all that the world can do.
func (f runFlags) trials(c *cobra.Command, names []string, canaries bool) ([]trial, error) {
	f.seeds = 1
	if err := known(f.world); err != nil {
		return nil, err
	}
	if canaries {
		return f.canaries(c, names)
	}
	return f.mutants(c, names)
}

func (f runFlags) mutants(c *cobra.Command, names []string) ([]trial, error) {
	all := slices.DeleteFunc(subject.Mutants(), func(m subject.Mutant) bool { return m.World != f.world })
	all, err := named(names, all, func(m subject.Mutant) string { return m.Name })
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
func next(trials []trial) []suite.Job {
	var due []suite.Job
	for _, t := range trials {
		if ran := len(t.Cells); ran < len(t.jobs) && !t.decided() {
			due = append(due, t.jobs[ran])
		}
	}
	return due
}

// decided tells whether no further cell can change the verdict.
func (t trial) decided() bool {
	if t.Kind == fixed {
		return len(t.CaughtBy) > 0
	}
	return slices.Contains(t.CaughtBy, t.Check)
}

// credit adds what a cell came to to its trial.
func credit(trials []trial, cell reports.Cell) {
	i := slices.IndexFunc(trials, func(t trial) bool {
		return slices.ContainsFunc(t.jobs, func(j suite.Job) bool { return j.Plan.Cell == cell.Name && j.Plan.Subject == cell.Subject })
	})
	if i < 0 {
		return
	}
	t := &trials[i]
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
func gauged(c *cobra.Command, f runFlags, trials []trial, report reports.Report, asJSON bool) error {
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
	if err := (listed{[]string{"ON TRIAL", "CHECK", "FAILED BY", "VERDICT", "SECONDS"}, rows}).print(c, asJSON); err != nil {
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
