// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/reports"
)

func (p *program) confirmCommand() *cobra.Command {
	f := runFlags{program: p}
	var times int
	var check string
	var asJSON bool
	c := &cobra.Command{
		Use:   "confirm PLAN.yaml",
		Short: "run a plan that failed in the simulated world on real etcd, some times, and say whether it fails there",
		Long: `confirm runs the same plan again in a real world: first in the one where one run
decides, as it is the same in every run, and in real time where it isn't confirmed
there, again and again.

  CONFIRMED k/n  the check that failed in the simulated world fails there too,
                 in k of n runs
  SIM-ONLY       it passes every time: the model is wrong, which is a bug of
                 ringproof
  UNDECIDED      only other checks fail, or a run could not be judged
  NOT-PORTABLE   the world can't do a step of the plan, and which one

Exit codes: 0 CONFIRMED, 1 SIM-ONLY, 3 UNDECIDED and NOT-PORTABLE.`,
		Example: "  ringproof confirm out/findings/quorum-margin-0a1b2c3d/plan.yaml",
		Args:    exactly(1, "the file of a plan"),
		PreRunE: func(c *cobra.Command, _ []string) error { return counts(c, "jobs", "attempts", "times") },
		RunE: func(c *cobra.Command, args []string) error {
			plan, err := readPlan(c, args[0])
			if err != nil {
				return err
			}
			if f.subject != "" {
				plan.Subject, plan.SubjectFile = f.subject, ""
			}
			if check == "" && plan.Expect != nil {
				check = plan.Expect.Check
			}
			return confirmed(c, f, plan, harness.Confirmation{Plan: args[0], Check: check, Times: times}, asJSON)
		},
	}
	f.add(c)
	world := c.Flag("world")
	f.world, world.DefValue, world.Usage = "", "", "a real world: "+choices(p.real())+p.whichConfirm()
	c.Flags().StringVar(&f.subject, "subject", "", "what is on trial (default: what the plan says)")
	c.Flags().IntVar(&times, "times", 5, "how many runs, of worlds in which they can differ")
	c.Flags().StringVar(&check, "check", "", "the check that should fail (default: what the plan expects)")
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON: an object for each world that was asked")
	return c
}

// whichConfirm says for the help which worlds are asked where none is named.
func (r Registry) whichConfirm() string {
	asked := namesOf(r.confirming(false))
	if len(asked) == 0 {
		return ""
	}
	return " (default " + strings.Join(asked, ", then ") + ")"
}

// confirming are the worlds that a finding of the simulated world goes to, in this order: of each
// kind the first, that ahead in which a run is the same every time. Built: what runs there is there already.
func (r Registry) confirming(built bool) (worlds []World) {
	for _, repeatable := range []bool{true, false} {
		of := slices.IndexFunc(r.Worlds, func(w World) bool {
			return !w.Simulated && w.Repeatable == repeatable && !(built && w.Build != nil)
		})
		if of >= 0 {
			worlds = append(worlds, r.Worlds[of])
		}
	}
	return worlds
}

// confirmed asks one world after another until one confirms the finding; the last has the last word.
// A world that can't be had here leaves the word to the next.
func confirmed(c *cobra.Command, f runFlags, plan ringproof.Plan, result harness.Confirmation, asJSON bool) error {
	asked := []string{f.world}
	if f.world == "" {
		if _, err := f.Registry.first(false); err != nil {
			return err
		}
		asked, f.out = namesOf(f.confirming(f.etcdBin+f.ringadm != "")), cmp.Or(f.out, outNow())
		if able := slices.DeleteFunc(slices.Clone(asked), func(world string) bool { return f.unable(world, plan) }); len(able) > 0 {
			asked = able // who can't do the plan says nothing of it
		}
	}
	for n, world := range asked {
		in := f
		in.world, result.World = world, world
		if len(asked) > 1 {
			in.out = filepath.Join(f.out, world)
		}
		err := confirm(c, in, plan, result, asJSON)
		if n == len(asked)-1 || !leavesTheWord(err) || c.Context().Err() != nil {
			return err
		}
		if errors.As(err, new(failure)) {
			fmt.Fprintln(c.ErrOrStderr(), err)
		}
		fmt.Fprintf(c.ErrOrStderr(), "not confirmed in the %s world; asking the %s one\n", world, asked[n+1])
	}
	return nil
}

// unable reports whether a world can't do the plan.
func (f runFlags) unable(world string, plan ringproof.Plan) bool {
	f.world = world
	who, err := f.trial(io.Discard, plan)
	if err != nil {
		return false // it is told when the world is asked
	}
	who.Enter(&plan)
	return unable(plan, place{f.in(), who}) != ""
}

// leavesTheWord reports whether a world that ended so has confirmed nothing, and another still may.
func leavesTheWord(err error) bool {
	var failed failure
	return errors.As(err, new(errVerdict)) || errors.As(err, &failed) && failed.code == exitEnvironment
}

func confirm(c *cobra.Command, f runFlags, plan ringproof.Plan, result harness.Confirmation, asJSON bool) error {
	in, err := f.worldOf(f.world)
	if err != nil {
		return err
	}
	if in.Simulated {
		return usage("a finding of the simulated world isn't confirmed there; name a real one, or leave --world out")
	}
	who, err := f.trial(c.ErrOrStderr(), plan)
	if err != nil {
		return err
	}
	who.Enter(&plan)
	if result.Check == "" {
		return usage("%s doesn't say which check fails it; ringproof shrink writes that, or name one with --check", result.Plan)
	}
	if why := unable(plan, place{f.in(), who}); why != "" {
		result.Verdict, result.Why = harness.NotPortable, why
		return concludedBy(c, result, asJSON)
	}
	if in.Repeatable && !c.Flags().Changed("times") {
		result.Times = 1 // it would come to the same each time
	}
	jobs := harness.Repeated(plan, f.world, result.Times)
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
		result.Judge(report.Cells)
		return concludedBy(c, result, asJSON)
	})
}

// unable says what of the plan can't be done in the place, and why; "" when all of
// it can.
func unable(p ringproof.Plan, in place) string {
	if err := in.Runs(p); err != nil {
		return fmt.Sprintf("the ring: %v", err)
	}
	for _, s := range p.Steps {
		if err := in.lacks(s); err != nil {
			return fmt.Sprintf("step %s: %v", s.Name, err)
		}
	}
	return ""
}

// concludedBy prints the result, and ends with its code.
func concludedBy(c *cobra.Command, r harness.Confirmation, asJSON bool) error {
	if asJSON {
		if err := printJSON(c.OutOrStdout(), r); err != nil {
			return err
		}
	} else {
		printConfirmation(c, r)
	}
	switch r.Verdict {
	case harness.Confirmed:
		return nil
	case harness.SimOnly:
		return errVerdict{ringproof.Fail}
	}
	return errVerdict{ringproof.Inconclusive}
}

func printConfirmation(c *cobra.Command, r harness.Confirmation) {
	w := c.OutOrStdout()
	switch r.Verdict {
	case harness.Confirmed:
		fmt.Fprintf(w, "CONFIRMED %d/%d: %s fails in the %s world too\n", r.Failed, r.Times, r.Check, r.World)
	case harness.SimOnly:
		fmt.Fprintf(w, "SIM-ONLY: all %s passed in the %s world: the model is wrong\n", ringproof.Counted(r.Times, "run"), r.World)
	case harness.Undecided:
		fmt.Fprintf(w, "UNDECIDED: %s failed in none of %s in the %s world, and these did not pass\n", r.Check, ringproof.Counted(r.Times, "run"), r.World)
	case harness.NotPortable:
		fmt.Fprintf(w, "NOT-PORTABLE to the %s world: %s\n", r.World, r.Why)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Others)) {
		fmt.Fprintf(w, "  %s in %s\n", name, ringproof.Counted(r.Others[name], "run"))
	}
	if r.Report != "" {
		fmt.Fprintf(w, "report: %s\n", r.Report)
	}
}
