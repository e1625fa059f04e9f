// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

// Options are how a world is watched while a plan runs in it, and how exact it is. The
// zero value is a world that nobody watches.
type Options struct {
	Version  string            // of ringproof, for the history
	Trace    func(line string) // the events of the engine from From up to To, a line each; nil: nobody is told
	From, To int
	Exact    bool // nothing is left out that exists for speed alone
}

// Open returns the world of one plan, with the subject in it. The trace of a run there
// is the same for the same plan, subject and program.
func Open(seed uint64, s Subject, o Options) *World {
	w := New(seed, s)
	w.exact(o.Exact)
	w.Version = o.Version
	w.Trace.OnLine, w.Trace.From, w.Trace.To = o.Trace, o.From, o.To
	return w
}

// Measures are the figures of a run, once it is over.
func (w *World) Measures() map[string]float64 {
	return map[string]float64{"simulatedSeconds": w.Now().Seconds(), "simulatedEvents": float64(w.Trace.Events)}
}
