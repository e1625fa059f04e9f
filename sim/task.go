// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

// errKilled unwinds a task whose process was killed. It never leaves the task.
var errKilled = errors.New("killed")

// task is straight-line code that waits through the seams. It is a coroutine:
// between two waits nothing else in the world moves.
type task struct {
	name    string
	engine  *engine
	process *process // nil: the harness's own
	next    func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	wait    *waiter
	origin  *origin // of the context it waited under last
	over    bool
	dead    bool
}

// waiter is one wait of one task, and the event that ends it.
type waiter struct {
	timer
	task  *task
	ctx   context.Context // nil: nothing ends the wait early
	woken bool
}

func newTask(e *engine, p *process, name string, f func()) *task {
	t := &task{name: name, engine: e, process: p}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer t.caught()
		f()
	})
	return t
}

// caught ends a task that panicked. A subject that panics is a process that
// died, as it would be anywhere; a panic of the harness ends the run.
func (t *task) caught() {
	switch what := recover(); {
	case what == nil || what == any(errKilled):
	case t.process != nil && t.process.panicked != nil:
		t.process.panicked(what)
	default:
		t.engine.panicked(t.name, what)
	}
}

// wake resumes the waiter's task, at this instant but not before what is
// delivered in it.
func (w *waiter) wake() {
	if w.woken {
		return
	}
	w.woken = true
	w.prio, w.kind, w.owner, w.on = prioTask, kindTask, w.task.process, w
	w.task.engine.schedule(&w.timer, 0)
}

// happen goes on with the task, unless that has gone on already.
func (w *waiter) happen() {
	if t := w.task; t.wait == w {
		t.engine.resume(t)
	}
}

// begin opens a wait of the running task. Between begin and pause the caller
// arranges for wake.
func (e *engine) begin(ctx context.Context) *waiter {
	w := &waiter{}
	e.wait(ctx, w)
	return w
}

// wait is begin for a waiter that is part of something.
func (e *engine) wait(ctx context.Context, w *waiter) {
	t := e.alive()
	w.task = t
	if ctx != nil && ends(ctx) {
		w.ctx = ctx
		t.take(under(ctx, 1))
	}
	t.wait = w
}

// waited ends the task's wait.
func (t *task) waited() {
	if w := t.wait; w != nil && w.ctx != nil {
		under(w.ctx, -1)
	}
	t.wait = nil
}

// under counts a wait under each deadline that the context is made of, and
// returns what the first of them was made of.
func under(ctx context.Context, wait int) context.Context {
	for l, own := ctx.(*limited); own; l, own = ctx.(*limited) {
		l.waits += wait
		ctx = l.parent
	}
	return ctx
}

// take makes the origin the task's: most wait under the same all their life.
func (t *task) take(ctx context.Context) {
	done := ctx.Done()
	if t.origin != nil && t.origin.done == done {
		return
	}
	t.leave()
	if done == nil {
		return
	}
	all := &t.engine.origins
	i := slices.IndexFunc(*all, func(r *origin) bool { return r.done == done })
	if i < 0 {
		i = len(*all)
		*all = append(*all, &origin{ctx: ctx, done: done})
	}
	t.origin = (*all)[i]
	t.origin.tasks++
}

// leave forgets an origin that no task is under any more.
func (t *task) leave() {
	r := t.origin
	if r == nil {
		return
	}
	t.origin = nil
	if r.tasks--; r.tasks == 0 {
		t.engine.origins = slices.DeleteFunc(t.engine.origins, func(o *origin) bool { return o == r })
	}
}

// alive returns the running task. A killed one goes no further: not even what
// it deferred reaches the world.
func (e *engine) alive() *task {
	t := e.run
	if t == nil {
		panic("sim: a blocking call outside of any task")
	}
	if t.dead {
		panic(errKilled)
	}
	return t
}

// pause gives the thread away until the waiter is woken. It returns ctx's
// error when that ended the wait.
func (e *engine) pause(w *waiter) error {
	if w.ctx != nil && w.ctx.Err() != nil {
		w.wake()
	}
	if !w.task.yield(struct{}{}) || w.task.dead {
		panic(errKilled)
	}
	if w.ctx != nil && w.ctx.Err() != nil {
		return ended(w.ctx)
	}
	return nil
}

// ended is why the context ended: a deadline says so even through the contexts
// made of it.
func ended(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// sleep waits for d of virtual time, or until ctx ends.
func (e *engine) sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		e.alive()
		return ended(ctx)
	}
	n := e.nap()
	e.wait(ctx, &n.waiter)
	n.end.prio, n.end.kind, n.end.owner, n.end.on = prioTask, kindSleep, n.task.process, n
	e.schedule(&n.end, d)
	if err := e.pause(&n.waiter); err != nil {
		n.end.dead = true
		return err
	}
	*n = nap{} // it has ended by itself: nothing knows it any more
	e.naps = append(e.naps, n)
	return nil
}

// nap returns one to be used, perhaps again.
func (e *engine) nap() *nap {
	last := len(e.naps) - 1
	if last < 0 {
		return &nap{}
	}
	n := e.naps[last]
	e.naps = e.naps[:last]
	return n
}

// nap is a wait for a time.
type nap struct {
	waiter
	end timer
}

func (n *nap) happen() {
	n.woken = true
	n.waiter.happen()
}

// timeout returns a context that ends after d of virtual time.
func (e *engine) timeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	l := e.limit(parent, d)
	return l, l.stop
}

func (e *engine) limit(parent context.Context, d time.Duration) *limited {
	l := &limited{parent: parent, engine: e, deadline: e.now.Add(d)}
	l.prio, l.kind, l.on = prioTimer, kindTimeout, l
	e.schedule(&l.timer, d)
	return l
}

// limited is a context with a deadline in virtual time. Whoever waits under it
// is looked after by sweep, which asks it: it has a channel only if somebody
// wants one, as a context made of it does.
type limited struct {
	timer
	parent   context.Context
	engine   *engine
	deadline ringproof.Instant
	waits    int   // under it, of tasks
	err      error // how it ended, unless its parent did
	inner    context.Context
	cancel   context.CancelCauseFunc
	machine  *Machine      // by whose clock it ends; nil: the world's
	ends     time.Duration // when the machine has run for so long
}

// putOff reports whether the machine was suspended meanwhile, or is: then it ends later.
func (l *limited) putOff() bool {
	switch m := l.machine; {
	case m == nil:
		return false
	case m.asleep():
		m.sleep.limits = append(m.sleep.limits, l)
		return true
	case m.ran() < l.ends:
		l.engine.schedule(&l.timer, l.ends-m.ran())
		return true
	}
	return false
}

func (l *limited) happen() {
	if l.putOff() {
		return
	}
	l.end(context.DeadlineExceeded)
	l.engine.sweep()
}

func (l *limited) stop() {
	l.dead = true
	l.end(context.Canceled)
}

func (l *limited) end(err error) {
	if l.Err() == nil {
		l.err = err
		l.engine.cut = l.engine.cut || l.waits > 0 // most are stopped by who waited under them alone
	}
	if l.inner != nil {
		l.cancel(err)
	}
}

// Deadline is in the world's time; the contexts' own clock knows nothing of it.
func (l *limited) Deadline() (time.Time, bool) { return Epoch.Add(time.Duration(l.deadline)), true }

func (l *limited) Err() error {
	if l.err == nil && l.parent.Err() != nil {
		return ended(l.parent)
	}
	return l.err
}

func (l *limited) Done() <-chan struct{} { return l.standard().Done() }

// Value tells of the parent's end by what the parent answers, and of its own by
// what a standard context would.
func (l *limited) Value(key any) any {
	if l.err == nil && l.inner == nil {
		return l.parent.Value(key)
	}
	return l.standard().Value(key)
}

// standard is the same as one of the library's contexts.
func (l *limited) standard() context.Context {
	switch {
	case l.inner != nil:
	case l.err == nil:
		l.inner, l.cancel = context.WithCancelCause(l.parent)
	default: // the parent may have ended since, and the first end counts
		l.inner, l.cancel = context.WithCancelCause(context.WithoutCancel(l.parent))
		l.cancel(l.err)
	}
	return l.inner
}

// ends reports whether a context can end.
func ends(ctx context.Context) bool {
	_, own := ctx.(*limited)
	return own || ctx.Done() != nil
}

// kill unwinds a task. The running one unwinds by itself, at its next call.
func (t *task) kill() {
	t.dead = true
	if t == t.engine.run || t.over {
		return
	}
	before := t.engine.run
	t.engine.run = t
	t.stop()
	t.engine.run = before
	t.over = true
	t.leave()
}

// process is a set of tasks and timers that die together.
type process struct {
	name     string
	number   uint64
	machine  *Machine
	engine   *engine
	tasks    []*task
	ended    bool
	paused   bool
	backlog  []*timer
	entropy  *stream
	panicked func(any)
	gone     []func() // told when it has ended
}

// end kills the process. None of its code runs any more, but for what a task
// deferred, and that finds every seam closed.
func (p *process) end() {
	if p.ended {
		return
	}
	p.ended = true
	for _, t := range slices.Clone(p.tasks) {
		t.kill()
	}
	for _, told := range p.gone {
		told()
	}
}

// stands reports whether the process is paused, or its machine suspended.
func (p *process) stands() bool { return p.paused || p.machine != nil && p.machine.asleep() }

// proceed lets a paused process go on, unless its machine is suspended.
func (p *process) proceed() {
	p.paused = false
	p.goOn()
}

// goOn lets a process that stands no more go on: everything that came meanwhile
// comes now, in its order. A timer of a machine that was suspended has its time left.
func (p *process) goOn() {
	if p.stands() {
		return
	}
	for _, t := range p.backlog {
		p.engine.schedule(t, t.left)
	}
	p.backlog = nil
}

// keep keeps an event for when the process goes on.
func (p *process) keep(s slot) {
	s.timer.left = 0
	if m := p.machine; m != nil && m.asleep() && s.timer.prio != prioArrival {
		s.timer.left = max(s.at.Sub(m.sleep.since), 0)
	}
	p.backlog = append(p.backlog, s.timer)
}
