// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness/explore"
	"github.com/ringproof/ringproof/scenarios"
)

func (p *program) sweepCommand() *cobra.Command {
	f := searchFlags{program: p}
	var s explore.Sweep
	var seed uint64
	c := &cobra.Command{
		Use:   "sweep SCENARIO.yaml|PLAN.yaml|CELL",
		Short: "run a scenario again and again, with a fault at each thing that the automation does or decides",
		Long: `sweep runs a plan once and lists what the subject did and decided. Then it runs
the plan again for each side effect: the agent dies before it, dies after it,
or loses its reply; its disk or its machine is lost with it, or the ring's leader
with the reply; and for each decision: it is made on an old view, or missed.

Where the run tells what the subject was about, of faults that hit the same effect
in the same state the first is run; the others are counted, and --full runs them
too. With --pairs each run has two faults. --limit are drawn from --seed, of each kind
of effect and fault one before another of any.

With --world virtual the plan runs on real etcd, with the processes of the subject; on
Kubernetes these are its launchers and its controller, and each of the controller's
writes to the API server is an effect too; of somebody's operator these are the effects.
A run takes seconds there, so set --limit.

NOT REACHED are runs that took another way, so that the fault hit nothing, or left the
plan no room for a loss of its own.`,
		Example: `  ringproof sweep agent-crash-grow
  ringproof sweep 'flap#1' --pairs --limit 2000
  ringproof sweep kube-create --world virtual --limit 20
  ringproof sweep kube-scale --world virtual --at 'etcd member'`,
		Args: exactly(1, "a scenario, a saved plan, or the name of a cell"),
		PreRunE: func(c *cobra.Command, _ []string) error {
			if s.Limit < 0 {
				return usage("--limit %d: write how many plans at most, or 0 for all", s.Limit)
			}
			return counts(c, "jobs")
		},
		RunE: func(c *cobra.Command, args []string) error {
			plans, err := f.plans(c, args[0], seed)
			if err != nil {
				return err
			}
			s.Seed = seed
			if s.Pairs && !c.Flags().Changed("limit") {
				s.Limit = mostPairs
			}
			return sweep(c, f, s, plans)
		},
	}
	f.add(c)
	f.addWorld(c)
	c.Flags().BoolVar(&s.Pairs, "pairs", false, "two faults a run")
	c.Flags().IntVar(&s.Limit, "limit", 0, "the most plans to run for each cell; 0 is all (when absent 1000 pairs, and every single fault)")
	c.Flags().BoolVar(&s.Full, "full", false, "leave no fault out")
	c.Flags().StringVar(&s.At, "at", "", "only at effects and decisions with this in their name, as \"kube delete\"")
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of the cells, and of the draw of pairs")
	return c
}

// mostPairs are run of a cell if nobody says how many.
const mostPairs = 1000

// plans are those of a file, or of a cell's name.
func (f searchFlags) plans(c *cobra.Command, what string, seed uint64) ([]ringproof.Plan, error) {
	text, err := os.ReadFile(what)
	switch {
	case err == nil && !strings.Contains(string(text), "apiVersion"):
		p, err := readPlan(c, what)
		if c.Flags().Changed("subject") {
			p.Subject = f.subject
		}
		if err != nil {
			return nil, err
		}
		p.World = f.world
		return []ringproof.Plan{p}, nil
	case err == nil:
		loaded, err := load(c.ErrOrStderr(), []string{what})
		if err != nil {
			return nil, err
		}
		return f.resolved(c, loaded, nil, seed)
	case planFile.MatchString(what):
		return nil, unreadable(what, err)
	}
	pattern, err := scenarios.ParseCellName(what)
	if err != nil {
		return nil, usage("%w", err)
	}
	shipped, err := scenarios.Shipped()
	if err != nil {
		return nil, err
	}
	return f.resolved(c, shipped, []scenarios.Cell{pattern}, seed)
}

// resolved are the plans of the scenarios' cells. Whom a scenario would be
// compared with is left out: one subject is swept.
func (f searchFlags) resolved(c *cobra.Command, loaded []*scenarios.Scenario, patterns []scenarios.Cell, seed uint64) ([]ringproof.Plan, error) {
	of := runFlags{program: f.program, world: f.world, subject: f.subject, seed: seed, seeds: 1}
	jobs, err := of.jobsOf(c, loaded, patterns)
	if err != nil {
		return nil, err
	}
	var plans []ringproof.Plan
	for _, job := range jobs {
		switch {
		case job.Baseline:
		case job.NotApplicable != "":
			fmt.Fprintf(c.ErrOrStderr(), "%s is not applicable: %s\n", job.Plan.Cell, job.NotApplicable)
		default:
			plans = append(plans, job.Plan)
		}
	}
	if len(plans) == 0 {
		return nil, usage("there is nothing to sweep")
	}
	return plans, nil
}

// swept is the result of sweep, for programs.
type swept struct {
	Verdict ringproof.Verdict `json:"verdict"`
	Subject string            `json:"subject"`
	Cells   []*explore.Swept  `json:"cells"`
}

func sweep(c *cobra.Command, f searchFlags, s explore.Sweep, plans []ringproof.Plan) error {
	return f.within(c, plans, func(in searching) error {
		runner, err := in.runner(cmp.Or(f.jobs, runtime.NumCPU()))
		if err != nil {
			return err
		}
		s.Runner, s.Fits = runner, func(p ringproof.Plan) bool { return unable(p, in.place) == "" }
		return f.sweepAll(c, in, s, plans)
	})
}

func (f searchFlags) sweepAll(c *cobra.Command, in searching, s explore.Sweep, plans []ringproof.Plan) error {
	all := swept{Subject: f.subject, Verdict: ringproof.Pass}
	broken := false
	for _, plan := range plans {
		one, err := f.sweepOne(c, in, s, plan)
		if err != nil {
			return err
		}
		all.Cells = append(all.Cells, one)
		all.Verdict = ringproof.Merge(all.Verdict, one.Tally.Verdict())
		broken = broken || one.Tally.Broken()
		if c.Context().Err() != nil {
			break
		}
	}
	if f.asJSON {
		if err := printJSON(c.OutOrStdout(), all); err != nil {
			return err
		}
	}
	return concluded(c, all.Verdict, broken)
}

// sweepOne sweeps one plan and prints what came of it.
func (f searchFlags) sweepOne(c *cobra.Command, in searching, s explore.Sweep, plan ringproof.Plan) (*explore.Swept, error) {
	line := newLiveLine(c.ErrOrStderr())
	s.Plan = plan
	s.OnProgress = func(w *explore.Swept) { line.tell("%s: %s of %d", w.Cell, progressOf(w.Tally), w.Plans) }
	result, err := s.Run(c.Context())
	line.end()
	if errors.Is(err, context.Canceled) {
		return result, nil
	}
	if err != nil {
		return nil, environment(err)
	}
	if err := f.keep(c, in, s.Runner, result.Tally); err != nil {
		return nil, err
	}
	if f.asJSON {
		return result, nil
	}
	return result, printSwept(c.OutOrStdout(), result)
}

func printSwept(w io.Writer, s *explore.Swept) error {
	fmt.Fprintf(w, "%s: %s and %s\n", s.Cell, ringproof.Counted(s.Effects, "effect"), ringproof.Counted(s.Decisions, "decision"))
	if s.Plans == 0 {
		fmt.Fprintln(w, "it fails without another fault: there was nothing to sweep")
	} else {
		fmt.Fprintf(w, "%s: %s\n", ringproof.Counted(s.Plans, "plan"), pace(s.Tally))
		fmt.Fprintf(w, "left out: %d as another hits the same effect in the same state (--full), %d not drawn (--limit)%s%s\n", s.Pruned, s.Unsampled,
			leftOut(s.Unasked, "of another name (--at)"), leftOut(s.Unfit, "that this world can't do"))
		if err := printTable(w, []string{"EFFECT", "FAULT", "PLANS", "FAILED", "NOT REACHED", "SECONDS"}, rowsOfSweep(s)); err != nil {
			return err
		}
	}
	printTally(w, s.Tally)
	return nil
}

// leftOut says of how many faults there was none.
func leftOut(n int, why string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d %s", n, why)
}

func rowsOfSweep(s *explore.Swept) [][]string {
	var rows [][]string
	for _, r := range s.Rows {
		rows = append(rows, []string{r.At, r.How, fmt.Sprint(r.Plans), fmt.Sprint(r.Failed), fmt.Sprint(r.NotReached), fmt.Sprintf("%.1f", r.Seconds)})
	}
	return rows
}
