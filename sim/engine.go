// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/ringproof/ringproof"
)

// engine is the scheduler: a heap of events in the order of (time, priority,
// sequence), and tasks that run one at a time, each until it waits. Nothing in
// it asks the machine it runs on for the time, for chance or for a thread.
type engine struct {
	now     ringproof.Instant
	queue   queue
	seq     uint64
	seed    uint64
	trace   Trace
	streams map[string]*stream
	tasks   []*task // those that wait for something a context can end
	own     []*task // the harness's
	naps    []*nap  // that are over
	run     *task   // nil between tasks
	actor   *process
	budget  int // events; 0: none
	broken  error
}

// Priorities of events of one instant: what happened is delivered before
// anybody looks.
const (
	prioArrival uint8 = iota
	prioTimer
	prioTask
)

// timer is one event to come. owner's death takes it away; while owner is
// paused it waits.
type timer struct {
	prio  uint8
	kind  kind
	dead  bool
	who   uint64
	owner *process
	do    func()
	on    happening // instead of do
}

// happening is what an event that is made often is: one object for its timer
// and what it carries.
type happening interface{ happen() }

func newEngine(seed uint64) *engine {
	return &engine{seed: seed, trace: newTrace(), streams: map[string]*stream{}}
}

// after schedules do. The returned timer may be stopped until it fires.
func (e *engine) after(d time.Duration, prio uint8, k kind, owner *process, do func()) *timer {
	t := &timer{prio: prio, kind: k, owner: owner, do: do}
	e.schedule(t, d)
	return t
}

// schedule puts a timer that isn't in the queue into it.
func (e *engine) schedule(t *timer, d time.Duration) {
	e.seq++
	if t.owner != nil {
		t.who = t.owner.number
	}
	e.queue.push(slot{at: e.now.Add(max(d, 0)), order: uint64(t.prio)<<56 | e.seq, timer: t})
}

// step carries out the next event; false when there is none.
func (e *engine) step() bool {
	for e.queue.len() > 0 {
		next := e.queue.pop()
		t := next.timer
		if t.dead || t.owner != nil && t.owner.ended {
			continue
		}
		if t.owner != nil && t.owner.paused {
			t.owner.backlog = append(t.owner.backlog, t)
			continue
		}
		e.now = max(e.now, next.at)
		e.trace.event(e.now, t.kind, t.who)
		e.actor = t.owner
		if t.on != nil {
			t.on.happen()
		} else {
			t.do()
		}
		return true
	}
	return false
}

// drive steps until done says so. An end of ctx, a real one, is an interrupt. A
// panic outside of any task is one of the model: an error too, so that who runs
// many plans in one process can tell which it was.
func (e *engine) drive(ctx context.Context, done func() bool) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("an event at %v panicked: %v\n%s", e.now, what, debug.Stack())
		}
	}()
	for n := 1; !done(); n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if e.budget > 0 && e.trace.Events > e.budget {
			return fmt.Errorf("the run was given up after %d events at %v of its time", e.trace.Events, e.now)
		}
		if !e.step() {
			return errors.New("nothing is left to happen and a task still waits")
		}
		if e.broken != nil {
			return e.broken
		}
	}
	return nil
}

// spawn makes a task of f, which begins at once but after whoever made it.
func (e *engine) spawn(p *process, name string, f func()) *task {
	t := newTask(e, p, name, f)
	if p != nil {
		p.tasks = append(p.tasks, t)
	} else {
		e.own = append(e.own, t)
	}
	e.after(0, prioTask, kindTask, p, func() { e.resume(t) })
	return t
}

// resume runs t until it waits or ends, then wakes whoever waits under a
// context that ended meanwhile.
func (e *engine) resume(t *task) {
	if t.over {
		return
	}
	before := e.run
	e.run = t
	t.wait = nil
	_, waits := t.next()
	e.run = before
	if !waits {
		t.over = true
	}
	e.sweep()
}

// sweep wakes the tasks whose context has ended.
func (e *engine) sweep() {
	kept := e.tasks[:0]
	for _, t := range e.tasks {
		w := t.wait
		switch {
		case t.over || w == nil || w.woken || w.ctx == nil:
			t.listed = false
		case w.ctx.Err() != nil:
			t.listed = false
			w.wake()
		default:
			kept = append(kept, t)
		}
	}
	clear(e.tasks[len(kept):])
	e.tasks = kept
}

// panicked keeps the first panic of harness code, with its stack: a bug of ours.
func (e *engine) panicked(name string, what any) {
	if e.broken == nil {
		e.broken = fmt.Errorf("task %q panicked: %v\n%s", name, what, debug.Stack())
	}
}

// queue is the events to come. Packets arrive in less than a millisecond, and
// timeouts wait for seconds, most of them in vain: what is near has a heap of its
// own, in which there is little to compare with.
type queue struct {
	near, far heap
	edge      ringproof.Instant // what comes before is near
}

// reach is how far ahead of the first event is near.
const reach = 4 * time.Millisecond

func (q *queue) len() int { return len(q.near) + len(q.far) }

func (q *queue) push(s slot) {
	if s.at < q.edge {
		q.near.push(s)
	} else {
		q.far.push(s)
	}
}

func (q *queue) pop() slot {
	if len(q.near) == 0 {
		q.edge = q.far[0].at.Add(reach)
		for len(q.far) > 0 && q.far[0].at < q.edge {
			q.near.push(q.far.pop())
		}
	}
	return q.near.pop()
}

// heap has four children a node: it is shallower than with two, and the events
// that come next share cache lines.
type heap []slot

// slot is a timer's place in the queue, with all that orders it: to compare two
// takes no look at the timers.
type slot struct {
	at    ringproof.Instant
	order uint64 // priority, then sequence
	timer *timer
}

func (t *slot) before(o *slot) bool {
	if t.at != o.at {
		return t.at < o.at
	}
	return t.order < o.order
}

func (q *heap) push(t slot) {
	h := append(*q, t)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !t.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = t
	*q = h
}

func (q *heap) pop() slot {
	h := *q
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = slot{}
	h = h[:len(h)-1]
	if len(h) > 0 {
		h.sink(last)
	}
	*q = h
	return first
}

// sink puts t at the top and lets it down to its place.
func (h heap) sink(t slot) {
	i := 0
	for {
		least, child := -1, 4*i+1
		for c := child; c < min(child+4, len(h)); c++ {
			if least < 0 || h[c].before(&h[least]) {
				least = c
			}
		}
		if least < 0 || !h[least].before(&t) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = t
}
