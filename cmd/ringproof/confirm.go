// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/internal/suite"
	"github.com/ringproof/ringproof/reports"
	"github.com/ringproof/ringproof/scenarios"
)

// What a finding of the simulated world comes to in a real one.
const (
	confirmed   = "CONFIRMED"    // the same check fails there
	simOnly     = "SIM-ONLY"     // every run passes there: the model is wrong
	undecided   = "UNDECIDED"    // other checks fail, or not every run could be judged
	notPortable = "NOT-PORTABLE" // the world can't do what the plan does
)

func confirmCommand() *cobra.Command {
	var f runFlags
	var times int
	var check string
	var asJSON bool
	c := &cobra.Command{
		Use:   "confirm PLAN.yaml",
		Short: "run a plan that failed in the simulated world on real etcd, some times, and say whether it fails there",
		Long: `confirm runs the same plan again and again in a real world.

  CONFIRMED k/n  the check that failed in the simulated world fails there too,
                 in k of n runs
  SIM-ONLY       it passes every time: the model is wrong, which is a bug of
                 ringproof
  UNDECIDED      only other checks fail, or a run could not be judged
  NOT-PORTABLE   the world can't do a step of the plan, and which one

Exit codes: 0 CONFIRMED, 1 SIM-ONLY, 3 UNDECIDED and NOT-PORTABLE.`,
		Example: "  ringproof confirm out/findings/quorum-margin-0a1b2c3d/plan.yaml",
		Args:    exactly(1, "the file of a plan"),
		RunE: func(c *cobra.Command, args []string) error {
			plan, err := readPlan(c, args[0])
			if err != nil {
				return err
			}
			if times < 1 {
				return usage("--times %d: a plan is confirmed by running it once or more", times)
			}
			if f.subject != "" {
				plan.Subject = f.subject
			}
			if check == "" && plan.Expect != nil {
				check = plan.Expect.Check
			}
			return confirm(c, f, plan, confirmation{Plan: args[0], World: f.world, Check: check, Times: times}, asJSON)
		},
	}
	f.add(c)
	world := c.Flag("world")
	f.world, world.DefValue, world.Usage = "local", "local", "a real world: local (real etcd on this host)"
	c.Flags().StringVar(&f.subject, "subject", "", "what is on trial (default: what the plan says)")
	c.Flags().IntVar(&times, "times", 5, "how many runs")
	c.Flags().StringVar(&check, "check", "", "the check that should fail (default: what the plan expects)")
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return c
}

// confirmation is the result, for programs.
type confirmation struct {
	Plan    string         `json:"plan"`
	World   string         `json:"world"`
	Check   string         `json:"check"`
	Verdict string         `json:"verdict"`
	Failed  int            `json:"failed"` // runs that the check failed
	Times   int            `json:"times"`
	Others  map[string]int `json:"others,omitempty"` // other checks that failed, or could not judge
	Why     string         `json:"why,omitempty"`
	Report  string         `json:"report,omitempty"`
}

func confirm(c *cobra.Command, f runFlags, plan ringproof.Plan, result confirmation, asJSON bool) error {
	if err := known(f.world); err != nil {
		return err
	}
	if f.world == "sim" {
		return usage("a finding of the simulated world isn't confirmed there; name a real world: --world local")
	}
	if _, err := subject.Parse(plan.Subject); err != nil {
		return usage("%w", err)
	}
	if result.Check == "" {
		return usage("%s doesn't say which check fails it; ringproof shrink writes that, or name one with --check", result.Plan)
	}
	if why := unportable(plan, f.world); why != "" {
		result.Verdict, result.Why = notPortable, why
		return result.end(c, asJSON)
	}
	jobs := repeated(plan, f.world, result.Times)
	return enclosed(c, f, jobs, func(f runFlags, releases map[string]etcdbin.Release) error {
		report := f.report(plan.Subject, releases)
		var err error
		if report.Cells, err = f.cellsOf(c, jobs, releases); err != nil {
			return err
		}
		if err := reports.Write(f.out, report); err != nil {
			return environment(err)
		}
		result.Report = filepath.Join(f.out, reports.PageFile)
		result.judge(report.Cells)
		return result.end(c, asJSON)
	})
}

// unportable says which step the world can't do, and why; "" when it can do
// all of them.
func unportable(p ringproof.Plan, world string) string {
	for _, s := range p.Steps {
		if err := (place{world}).Supports(s); err != nil {
			return fmt.Sprintf("step %s: %v", s.Name, err)
		}
		if s.Fault == nil {
			continue
		}
		if e, ok := faults.Lookup(s.Fault.Kind); ok && !slices.Contains(e.Worlds, world) {
			return fmt.Sprintf("step %s: the fault %s is possible in %s only", s.Name, s.Fault.Kind, strings.Join(e.Worlds, " and "))
		}
	}
	return ""
}

// repeated are jobs of one plan, each with a name, and so files, of its own.
func repeated(p ringproof.Plan, world string, times int) []suite.Job {
	cell, err := scenarios.ParseCellName(p.Cell)
	if err != nil {
		cell = scenarios.Cell{Scenario: p.Scenario, Seed: p.Seed, Seeded: true}
	}
	var jobs []suite.Job
	for n := range times {
		again := p
		again.World, again.Expect = world, nil
		cell.Values = maps.Clone(cell.Values)
		if cell.Values == nil {
			cell.Values = map[string]string{}
		}
		cell.Values["run"] = fmt.Sprint(n + 1)
		again.Cell = cell.String()
		jobs = append(jobs, suite.Job{Plan: again})
	}
	return jobs
}

// judge counts what the check said in each run.
func (r *confirmation) judge(cells []reports.Cell) {
	r.Others = map[string]int{}
	for _, cell := range cells {
		failed := slices.ContainsFunc(cell.Findings, func(f ringproof.Finding) bool { return f.Check == r.Check && f.Verdict == ringproof.Fail })
		if failed {
			r.Failed++
			continue
		}
		for _, f := range cell.Findings {
			if f.Verdict != ringproof.Pass {
				r.Others[f.Check+" "+f.Verdict.String()]++
			}
		}
		if cell.Skipped != "" {
			r.Others["skipped"]++
		}
	}
	switch {
	case r.Failed > 0:
		r.Verdict = confirmed
	case len(r.Others) > 0:
		r.Verdict = undecided
	default:
		r.Verdict = simOnly
	}
}

// end prints the result, and ends with its code.
func (r confirmation) end(c *cobra.Command, asJSON bool) error {
	if asJSON {
		if err := printJSON(c.OutOrStdout(), r); err != nil {
			return err
		}
	} else {
		r.print(c)
	}
	switch r.Verdict {
	case confirmed:
		return nil
	case simOnly:
		return errVerdict{ringproof.Fail}
	}
	return errVerdict{ringproof.Inconclusive}
}

func (r confirmation) print(c *cobra.Command) {
	w := c.OutOrStdout()
	switch r.Verdict {
	case confirmed:
		fmt.Fprintf(w, "CONFIRMED %d/%d: %s fails in the %s world too\n", r.Failed, r.Times, r.Check, r.World)
	case simOnly:
		fmt.Fprintf(w, "SIM-ONLY: all %s passed in the %s world: the model is wrong\n", counted(r.Times, "run"), r.World)
	case undecided:
		fmt.Fprintf(w, "UNDECIDED: %s failed in none of %s in the %s world, and these did not pass\n", r.Check, counted(r.Times, "run"), r.World)
	case notPortable:
		fmt.Fprintf(w, "NOT-PORTABLE to the %s world: %s\n", r.World, r.Why)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Others)) {
		fmt.Fprintf(w, "  %s in %s\n", name, counted(r.Others[name], "run"))
	}
	if r.Report != "" {
		fmt.Fprintf(w, "report: %s\n", r.Report)
	}
}
