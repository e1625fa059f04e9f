// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/internal/explore"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/reports"
	"github.com/ringproof/ringproof/scenarios"
	"github.com/ringproof/ringproof/sim"
)

// simulate runs one plan in the simulated world, in this process, and judges it.
func simulate(ctx context.Context, plan ringproof.Plan, o explore.Options) (explore.Outcome, error) {
	s, err := simulated(plan)
	if err != nil {
		return explore.Outcome{}, err
	}
	var out explore.Outcome
	watch := sim.Options{Version: version(), From: o.TraceFrom, To: o.TraceTo}
	if o.TraceTo > 0 {
		watch.Trace = func(line string) { out.TraceLines = append(out.TraceLines, line) }
	}
	if o.Journal {
		s.Journal = &subject.Journal{}
		plan.Steps = append([]ringproof.Step{probe()}, plan.Steps...)
	}
	began := time.Now()
	h, trace, err := sim.Run(ctx, plan, s, watch)
	if err != nil {
		return out, fmt.Errorf("%s: %w", plan.Cell, err)
	}
	out.Findings = checks.Judge(&h)
	out.Verdict = reports.CellOf(&h, out.Findings).Verdict
	out.WallSeconds, out.SimSeconds = time.Since(began).Seconds(), h.Measures["simulatedSeconds"]
	out.Hash, out.Events, out.Marks = trace.Hash, trace.Events, trace.Marks
	out.Tuples = explore.Tuples(&h)
	if o.Journal {
		out.Journal = journalled(s.Journal)
	}
	return out, keep(o.Keep, &h)
}

// probe is where a sweep sets its harm: from then on effects are counted.
func probe() ringproof.Step {
	f := subject.Probe()
	return ringproof.Step{Name: "probe", After: &ringproof.Trigger{Event: ringproof.EventRunBegins}, Fault: &f, Detach: true}
}

// journalled is the journal as a sweep reads it. What the ring was is what had been
// decided by then: cuts of one effect between the same two changes are alike.
func journalled(j *subject.Journal) *explore.Journal {
	var all explore.Journal
	for _, e := range j.Effects {
		all.Effects = append(all.Effects, explore.Effect{Machine: e.Machine, Name: e.Name, Nth: e.Nth, Done: e.Done, State: fmt.Sprint(e.Acts)})
	}
	for _, d := range j.Decisions {
		all.Decisions = append(all.Decisions, explore.Decision{Machine: d.Machine, What: d.Name, Nth: d.Nth, State: fmt.Sprint(d.Acts, " ", d.Said)})
	}
	return &all
}

// keep writes plan and history into the directory; "": nowhere.
func keep(dir string, h *ringproof.History) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	plan, err := os.Create(filepath.Join(dir, "plan.yaml"))
	if err != nil {
		return err
	}
	if err := errors.Join(scenarios.WritePlan(plan, h.Plan), plan.Close()); err != nil {
		return err
	}
	history, err := os.Create(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return err
	}
	return errors.Join(h.Write(history), history.Close())
}
