// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness/explore"
	"github.com/ringproof/ringproof/scenarios"
)

func (p *program) shrinkCommand() *cobra.Command {
	f := searchFlags{program: p, world: p.Worlds[0].Name, realTime: true}
	var s explore.Shrinker
	var check string
	c := &cobra.Command{
		Use:   "shrink PLAN.yaml",
		Short: "make a failing plan small: the same check must still fail it",
		Long: `shrink leaves out what a failing plan doesn't need, and runs it again each time:
the clients' work, faults, operations; then it makes milder what is left, the
ring smaller, and the waits shorter. A smaller plan is taken only if the same
check fails it for the same kind of reason. It runs in the simulated world, or with
--world on real etcd, where it takes longer: in virtual time, or in real time. There a
check that judges time must fail a plan twice, and what fails only now and then stays
larger than it could be.

The plan is printed, and written beside the first one with the check and the
trace that are to be expected, and the line that replays it.`,
		Example: `  ringproof shrink out/cells/flap_1/plan.yaml
  ringproof shrink out/cells/flap_1/plan.yaml --world local`,
		Args:    exactly(1, "the file of a plan"),
		PreRunE: func(c *cobra.Command, _ []string) error { return counts(c, "jobs", "runs") },
		RunE: func(c *cobra.Command, args []string) error {
			plan, err := readPlan(c, args[0])
			if err != nil {
				return err
			}
			if f.subject != "" {
				who, err := f.contending(c.ErrOrStderr(), f.subject)
				if err != nil {
					return err
				}
				who.Enter(&plan)
			}
			if f.out == "" {
				f.out = strings.TrimSuffix(args[0], filepath.Ext(args[0])) + ".min.yaml"
			}
			return f.shrink(c, s, plan, check)
		},
	}
	c.Flags().IntVar(&s.Runs, "runs", 300, "how many runs it may cost")
	c.Flags().DurationVar(&s.For, "for", 0, "how long it may take (default 1m0s, and in other worlds than the simulated one "+shrinkAbroad.String()+")")
	c.Flags().IntVar(&f.jobs, "jobs", 0, "plans to run at once (default one a processor)")
	c.Flags().StringVar(&check, "check", "", "the check that must still fail (default: what the plan expects, or the first that fails)")
	c.Flags().StringVar(&f.out, "out", "", "file for the small plan (default: PLAN.min.yaml)")
	c.Flags().StringVar(&f.subject, "subject", "", "what is on trial (default: what the plan says)")
	c.Flags().StringVar(&f.world, "world", f.world, "where to run the plans: "+choices(p.Worlds))
	return c
}

// readPlan reads the file of a plan.
func readPlan(c *cobra.Command, file string) (ringproof.Plan, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return ringproof.Plan{}, usage("there is no plan file %s; explore and run keep them in their --out", file)
	}
	if err != nil {
		return ringproof.Plan{}, environment(err)
	}
	plan, found := scenarios.ReadPlan(file, text)
	if found.Failed() {
		fmt.Fprint(c.ErrOrStderr(), found)
		return plan, usage("%s is no plan that can be run", file)
	}
	return plan, nil
}

// shrink makes the plan small, and writes it.
func (f searchFlags) shrink(c *cobra.Command, s explore.Shrinker, plan ringproof.Plan, check string) error {
	if check == "" && plan.Expect != nil {
		check = plan.Expect.Check
	}
	f.subject, plan.World = plan.Subject, f.world
	return f.within(c, []ringproof.Plan{plan}, func(in searching) (err error) {
		if why := unable(plan, in.place); why != "" {
			return usage("%s can't be run in the %s world: %s", plan.Cell, f.world, why)
		}
		s.For = cmp.Or(s.For, in.patience)
		if s.Runner, err = in.runner(cmp.Or(max(0, f.jobs), runtime.NumCPU())); err != nil {
			return err
		}
		first := s.Runner.Run(c.Context(), []explore.Job{{Plan: plan}})[0]
		if first.Err != nil {
			return environment(first.Err)
		}
		key, err := first.Outcome.KeyOf(check)
		if err != nil {
			return usage("%s can't be shrunk: %w", plan.Cell, err)
		}
		small, err := s.Shrink(c.Context(), plan, key)
		if err != nil {
			return environment(err)
		}
		return f.tellSmall(c, len(plan.Steps), small, in.flags)
	})
}

func (f searchFlags) tellSmall(c *cobra.Command, steps int, small explore.Shrunk, flags []string) error {
	if err := explore.WritePlan(f.out, small.Plan, flags...); err != nil {
		return environment(err)
	}
	var text bytes.Buffer
	if err := scenarios.WritePlan(&text, small.Plan); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.OutOrStdout(), "%s# replay: %s\n", &text, explore.Replay(f.out, flags...)); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s: %s with %s, of %d, after %s in %.1fs%s\n", f.out, ringproof.Counted(small.Steps, "step"), ringproof.Counted(small.Faults, "fault"),
		steps, ringproof.Counted(small.Runs, "run"), small.Seconds, unfinished(small))
	return nil
}

func unfinished(s explore.Shrunk) string {
	if s.Minimal {
		return ""
	}
	return "; there was no more time to leave out more (--runs, --for)"
}
