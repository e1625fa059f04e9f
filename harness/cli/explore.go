// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness/explore"
)

// searchFlags are the flags of the commands that search.
type searchFlags struct {
	*program
	world   string
	subject string
	out     string
	jobs    int
	asJSON  bool

	realTime bool // a plan may run where no run is the same as another
}

func (f *searchFlags) add(c *cobra.Command) {
	f.world = f.Worlds[0].Name
	c.Flags().StringVar(&f.subject, "subject", f.own().Name, "what is on trial: "+f.subjects()+seeMutants(f.own()))
	c.Flags().StringVar(&f.out, "out", "", "directory for what is found (default out/TIME)")
	c.Flags().IntVar(&f.jobs, "jobs", 0, "worker processes (default one a processor)")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the result as JSON")
}

// addWorld is for commands that search in other worlds than the first, too.
func (f *searchFlags) addWorld(c *cobra.Command) {
	c.Flags().StringVar(&f.world, "world", f.world, "where to run the plans, a world in which each is the same in every run: "+choices(f.repeatable()))
}

func (p *program) exploreCommand() *cobra.Command {
	f := searchFlags{program: p}
	var s explore.Search
	var length time.Duration
	c := &cobra.Command{
		Use:   "explore",
		Short: "draw plans from seeds, run them in virtual time, and make small what fails",
		Long: `explore draws one plan a seed: a ring, a workload, operations, and faults that a
correct subject survives, as the fairness ledger sees it; some are disasters, in
which the subject must halt. Each is run in the simulated world, or with --world
virtual on real etcd in virtual time, and judged.

Every distinct finding, a check and the kind of thing it says, is shrunk to a
minimal plan and saved in --out, with the line that replays it; so are the plans
of runs that could not be judged, as they were drawn.

With --novelty half of the plans vary those that showed a new situation: what
the subject did, how near the ring was to losing its quorum, which faults were in
force, and what the ring was about. With --verify-determinism each plan runs
again in another process, and both must leave the same trace.

--on kubernetes draws rings in pods, and faults of pods, volumes, nodes, controllers and
the control plane; that takes --world virtual.

Exit codes: 0 nothing found; 1 a finding; 3 a run could not be judged; 130 or 143
the search was interrupted; 5 a bug of ringproof itself: a worker died or hung, or
two runs of a plan differ.`,
		Example: `  ringproof explore --for 10m
  ringproof explore --runs 10000 --verify-determinism
  ringproof explore --subject reference+voter-first --runs 200`,
		Args:    none,
		PreRunE: func(c *cobra.Command, _ []string) error { return counts(c, "jobs", "runs") },
		RunE: func(c *cobra.Command, _ []string) error {
			if s.On != "" && s.On != ringproof.OnKubernetes {
				return usage("--on %s: rings are on %s, or on machines when it is empty", s.On, ringproof.OnKubernetes)
			}
			if c.Flags().Changed("for") && length <= 0 {
				return usage("--for %s: write how long to search, as 10m", length)
			}
			if !c.Flags().Changed("runs") && length > 0 {
				s.Runs = 0
			}
			return search(c, f, s, length)
		},
	}
	f.add(c)
	f.addWorld(c)
	c.Flags().Lookup("subject").Usage += "; with --world virtual the file of an operator, too (docs/subjects.md)"
	c.Flags().IntVar(&s.Runs, "runs", 1000, "how many plans; with --for alone as many as there is time for")
	c.Flags().DurationVar(&length, "for", 0, "how long to search, as 10m")
	c.Flags().Uint64Var(&s.Seed, "seed", 1, "seed of the first plan; the next has the next")
	c.Flags().StringVar(&s.On, "on", "", "kubernetes: draw rings in pods, with what happens to a cluster; empty: on machines")
	c.Flags().BoolVar(&s.Novelty, "novelty", false, "vary the plans that showed something new")
	c.Flags().BoolVar(&s.Verify, "verify-determinism", false, "run each plan again in another process, and compare")
	return c
}

// search runs the search, and then shrinks and saves what it found.
func search(c *cobra.Command, f searchFlags, s explore.Search, length time.Duration) error {
	who, err := f.contending(c.ErrOrStderr(), f.subject)
	if err != nil {
		return err
	}
	if who.on() == ringproof.OnKubernetes {
		s.On = ringproof.OnKubernetes
	}
	return f.within(c, explore.Releases(f.subject, s.On), func(in searching) error {
		s.Subject = f.subject
		abreast, err := f.workers(in, &s)
		if err != nil {
			return err
		}
		if s.Runner, err = in.runner(abreast); err != nil {
			return err
		}
		s.Fit = who.fit(in.place)
		line := newLiveLine(c.ErrOrStderr())
		s.OnRound = func(t *explore.Tally) { line.tell("%s", progressOf(t)) }
		ctx, cancel := limited(c.Context(), length)
		defer cancel()
		tally, err := s.Run(ctx)
		line.end()
		if err != nil {
			return environment(err)
		}
		if err := f.keep(c, in, s.Runner, tally); err != nil {
			return err
		}
		return f.told(c, tally, exploration{tally.Verdict(), f.subject, s.Verify, perSecond(tally), tally}, func(w io.Writer) {
			fmt.Fprintf(w, "explored %s from seed %d: %s\n", ringproof.Counted(tally.Runs, "plan"), s.Seed, pace(tally))
			if tally.LeftOut > 0 {
				fmt.Fprintf(w, "left out: %s that %s can't be tried on\n", ringproof.Counted(tally.LeftOut, "plan"), f.subject)
			}
			fmt.Fprintf(w, "situations of the subject: %d, of which %d were new in the last 1000 runs\n", tally.Tuples, tally.NewLately)
		})
	})
}

// workers is how many run plans; if each is to run twice, others do that at the same time.
func (f searchFlags) workers(in searching, s *explore.Search) (abreast int, err error) {
	abreast = cmp.Or(f.jobs, runtime.NumCPU())
	if !s.Verify {
		return abreast, nil
	}
	s.Mirror, err = in.runner(max(1, abreast/2))
	return max(1, abreast-abreast/2), err
}

// exploration is the result of explore, for programs.
type exploration struct {
	Verdict          ringproof.Verdict `json:"verdict"`
	Subject          string            `json:"subject"`
	Verified         bool              `json:"verified"` // each plan ran twice
	SimulatedPerWall float64           `json:"simulatedPerWall"`
	*explore.Tally
}

// limited is ctx with an end; 0 is none.
func limited(ctx context.Context, length time.Duration) (context.Context, context.CancelFunc) {
	if length == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, length)
}

func progressOf(t *explore.Tally) string {
	return fmt.Sprintf("%s, %.0f simulated seconds (%.0f a second), %s, %d inconclusive, %s in the last 1000 runs",
		ringproof.Counted(t.Runs, "run"), t.SimSeconds, perSecond(t), ringproof.Counted(len(t.Findings), "finding"), len(t.Inconclusive), ringproof.Counted(t.NewLately, "new situation"))
}

func perSecond(t *explore.Tally) float64 { return t.SimSeconds / max(t.WallSeconds, 1e-3) }

func pace(t *explore.Tally) string {
	return fmt.Sprintf("%.0f simulated seconds in %.1fs, %.0f a second", t.SimSeconds, t.WallSeconds, perSecond(t))
}

// mostShrunk bounds what a broken subject costs: its first findings tell.
const mostShrunk = 10

// keep shrinks and saves the findings, and saves the plans that could not be judged.
func (f searchFlags) keep(c *cobra.Command, in searching, runner explore.Runner, t *explore.Tally) error {
	if f.out == "" {
		f.out = outNow()
	}
	line := newLiveLine(c.ErrOrStderr())
	defer line.end()
	first := t.Findings[:min(mostShrunk, len(t.Findings))]
	err := explore.Shrinker{Runner: runner, For: in.patience}.ShrinkAll(c.Context(), first, func(found *explore.Found) {
		line.tell("%s shrunk from %s to %d in %s", found.Key, ringproof.Counted(len(found.Plan.Steps), "step"), found.Shrunk.Steps, ringproof.Counted(found.Shrunk.Runs, "run"))
	})
	for _, found := range t.Findings {
		err = errors.Join(err, found.Save(c.Context(), runner, f.out, in.flags...))
	}
	for i := range t.Inconclusive {
		err = errors.Join(err, t.Inconclusive[i].Save(f.out, in.flags...))
	}
	return environment(err)
}

// told prints the result, and ends with its verdict.
func (f searchFlags) told(c *cobra.Command, t *explore.Tally, asJSON any, head func(io.Writer)) error {
	if f.asJSON {
		if err := printJSON(c.OutOrStdout(), asJSON); err != nil {
			return err
		}
	} else {
		head(c.OutOrStdout())
		printTally(c.OutOrStdout(), t)
	}
	return concluded(c, t.Verdict(), t.Broken())
}

// concluded is the end of a search: its verdict, or the interruption.
func concluded(c *cobra.Command, v ringproof.Verdict, broken bool) error {
	switch {
	case broken:
		return failure{exitBug, errors.New("a bug of ringproof itself: until it is mended no other finding can be trusted")}
	case v == ringproof.Fail:
		return errVerdict{v}
	case c.Context().Err() != nil:
		return c.Context().Err()
	case v != ringproof.Pass:
		return errVerdict{v}
	}
	return nil
}

// mostListed is how many inconclusive runs are listed; JSON has them all.
const mostListed = 10

func printTally(w io.Writer, t *explore.Tally) {
	fmt.Fprintf(w, "inconclusive: %d\n", len(t.Inconclusive))
	for i, u := range t.Inconclusive {
		if i == mostListed {
			fmt.Fprintf(w, "  and %d more; --json lists them all\n", len(t.Inconclusive)-i)
			break
		}
		fmt.Fprintf(w, "  %s  %s\n", u.Cell, u.Why)
		if u.Replay != "" {
			fmt.Fprintf(w, "    replay: %s\n", u.Replay)
		}
	}
	fmt.Fprintf(w, "findings: %d\n", len(t.Findings))
	for _, f := range t.Findings {
		printFound(w, f)
	}
	for _, d := range t.Divergences {
		fmt.Fprintf(w, "%s ran differently in two processes: %s and %s\n", d.Cell, d.Hashes[0], d.Hashes[1])
		if d.Lines[0]+d.Lines[1] != "" {
			fmt.Fprintf(w, "  first different event\n    %s\n    %s\n", d.Lines[0], d.Lines[1])
		}
		if d.Note != "" {
			fmt.Fprintf(w, "  %s\n", d.Note)
		}
	}
}

func printFound(w io.Writer, f *explore.Found) {
	fmt.Fprintf(w, "  %s  in %s, first with seed %d\n    %s\n", f.Key, ringproof.Counted(f.Count, "run"), f.Seed, f.Finding.Message)
	if s := f.Shrunk; s != nil {
		fmt.Fprintf(w, "    %s, %s, after %s\n", ringproof.Counted(s.Steps, "step"), ringproof.Counted(s.Faults, "fault"), ringproof.Counted(s.Runs, "run"))
	}
	if f.Replay != "" {
		fmt.Fprintf(w, "    replay: %s\n", f.Replay)
	}
}
