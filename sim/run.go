// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/run"
)

// Options are how a run is watched.
type Options struct {
	Version  string                // of ringproof, for the history
	Told     func(ringproof.Event) // each event as it happens; nil: nobody is told
	Trace    func(line string)     // the events of the engine from From up to To, a line each; nil: nobody is told
	From, To int
	Beat     func() // called after every 256 events, the same ones in each run of a plan; nil: nobody measures
}

// Run carries out the plan with the subject in a world of its own. The trace
// is the same for the same plan, subject and program. An error says that the
// run could not be carried out; a ring that did wrong is a history for the
// checks.
func Run(ctx context.Context, plan ringproof.Plan, s Subject, o Options) (h ringproof.History, trace Trace, err error) {
	w := New(plan.Seed, s)
	w.Version = o.Version
	w.Trace.Told, w.Trace.From, w.Trace.To = o.Trace, o.From, o.To
	w.engine.beat = o.Beat
	var failed error
	err = w.Drive(ctx, func(ctx context.Context) { h, failed = run.Run(ctx, plan, w, run.Options{Told: o.Told}) })
	if err == nil {
		err = failed
	}
	if err == nil {
		h.Measures = map[string]float64{"simulatedSeconds": w.Now().Seconds(), "simulatedEvents": float64(w.Trace.Events)}
		h.Trace = w.Traced()
	}
	return h, w.Trace, err
}
