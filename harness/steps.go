// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

const (
	defaultTimeout = 60 * time.Second
	findWithin     = 10 * time.Second
	askAgain       = time.Second // after an operation that could not be carried out
)

// ledger is the faults' ledger, fed by the observer and the record, asked by
// the steps.
type ledger struct {
	record *record

	mu    sync.Mutex
	truth *faults.Ledger
	read  int // of the record
}

func (l *ledger) Observe(o ringproof.Observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note()
	l.truth.Observe(o)
}

func (l *ledger) Want(voters int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.truth.Want(voters)
}

func (l *ledger) Leave(machines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.truth.Leave(machines)
}

func (l *ledger) Admit(f ringproof.Fault, targets []string) (ringproof.Fault, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note()
	return l.truth.Admit(f, targets)
}

func (l *ledger) tooEarly(f ringproof.Fault, targets []string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note()
	return l.truth.TooEarly(f, targets)
}

func (l *ledger) Timeline() []ringproof.Budget {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note()
	return l.truth.Timeline()
}

func (l *ledger) note() {
	events, next := l.record.since(l.read)
	l.read = next
	for _, e := range events {
		l.truth.Note(e)
	}
}

// steps carries out the plan's steps in order. A step that fails, or can't be
// tried, is recorded and the next is carried out.
func (r *runner) steps(ctx context.Context) error {
	previous := r.record.mark()
	for _, s := range r.plan.Steps {
		if s.Early() {
			continue
		}
		from := previous
		if s.After != nil {
			if err := r.await(ctx, s, from); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				r.miss(s, err)
				continue
			}
		}
		if err := r.join(ctx, s); err != nil {
			return err
		}
		previous = r.record.mark()
		r.mark(s) // here, not in its task: the next step may join it at once
		if s.Detach {
			r.world.Go(ctx, "step "+s.Name, func(ctx context.Context) { r.step(ctx, s) })
			if err := r.inOrder(ctx, s); err != nil {
				return err
			}
			continue
		}
		r.step(ctx, s)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return r.join(ctx, ringproof.Step{Join: r.detached()})
}

// inOrder waits until a detached request has been taken, or refused: what the
// ring ends as is what was asked for last, so requests are made in the order of
// the plan. Only their fulfilment overlaps. Of two rivals who comes first is
// nobody's to say, and what is asked after them waits for both.
func (r *runner) inOrder(ctx context.Context, s ringproof.Step) error {
	if s.Op == nil || s.Op.Rival || s.Op.Kind == ringproof.OpAsk || restarts(s.Op.Kind) {
		return nil
	}
	return r.wait(ctx, defaultTimeout, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !slices.ContainsFunc(r.plan.Steps, func(other ringproof.Step) bool {
			due := other.Name == s.Name || other.Op != nil && other.Op.Rival && r.begun[other.Name]
			_, asked := r.asked[other.Name]
			return due && !asked && !r.done[other.Name]
		})
	})
}

func (r *runner) detached() []string {
	var names []string
	for _, s := range r.plan.Steps {
		if s.Detach || s.Early() {
			names = append(names, s.Name)
		}
	}
	return names
}

// await waits for the step's trigger among the events since the step before
// it began. What it waits for of a step that began with the run may have come before the
// ring did, and so before any other step.
func (r *runner) await(ctx context.Context, s ringproof.Step, from int) error {
	t := *s.After
	if slices.ContainsFunc(r.plan.Steps, func(early ringproof.Step) bool { return early.Name == t.Step && early.Early() }) {
		from = 0
	}
	within := t.Timeout.Std()
	if within == 0 {
		within = defaultTimeout
	}
	met := false
	if err := r.wait(ctx, within, func() bool { met = r.met(t, from); return met }); err != nil {
		return err
	}
	if !met {
		return fmt.Errorf("no %s within %v: %w", t, within, errTimeout)
	}
	return r.world.Sleep(ctx, t.Delay.Std())
}

func (r *runner) met(t ringproof.Trigger, from int) bool {
	n := r.record.count(from, func(e *ringproof.Event) bool {
		return e.Kind == t.Event && (t.Step == "" || t.Step == e.Step) && (t.Action == "" || t.Action == e.Action)
	})
	return n >= max(t.Nth, 1)
}

// join waits for detached steps.
func (r *runner) join(ctx context.Context, s ringproof.Step) error {
	return r.wait(ctx, 10*time.Minute, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, name := range s.Join {
			// One whose trigger never came is not waited for.
			if r.begun[name] && !r.done[name] {
				return false
			}
		}
		return true
	})
}

func (r *runner) mark(s ringproof.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[s.Name] = true
}

// step carries out one step and records how it ended.
func (r *runner) step(ctx context.Context, s ringproof.Step) {
	r.record.Record(ringproof.Event{Kind: ringproof.EventStepBegun, Step: s.Name, Text: s.String()})
	within := s.Timeout.Std()
	if within == 0 {
		within = defaultTimeout
	}
	acting, cancel := r.deadline(ctx, within)
	defer cancel()
	var err error
	switch {
	case s.Op != nil:
		err = r.op(acting, s, within)
	case s.Fault != nil:
		err = r.inject(ctx, acting, s)
	case s.Assert != nil:
		err = r.assert(ctx, s)
	}
	if ctx.Err() != nil {
		err = ctx.Err() // the run is over: what is owed was not given its time
	}
	var owed shortfall
	switch {
	case errors.As(err, &owed):
		r.end(s)
		r.record.Record(ringproof.Event{Kind: ringproof.EventStepFailed, Step: s.Name, Machine: r.about(s), Text: err.Error()})
	case err != nil:
		r.miss(s, err)
	default:
		r.end(s)
		r.record.Record(ringproof.Event{Kind: ringproof.EventStepDone, Step: s.Name, Machine: r.about(s)})
	}
}

// about is the one machine that a step asked about, or "".
func (r *runner) about(s ringproof.Step) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if asked := r.asked[s.Name]; len(asked) == 1 {
		return asked[0]
	}
	return ""
}

// shortfall is what the subject owes at the end of a step: what was expected,
// and what was seen. Any other error of a step says nothing of the subject.
type shortfall struct{ text string }

func (s shortfall) Error() string { return s.text }

func short(format string, args ...any) error { return shortfall{fmt.Sprintf(format, args...)} }

// miss records that the step could not be tried.
func (r *runner) miss(s ringproof.Step, err error) {
	r.end(s)
	r.record.Record(ringproof.Event{Kind: ringproof.EventStepMissed, Step: s.Name, Text: err.Error()})
}

func (r *runner) end(s ringproof.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[s.Name] = true
}
