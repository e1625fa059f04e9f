// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/harness/explore"
	"github.com/ringproof/ringproof/reports"
	"github.com/ringproof/ringproof/scenarios"
	"github.com/ringproof/ringproof/sim"
)

// Sim is the simulated world, for subjects that have a way [InSim].
func Sim() World {
	return World{
		Name:      "sim",
		Doc:       "the subject's own code on simulated machines, network, disks and etcd, in virtual time, the same in every run of a plan",
		Needs:     "nothing",
		Short:     "simulated, in virtual time",
		Simulated: true,
		Takes:     simulatable,
		Supports:  sim.Supports,
		Runs:      sim.Runs,
		Open: func(t Trial) (ringproof.World, error) {
			w, err := t.simulated(sim.Options{})
			if err != nil {
				return nil, err
			}
			return w, nil
		},
	}
}

// simulatable refuses who can't be put into the simulated world.
func simulatable(s Subject) error {
	if _, ok := As[InSim](s); !ok {
		return fmt.Errorf("%s can't be simulated: it has no way into the simulated world", s.Name)
	}
	return nil
}

// simulated is the trial's world, if it is the simulated one.
func (t Trial) simulated(o sim.Options) (*sim.World, error) {
	way, ok := As[InSim](t.Subject)
	if !ok {
		return nil, simulatable(t.Subject)
	}
	s, err := way(t.Mutants)
	if err != nil {
		return nil, err
	}
	o.Version = t.Version
	return sim.Open(t.Plan.Seed, s, o), nil
}

// seen is what the trial's run sees in its world's place.
func (t Trial) seen(w ringproof.World) ringproof.World {
	if t.Subject.Seen == nil {
		return w
	}
	return t.Subject.Seen(t.Plan, w)
}

// trial is the plan with who is on trial in it.
func (r Registry) trial(plan ringproof.Plan) (Trial, error) {
	s, planted, err := r.parse(plan.Subject)
	t := Trial{Plan: plan, Subject: s, Version: version()}
	for _, m := range planted {
		t.Mutants = append(t.Mutants, m.Name)
	}
	return t, err
}

// Simulate runs one plan in the simulated world, in this process, and judges it. One
// runs at a time: raft's chance is a variable of the whole program.
func (r Registry) Simulate(ctx context.Context, plan ringproof.Plan, o explore.Options) (explore.Outcome, error) {
	t, err := r.trial(plan)
	if err != nil {
		return explore.Outcome{}, err
	}
	var out explore.Outcome
	watch := sim.Options{From: o.TraceFrom, To: o.TraceTo}
	if o.TraceTo > 0 {
		watch.Trace = func(line string) { out.TraceLines = append(out.TraceLines, line) }
	}
	w, err := t.simulated(watch)
	if err != nil {
		return explore.Outcome{}, err
	}
	journal, err := journalled(&t.Plan, w.Subject, o.Journal)
	if err != nil {
		return explore.Outcome{}, err
	}
	began := time.Now()
	h, err := harness.Run(ctx, t.Plan, w, harness.Options{Seen: t.seen})
	if err != nil {
		return out, fmt.Errorf("%s: %w", plan.Cell, err)
	}
	h.Measures = w.Measures()
	out.Findings = checks.Judge(&h)
	cell := reports.CellOf(&h, out.Findings)
	out.Verdict, out.Reached = cell.Verdict, cell.Reached
	out.WallSeconds, out.SimSeconds = time.Since(began).Seconds(), w.Now().Seconds()
	out.Hash, out.Events, out.Marks = w.Trace.Hash, w.Trace.Events, w.Trace.Marks
	out.Tuples = explore.Tuples(&h)
	if out.Journal, err = journal(); err != nil {
		return out, err
	}
	return out, keep(o.Keep, &h)
}

// journalled has the subject keep a journal, if that is wanted, and returns how it is read
// in the end.
func journalled(plan *ringproof.Plan, subject any, wanted bool) (func() (*ringproof.Journal, error), error) {
	if !wanted {
		return func() (*ringproof.Journal, error) { return nil, nil }, nil
	}
	j, ok := subject.(Journalling)
	if !ok {
		return nil, fmt.Errorf("%w: %s tells of none of its effects, so that no fault can be put at each of them", errors.ErrUnsupported, plan.Subject)
	}
	probe := j.Begin()
	plan.Steps = append([]ringproof.Step{{Name: "probe", After: &ringproof.Trigger{Event: ringproof.EventRunBegins}, Fault: &probe, Detach: true}}, plan.Steps...)
	return j.Journal, nil
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
