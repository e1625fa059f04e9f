// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"sync"

	"github.com/ringproof/ringproof"
)

// A check of etcd itself can't be tried by a mistake of the reference: no
// automation makes etcd answer from the past. So some mutants lie beneath the
// reference, between the world and the run that looks at it: the ring is a right
// one, and a part of what is seen of it is what a wrong one would show. They are
// the same in every world.

// flaw is what a mutant beneath does otherwise. A nil function leaves its part
// alone; each says by [beneath.did] that it did wrong.
type flaw struct {
	instead  func(r ringproof.Request) ringproof.Request // what etcd does when it is asked for r
	answer   func(w *beneath, asked question, a *ringproof.Response)
	watched  func(w *beneath, e *ringproof.WatchEvent) (shown bool)
	event    func(w *beneath, e *ringproof.Event)
	done     func(ctx context.Context, w *beneath, s ringproof.Step, targets []string) (evidence string, err error)
	over     func(ctx context.Context, w *beneath) // the clients have ended, and nothing was read yet
	evidence func(w *beneath, e *ringproof.Evidence)
}

// question is a request that was answered, and by which machine.
type question struct {
	ringproof.Request
	machine string
}

// Beneath puts the mutants that the plan's subject names, and that lie beneath
// the reference, around the world.
func Beneath(p ringproof.Plan, w ringproof.World) ringproof.World {
	mutants, err := Parse(p.Subject)
	if err != nil {
		return w // whoever made the subject has refused it
	}
	for _, m := range mutants {
		if m.flaw != nil {
			w = &beneath{World: w, flaw: m.flaw(), mutant: m.Name}
		}
	}
	return w
}

// beneath is a world with a flaw.
type beneath struct {
	ringproof.World
	flaw
	mutant   string
	recorder ringproof.Recorder

	mu   sync.Mutex // over the flaw's own memory: clients ask at the same time
	told bool
}

// did tells, once, that the flaw showed.
func (w *beneath) did() {
	if !w.told {
		w.told = true
		w.recorder.Record(ringproof.Event{Kind: ringproof.EventMutantReached, Text: w.mutant})
	}
}

// Start brings the world up, and hears what it tells.
func (w *beneath) Start(ctx context.Context, p ringproof.Plan, r ringproof.Recorder) error {
	w.recorder = r
	if w.event != nil {
		r = recorder{r, w}
	}
	return w.World.Start(ctx, p, r)
}

// recorder passes events on as the flaw has them.
type recorder struct {
	ringproof.Recorder
	world *beneath
}

func (r recorder) Record(e ringproof.Event) {
	r.world.event(r.world, &e)
	r.Recorder.Record(e)
}

// Do carries out a step, or what the flaw makes of it.
func (w *beneath) Do(ctx context.Context, s ringproof.Step, targets []string) (string, error) {
	if w.done != nil {
		return w.done(ctx, w, s, targets)
	}
	return w.World.Do(ctx, s, targets)
}

// Evidence reads what there is at the end.
func (w *beneath) Evidence(ctx context.Context) (ringproof.Evidence, error) {
	if w.over != nil {
		w.over(ctx, w)
	}
	e, err := w.World.Evidence(ctx)
	if w.evidence != nil {
		w.evidence(w, &e)
	}
	return e, err
}

// Client opens client i.
func (w *beneath) Client(ctx context.Context, i int) (ringproof.Client, error) {
	c, err := w.World.Client(ctx, i)
	if err != nil {
		return nil, err
	}
	return client{c, w}, nil
}

// client is one that a flawed etcd answers.
type client struct {
	ringproof.Client
	world *beneath
}

func (c client) Do(ctx context.Context, r ringproof.Request) (ringproof.Response, error) {
	does := r
	if c.world.instead != nil {
		does = c.world.instead(r)
	}
	a, err := c.Client.Do(ctx, does)
	if err == nil && c.world.answer != nil {
		c.world.mu.Lock()
		defer c.world.mu.Unlock()
		c.world.answer(c.world, question{r, c.Endpoint()}, &a)
	}
	return a, err
}

func (c client) Watch(ctx context.Context, prefix string, start int64, see func(ringproof.WatchEvent)) error {
	if c.world.watched == nil {
		return c.Client.Watch(ctx, prefix, start, see)
	}
	return c.Client.Watch(ctx, prefix, start, func(e ringproof.WatchEvent) {
		if c.shown(&e) {
			see(e)
		}
	})
}

func (c client) shown(e *ringproof.WatchEvent) bool {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return c.world.watched(c.world, e)
}
