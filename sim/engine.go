// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
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
	tasks   []*task   // those that aren't over, in the order they were made in
	own     []*task   // the harness's
	origins []*origin // that tasks wait under
	cut     bool      // a context of the world's own has ended
	naps    []*nap    // that are over
	run     *task     // nil between tasks
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
	left  time.Duration // while owner is paused: how long after that it happens
	do    func()
	on    happening         // instead of do
	at    ringproof.Instant // while it hangs in the wheel, and so the next two
	order uint64
	next  *timer // in the same tick
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
	for {
		next, ok := e.queue.pop()
		if !ok {
			return false
		}
		t := next.timer
		if t.dead || t.owner != nil && t.owner.ended {
			continue
		}
		if t.owner != nil && t.owner.stands() {
			t.owner.keep(next)
			continue
		}
		if late := t.late(next.order); late > 0 {
			e.schedule(t, next.at.Sub(e.now)+late)
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
}

// late is how much later it goes off than it was set to, as the machine whose clock it goes by
// was suspended meanwhile.
func (t *timer) late(order uint64) time.Duration {
	if t.owner == nil || t.owner.machine == nil || t.prio == prioArrival {
		return 0
	}
	return t.owner.machine.sleep.late(order & (1<<56 - 1))
}

// stretch is how many events go by between two looks at what is outside, whether
// the run is interrupted: a quarter of a millisecond's.
const stretch = 256

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
		if n%stretch == 0 && ctx.Err() != nil {
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
	if len(e.tasks) == cap(e.tasks) {
		e.tasks = slices.DeleteFunc(e.tasks, func(t *task) bool { return t.over })
	}
	e.tasks = append(e.tasks, t)
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
	t.waited()
	_, waits := t.next()
	e.run = before
	if !waits {
		t.over = true
		t.leave()
	}
	e.sweep()
}

// origin is a context that the world doesn't know the end of beforehand, and that
// tasks wait under, or under deadlines made of it.
type origin struct {
	ctx   context.Context
	done  <-chan struct{} // its own: contexts of one channel have one end
	tasks int
	over  bool
}

// sweep wakes the tasks whose context has ended. It comes after each turn of a
// task, and there are few origins.
func (e *engine) sweep() {
	for _, o := range e.origins {
		if !o.over && o.ctx.Err() != nil {
			o.over, e.cut = true, true
		}
	}
	if e.cut {
		e.cut = false
		e.wakeEnded()
	}
}

func (e *engine) wakeEnded() {
	for _, t := range e.tasks {
		if w := t.wait; w != nil && !t.over && !w.woken && w.ctx != nil && w.ctx.Err() != nil {
			w.wake()
		}
	}
}

// panicked keeps the first panic of harness code, with its stack: a bug of ours.
func (e *engine) panicked(name string, what any) {
	if e.broken == nil {
		e.broken = fmt.Errorf("task %q panicked: %v\n%s", name, what, debug.Stack())
	}
}

// queue is the events to come. Packets arrive in less than a millisecond, and
// timeouts wait for seconds, most of them in vain. So only what is near is kept in
// order: what comes later hangs in a wheel, unsorted, until its tick has come, and
// what is beyond the wheel's last tick waits in a heap of its own.
type queue struct {
	near    heap
	next    uint64 // the tick after those of near: the wheel's first
	wheel   [ticks]*timer
	wheeled int // how many hang in it
	far     heap
}

// A tick is long enough for a few events, and a turn of the wheel longer than
// most timeouts.
const (
	tick  = 4 * time.Millisecond
	ticks = 1024
)

func tickOf(at ringproof.Instant) uint64 { return uint64(at) / uint64(tick) }

func (q *queue) push(s slot) {
	switch t := tickOf(s.at); {
	case t < q.next:
		q.near.push(s)
	case t < q.next+ticks:
		q.hang(t, s)
	default:
		q.far.push(s)
	}
}

func (q *queue) hang(t uint64, s slot) {
	s.timer.at, s.timer.order, s.timer.next = s.at, s.order, q.wheel[t%ticks]
	q.wheel[t%ticks] = s.timer
	q.wheeled++
}

// pop returns the first; ok is false when there is none.
func (q *queue) pop() (first slot, ok bool) {
	for len(q.near) == 0 {
		if q.wheeled+len(q.far) == 0 {
			return slot{}, false
		}
		q.turn()
	}
	return q.near.pop(), true
}

// turn brings the next tick near that there is something in, but for what was
// stopped meanwhile.
func (q *queue) turn() {
	if q.wheeled == 0 {
		q.next = tickOf(q.far[0].at)
	}
	for len(q.far) > 0 && tickOf(q.far[0].at) < q.next+ticks {
		s := q.far.pop()
		q.hang(tickOf(s.at), s)
	}
	for q.wheel[q.next%ticks] == nil {
		q.next++
	}
	t := q.wheel[q.next%ticks]
	q.wheel[q.next%ticks] = nil
	q.next++
	for t != nil {
		if !t.dead {
			q.near.push(slot{t.at, t.order, t})
		}
		q.wheeled--
		t, t.next = t.next, nil
	}
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
