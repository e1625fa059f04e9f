// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/harness/explore"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/reports"
)

// abroad runs plans of a search in a world that isn't the simulated one. Each plan's world
// is processes of its own, so this process runs several.
type abroad struct {
	runFlags
	releases map[string]etcdbin.Release
	abreast  int                   // worlds at once
	told     func(explore.Outcome) // of each, as it ends; one at a time
}

var _ explore.Runner = abroad{}

// Run runs the jobs, so many at once.
func (a abroad) Run(ctx context.Context, jobs []explore.Job) []explore.Result {
	results := make([]explore.Result, len(jobs))
	free := make(chan struct{}, max(1, a.abreast))
	var all sync.WaitGroup
	var mu sync.Mutex
	for i, job := range jobs {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			results[i] = a.run(ctx, job)
			mu.Lock()
			defer mu.Unlock()
			a.told(results[i].Outcome)
		})
	}
	all.Wait()
	for i, job := range jobs {
		results[i] = a.again(ctx, job, results[i])
	}
	return results
}

// again runs a plan once more, with nothing beside it, that failed in real time by how long
// something took: a slow host may have failed it, and a search that believes it follows the
// host, and not the subject.
func (a abroad) again(ctx context.Context, job explore.Job, first explore.Result) explore.Result {
	if a.in().Repeatable || first.Err != nil || !slices.ContainsFunc(first.Outcome.Findings, timed) {
		return first
	}
	second := a.run(ctx, job)
	first.Err, first.Outcome = second.Err, agreed(first.Outcome, second.Outcome)
	return first
}

// timed reports whether the finding fails a run by how long something took.
func timed(f ringproof.Finding) bool { return f.Verdict == ringproof.Fail && !checks.Proves(f) }

// agreed is the first of two runs of a plan. What fails it by time counts only if it fails
// the second too.
func agreed(first, second explore.Outcome) explore.Outcome {
	failed := map[string]bool{}
	for _, f := range second.Findings {
		failed[explore.Key(f)] = f.Verdict == ringproof.Fail
	}
	first.Findings = slices.Clone(first.Findings)
	first.Verdict = ringproof.Pass
	for i, f := range first.Findings {
		if timed(f) && !failed[explore.Key(f)] {
			first.Findings[i].Verdict = ringproof.Inconclusive
		}
		first.Verdict = ringproof.Merge(first.Verdict, first.Findings[i].Verdict)
	}
	return first
}

// run runs one plan. A world that broke, or never ended, has judged nothing of it.
func (a abroad) run(ctx context.Context, job explore.Job) explore.Result {
	if ctx.Err() != nil {
		return explore.Result{Err: ctx.Err()}
	}
	began, trace := time.Now(), traced{o: job.Options}
	out, err := a.carryOut(ctx, job, &trace)
	switch {
	case ctx.Err() != nil:
		return explore.Result{Err: ctx.Err()}
	case err != nil:
		out.Verdict, out.Findings = ringproof.Inconclusive, []ringproof.Finding{{Check: "run", Verdict: ringproof.Inconclusive, Message: err.Error()}}
	}
	out.WallSeconds, out.Events, out.Marks, out.TraceLines = time.Since(began).Seconds(), trace.lines, trace.marks, trace.kept
	return explore.Result{Outcome: out}
}

func (a abroad) carryOut(ctx context.Context, job explore.Job, trace *traced) (out explore.Outcome, err error) {
	w, err := a.enter(job.Plan, a.releases, trace.add)
	if err != nil {
		return out, err
	}
	var journal json.RawMessage
	if job.Options.Journal {
		in, ok := w.(recording)
		if !ok {
			return out, fmt.Errorf("%w: the %s world has no subject keep a journal, so that no fault can be put at each of its effects: sweep in another", errors.ErrUnsupported, a.world)
		}
		in.Record(&journal)
	}
	h, err := harness.Run(ctx, job.Plan, w, harness.Options{Seen: func(w ringproof.World) ringproof.World { return a.seen(job.Plan, w) }})
	if err != nil {
		return out, err
	}
	if out.Hash, err = hashOf(h.Trace); err != nil {
		return out, fmt.Errorf("the trace of the run is no hash: %w", err)
	}
	out.Findings = checks.Judge(&h)
	cell := reports.CellOf(&h, out.Findings)
	out.Verdict, out.Reached, out.Tuples = cell.Verdict, cell.Reached, explore.Tuples(&h)
	if n := len(h.Events); n > 0 {
		out.SimSeconds = h.Events[n-1].At.Seconds()
	}
	if journal != nil {
		if err := json.Unmarshal(journal, &out.Journal); err != nil {
			return out, fmt.Errorf("the journal of the run: %w", err)
		}
	}
	return out, keep(job.Options.Keep, &h)
}

// hashOf reads a trace; a run in real time has none.
func hashOf(trace string) (uint64, error) {
	if trace == "" {
		return 0, nil
	}
	return strconv.ParseUint(trace, 16, 64)
}

// recording is a world that can have its subject keep a journal, which is told in JSON.
type recording interface{ Record(into *json.RawMessage) }

// traced is what is kept of a trace while it is made: a mark now and then, and the lines
// that are asked for.
type traced struct {
	o     explore.Options
	lines int
	marks []uint64
	kept  []string
	sum   uint64
}

func (t *traced) add(line string) {
	t.lines++
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%x %s", t.sum, line) // a hash takes everything
	t.sum = h.Sum64()
	if t.lines%explore.MarkEvery == 0 {
		t.marks = append(t.marks, t.sum)
	}
	if t.lines >= t.o.TraceFrom && t.lines < t.o.TraceTo {
		t.kept = append(t.kept, line)
	}
}

// searching is where a search runs its plans.
type searching struct {
	runner   func(abreast int) (explore.Runner, error) // so many plans at once; it is closed for the search
	place    place
	flags    []string      // that have a plan replayed there
	patience time.Duration // for making one plan small; 0: the usual
}

// within makes the world ready that the flags name, for whoever is on trial in the first of
// the plans and for the releases of all, and has work search in it.
func (f *searchFlags) within(c *cobra.Command, plans []ringproof.Plan, work func(searching) error) error {
	in, err := f.worldOf(f.world)
	if err != nil {
		return err
	}
	if in.Simulated {
		if err := f.simulatable(plans[0]); err != nil {
			return err
		}
		return simulated(in, work)
	}
	if !in.Repeatable && !f.realTime {
		return usage("--world %s: no run there is the same as another, so no plan is drawn or swept there: run the scenarios", f.world)
	}
	of := runFlags{program: f.program, world: f.world, subject: f.subject, out: f.out, jobs: f.jobs}
	who, err := of.trial(io.Discard, plans[0])
	if err != nil {
		return err
	}
	var jobs []harness.Job
	for _, p := range plans {
		jobs = append(jobs, harness.Job{Plan: p})
	}
	return enclosed(c, of, jobs, func(of runFlags, releases map[string]etcdbin.Release) error {
		f.out, f.jobs = of.out, of.jobs
		told := tellEach(newLiveLine(c.ErrOrStderr()))
		return work(searching{place: place{in, who}, flags: []string{"--world", f.world}, patience: shrinkAbroad,
			runner: func(abreast int) (explore.Runner, error) { return abroad{of, releases, abreast, told}, nil }})
	})
}

// tellEach tells of each plan that was run: there are seconds between two.
func tellEach(line *liveLine) func(explore.Outcome) {
	var mu sync.Mutex
	runs, failed := 0, 0
	return func(o explore.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		runs++
		if o.Verdict == ringproof.Fail {
			failed++
		}
		line.tell("%s, %d failed, the last in %.1fs", ringproof.Counted(runs, "run"), failed, o.WallSeconds)
	}
}

// shrinkAbroad is how long a plan may take to be made small where a run takes seconds.
const shrinkAbroad = 10 * time.Minute

// simulated has work search in the simulated world, in processes that end with it.
func simulated(in World, work func(searching) error) error {
	var pools []*explore.Pool
	defer func() {
		for _, p := range pools {
			p.Close()
		}
	}()
	return work(searching{place: place{World: in}, runner: func(abreast int) (explore.Runner, error) {
		p, err := newPool(abreast)
		if err == nil {
			pools = append(pools, p)
		}
		return p, err
	}})
}
