// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// Options are how a run is watched.
type Options struct {
	OnEvent func(ringproof.Event)                 // is given each event as it happens; nil: nobody is
	Seen    func(ringproof.World) ringproof.World // what the run sees in the world's place; nil: the world
}

// Driven is a world with a time of its own, in which all that uses it must run.
type Driven interface {
	// Drive runs f in the world's time, and returns when f does. An error says that
	// ctx, which lives in real time, ended, or that the world broke.
	Drive(ctx context.Context, f func(context.Context)) error
}

// Traced is a world that can say by what its runs are compared. Two runs with the
// same trace are the same run.
type Traced interface{ Traced() string }

// Remote is a world whose plans another process carries out.
type Remote interface {
	// CarryOut is [Run] in that process.
	CarryOut(ctx context.Context, plan ringproof.Plan, told func(ringproof.Event)) (ringproof.History, error)
}

// Run carries out the plan and returns all that happened, for the checks. The world
// is used up: it is closed in the end. An error says that the run could not be
// carried out, or not to its end; a ring that did wrong is no error.
func Run(ctx context.Context, plan ringproof.Plan, world ringproof.World, o Options) (h ringproof.History, err error) {
	if r, ok := world.(Remote); ok {
		return r.CarryOut(ctx, plan, o.OnEvent)
	}
	seen := world
	if o.Seen != nil {
		seen = o.Seen(world)
	}
	d, ok := world.(Driven)
	if !ok {
		return carryOut(ctx, plan, seen, o.OnEvent)
	}
	broken := d.Drive(ctx, func(ctx context.Context) { h, err = carryOut(ctx, plan, seen, o.OnEvent) })
	if t, ok := world.(Traced); ok {
		h.Trace = t.Traced()
	}
	return h, errors.Join(err, broken)
}

const (
	createWithin   = 60 * time.Second
	convergeWithin = 45 * time.Second // unless the plan's check of it says otherwise
	rested         = 10 * time.Second // see runner.rested
	calm           = time.Second      // the ring must be as asked for so long to count as converged
	quiet          = 3 * time.Second  // and is watched for so long afterwards
	warm           = time.Second      // of load before the first step
)

// runner is one run of one plan.
type runner struct {
	plan   ringproof.Plan
	world  ringproof.World
	record *record
	ledger *ledger

	mu        sync.Mutex
	ops       int                      // operations so far
	seen      map[int]int64            // watcher → the latest revision it saw
	visited   map[int]int              // extra client → its visits
	tenants   map[int]*tenant          // extra client → its leases
	begun     map[string]bool          // steps
	asked     map[string][]string      // whom a step asked about, once its request was made
	done      map[string]bool          // steps, failed ones too
	inForce   []landed                 // what is to be healed
	healing   int                      // faults that are being healed in the background
	resting   int                      // 1 while nothing is left to do
	clients   int                      // tasks that record what clients see
	target    int                      // voters last asked for
	replaced  []string                 // machines whose members are asked to be replaced
	suspended bool                     // the ring is to be left as it is
	upgraded  string                   // the release last asked for; "": none but the plan's
	withdrawn withdrawal               // the upgrade that was taken back last
	encrypted bool                     // peers that spoke plain text were asked to speak TLS
	edited    ringproof.Instant        // when the ring's object was edited last
	own       map[string]ringproof.Own // what each machine's etcd was last asked to have; no entry: not known
	hands     []hand                   // what somebody else asked for
	sheets    [][]ringproof.WatchEvent // that no stream writes on
}

// landed is a fault in force.
type landed struct {
	step    ringproof.Step
	targets []string
	hit     []string // those of the targets on which it landed; it is to be healed on all
}

// carryOut is Run, once whoever calls it is in the world's time.
func carryOut(ctx context.Context, plan ringproof.Plan, world ringproof.World, told func(ringproof.Event)) (h ringproof.History, err error) {
	r := &runner{plan: plan, world: world, target: plan.Ring.Size,
		record: &record{now: world.Now, told: told},
		seen:   map[int]int64{}, visited: map[int]int{}, tenants: map[int]*tenant{}, asked: map[string][]string{}, done: map[string]bool{}, begun: map[string]bool{}}
	r.own = owned(plan.Ring)
	r.ledger = &ledger{truth: faults.NewLedger(plan.Ring.Size, plan.Mode), record: r.record}
	for _, s := range plan.Steps {
		if err := world.Supports(s); err != nil {
			return h, fmt.Errorf("step %s (%s): %w", s.Name, s.Position, err)
		}
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	defer func() {
		stop()
		if left := world.Close(); left != nil {
			h.Evidence.Leftovers = append(h.Evidence.Leftovers, left.Error())
		}
		r.late(&h)
	}()
	if err := world.Start(running, plan, r.record); err != nil {
		return h, fmt.Errorf("starting the %s world: %w", world.Name(), err)
	}
	evidence, err := r.play(running)
	if err != nil {
		return h, err
	}
	stop()
	return r.history(evidence), ctx.Err()
}

// late adds to a history that is told already what a mutant says at its own end.
func (r *runner) late(h *ringproof.History) {
	all, _ := r.record.since(0)
	for _, e := range all[min(len(h.Events), len(all)):] {
		if e.Kind == ringproof.EventMutantReached {
			h.Events = append(h.Events, e)
		}
	}
}

// play is the run between the world's start and its end.
func (r *runner) play(ctx context.Context) (ringproof.Evidence, error) {
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	r.record.Record(ringproof.Event{At: r.world.Now(), Kind: ringproof.EventRunBegins})
	r.early(ctx)
	r.foundingFaults(ctx)
	r.world.Go(watching, "observer", r.observer)
	if err := r.create(ctx); err != nil {
		return ringproof.Evidence{}, err
	}
	load, unload := context.WithCancel(ctx)
	defer unload()
	r.load(load)
	if r.plan.Workload.Profile != "none" {
		if err := r.world.Sleep(ctx, warm); err != nil {
			return ringproof.Evidence{}, err
		}
	}
	if err := r.steps(ctx); err != nil {
		return ringproof.Evidence{}, err
	}
	r.heal(ctx)
	settled := r.settle(ctx)
	unload()
	r.record.Record(ringproof.Event{Kind: ringproof.EventLoadEnds})
	if settled {
		r.rest(ctx)
	}
	if err := r.drain(ctx); err != nil {
		return ringproof.Evidence{}, err
	}
	// The last thing that a client does is to record what it saw.
	_ = r.wait(ctx, 2*patience, func() bool { return r.count(&r.clients, 0) == 0 })
	evidence, err := r.world.Evidence(ctx)
	evidence.Spec, evidence.Budget, evidence.Asked = r.wanted(), r.ledger.Timeline(), r.own
	evidence.Vacant = r.leaving()
	r.record.Record(ringproof.Event{Kind: ringproof.EventRunEnds})
	if err == nil && r.plan.End != nil {
		unwatch()
		evidence.End = r.endRing(ctx, *r.plan.End)
	}
	return evidence, err
}

// early carries out the steps that begin with the run: all others wait for the
// ring. They are faults at the subject's own seams, which need no ring to hit.
func (r *runner) early(ctx context.Context) {
	if !slices.ContainsFunc(r.plan.Steps, ringproof.Step.Early) {
		return
	}
	if o, err := r.world.Observe(ctx); err == nil {
		r.record.observe(o) // whom a step aims at is looked up in it
		r.ledger.Observe(o)
	}
	for _, s := range r.plan.Steps {
		if s.Early() && !s.After.Awaited() {
			r.mark(s)
			r.step(ctx, s)
		}
	}
}

// foundingFaults starts the steps that wait for something of the bootstrap, each by
// itself.
func (r *runner) foundingFaults(ctx context.Context) {
	for _, s := range r.plan.Steps {
		if !s.Early() || !s.After.Awaited() {
			continue
		}
		r.mark(s)
		r.world.Go(ctx, "step "+s.Name, func(ctx context.Context) {
			if err := r.await(ctx, s, 0); err != nil {
				r.miss(s, err)
				return
			}
			r.step(ctx, s)
		})
	}
}

// create waits for the ring that the subject makes. One that never comes is
// for the checks to judge, so only an end of the context is an error.
func (r *runner) create(ctx context.Context) error {
	return r.wait(ctx, createWithin, func() bool { return r.asWanted(r.record.observation()) })
}

// load starts the clients and watchers.
func (r *runner) load(ctx context.Context) {
	if r.plan.Workload.Profile == "none" {
		return
	}
	for i := range r.plan.Workload.Clients {
		r.client(ctx, fmt.Sprintf("client %d", i), func(ctx context.Context) { r.drive(ctx, i) })
	}
	for i := range watchers {
		id := r.plan.Workload.Clients + i
		r.client(ctx, fmt.Sprintf("watcher %d", i), func(ctx context.Context) { r.watcher(ctx, id) })
	}
	r.befriend(ctx)
}

// client starts a task that records what a client sees.
func (r *runner) client(ctx context.Context, name string, f func(context.Context)) {
	r.count(&r.clients, 1)
	r.world.Go(ctx, name, func(ctx context.Context) {
		defer r.count(&r.clients, -1)
		f(ctx)
	})
}

// asWanted reports whether the ring is what was last asked for.
func (r *runner) asWanted(o ringproof.Observation) bool {
	if !o.Fresh || len(o.Voters()) != r.wanted() || len(o.Learners()) > 0 || len(o.Amiss) > 0 {
		return false
	}
	for _, m := range o.Members {
		machine, known := o.Machine(m.Machine)
		if !m.Serving || known && !machine.Up || r.outdated(m) || r.listedPlain(m) {
			return false
		}
	}
	_, led := o.Leader()
	return led
}

// heal ends the fault: what a fault took for a time comes back, what is lost
// stays lost. Machines that the ring can do without stay dead: if all that faults
// have hit came back, an automation that only ever waits for that would pass.
func (r *runner) heal(ctx context.Context) {
	r.mu.Lock()
	all := r.inForce
	r.inForce = nil
	r.mu.Unlock()
	// An alarm is taken back last: who lacks a quorum by another fault does nothing.
	isAlarm := func(h landed) bool { return h.step.Fault.Kind == ringproof.FaultAlarmRaised }
	alarms := slices.DeleteFunc(slices.Clone(all), func(h landed) bool { return !isAlarm(h) })
	all = append(slices.DeleteFunc(all, isAlarm), alarms...)
	// What was asked for and is still on its way: that it comes is the fault, and nobody can call it back.
	r.outwait(ctx, ringproof.EventFaultLanded, ringproof.Fault.Lateness)
	for _, h := range all {
		if left, some := r.leaveDead(ctx, h); some {
			r.undo(ctx, left)
		}
	}
	_ = r.wait(ctx, defaultTimeout, func() bool { return r.count(&r.healing, 0) == 0 })
	r.outwait(ctx, ringproof.EventFaultHealed, ringproof.Fault.Aftermath)
	r.record.Record(ringproof.Event{Kind: ringproof.EventHealPhase})
}

// outwait waits for what a fault does from its landing on, or from its healing.
func (r *runner) outwait(ctx context.Context, since ringproof.EventKind, does func(ringproof.Fault) time.Duration) {
	var due ringproof.Instant
	events, _ := r.record.since(0)
	for _, e := range events {
		i := slices.IndexFunc(r.plan.Steps, func(s ringproof.Step) bool { return s.Name == e.Step && s.Fault != nil })
		if e.Kind != since || i < 0 {
			continue
		}
		if by := does(*r.plan.Steps[i].Fault); by > 0 {
			due = max(due, e.At.Add(by+poll))
		}
	}
	if left := due.Sub(r.world.Now()); left > 0 {
		_ = r.world.Sleep(ctx, left)
	}
}

// leaveDead leaves dead which of a fault's machines are off and can be lost for
// good, by the ledger's rule for a loss, and returns what is left to heal of the
// fault. One that never landed took nothing.
func (r *runner) leaveDead(ctx context.Context, h landed) (left landed, some bool) {
	f := h.step.Fault
	if r.plan.Mode == ringproof.ModeDisaster || f.Kind != ringproof.FaultKill || f.Scope != "machine" || f.For > 0 {
		return h, true
	}
	loss := ringproof.Step{Name: h.step.Name, Fault: &ringproof.Fault{Kind: ringproof.FaultMachineLoss}}
	left = landed{step: h.step}
	for _, target := range h.targets {
		machine := []string{target}
		if admitted, _ := r.ledger.Admit(*loss.Fault, machine); !slices.Contains(h.hit, target) || admitted.Kind != ringproof.FaultMachineLoss {
			left.targets = append(left.targets, target)
			continue
		}
		began := r.world.Now()
		evidence, err := r.world.Do(ctx, loss, machine)
		if err != nil {
			evidence = err.Error()
		}
		r.landed(loss, machine, evidence+", and stays dead", began)
	}
	return left, len(left.targets) > 0
}

// settle demands convergence: the ring is what was asked for, stays so, and
// then nothing happens any more. It reports whether it came to that.
func (r *runner) settle(ctx context.Context) (settled bool) {
	if r.plan.Mode == ringproof.ModeDisaster {
		return r.world.Sleep(ctx, quiet) == nil
	}
	since := ringproof.Forever
	converged := false
	_ = r.wait(ctx, r.patience()+time.Second, func() bool {
		o := r.record.observation()
		if !r.asWanted(o) || agentDown(o) || hasLeft(o) || r.owes(o) || r.busy() || r.given(r.lastAction()) < calm {
			since = ringproof.Forever
			return false
		}
		if since == ringproof.Forever {
			since = r.world.Now()
		}
		converged = r.given(since) >= cmp.Or(r.lingering(o), calm)
		return converged
	})
	if !converged {
		return false
	}
	r.record.Record(ringproof.Event{Kind: ringproof.EventConverged, Text: ringproof.Counted(r.wanted(), "voter")})
	return r.world.Sleep(ctx, quiet) == nil
}

// rest watches a ring in which nothing is left to do, for as long as the plan
// says: a loop of minutes shows in minutes. Nobody loads it meanwhile, and a look
// a second is enough.
func (r *runner) rest(ctx context.Context) {
	for _, i := range r.plan.Invariants {
		if d, err := time.ParseDuration(i.Params["atLeast"]); err == nil && i.Check == "quiescent" && d > quiet {
			r.count(&r.resting, 1)
			_ = r.world.Sleep(ctx, d-quiet)
			r.count(&r.resting, -1)
		}
	}
}

// patience is how long the ring may take to converge: what its check allows.
func (r *runner) patience() time.Duration {
	for _, i := range r.plan.Invariants {
		if d, err := time.ParseDuration(i.Params["within"]); err == nil && i.Check == "converges" {
			return d
		}
	}
	return convergeWithin
}

// agentDown reports whether the subject's process doesn't run on a machine that
// is there: when it comes back it may have work.
func agentDown(o ringproof.Observation) bool {
	return slices.ContainsFunc(o.Machines, func(m ringproof.MachineView) bool { return m.Up && !m.Lost && !m.Agent })
}

// hasLeft reports whether a machine runs the etcd of a member that the ring has
// removed: who came back from a loss of power to a ring without a quorum hears
// of it late, and whoever automates the ring has still to stop it.
func hasLeft(o ringproof.Observation) bool {
	return slices.ContainsFunc(o.Machines, func(m ringproof.MachineView) bool {
		_, member := o.On(m.Name)
		return m.Up && m.Etcd && !member
	})
}

// owes reports whether a member runs on files that were removed, or is still on a machine that it
// was to leave, and had another to go to. A replacement that took too long for its step goes on: five
// voters are as many as were asked for while the lead of the automation is dead, and the next one
// finds m3 still there.
func (r *runner) owes(o ringproof.Observation) bool {
	forgets := func(m ringproof.MachineView) bool { return m.Forgets() }
	return len(o.Overdue(r.leaving(), r.wanted())) > 0 || slices.ContainsFunc(o.Machines, forgets)
}

// moved are the machines that the subject is asked to move the members off, once it is asked
// that of one more: those that have lost theirs are free again. Whoever drains two machines
// names both, the second as the first has not been left yet.
func (r *runner) moved(machine string) []string {
	o := r.record.observation()
	leaving := []string{machine}
	for _, earlier := range r.leaving() {
		if _, still := o.On(earlier); earlier != machine && (still || !o.Fresh) {
			leaving = append(leaving, earlier)
		}
	}
	return leaving
}

// lastAction is when the subject last began or ended a change. An initial member's disk
// that is still to be bound is work, though the ring looks as asked for.
func (r *runner) lastAction() ringproof.Instant {
	events, _ := r.record.since(0)
	for _, e := range slices.Backward(events) {
		if e.Kind == ringproof.EventActionBegun || e.Kind == ringproof.EventActionDone || e.Kind == ringproof.EventActionFailed {
			return e.At
		}
	}
	return 0
}

// dead is how long an action may be open: whoever is about it longer died in
// it, as an agent does whose machine or disk is taken, and never tells.
const dead = 30 * time.Second

// busy reports whether an action of the subject has begun and not ended.
func (r *runner) busy() bool {
	events, _ := r.record.since(0)
	type action struct{ name, about string }
	open := map[action]ringproof.Instant{}
	for _, e := range events {
		key := action{e.Action, e.Machine}
		switch e.Kind {
		case ringproof.EventActionBegun:
			open[key] = e.At
		case ringproof.EventActionDone, ringproof.EventActionFailed:
			delete(open, key)
		case ringproof.EventFaultLanded:
			if e.Fault == ringproof.FaultAgentCrash { // whoever was about it is dead
				maps.DeleteFunc(open, func(a action, _ ringproof.Instant) bool { return a.name == e.Action })
			}
		}
	}
	now := r.world.Now()
	return slices.ContainsFunc(slices.Collect(maps.Values(open)), func(begun ringproof.Instant) bool { return now.Sub(begun) < dead })
}

// drain writes one last value and waits until a watcher has seen it: then the
// watches together hold every change.
func (r *runner) drain(ctx context.Context) error {
	if r.plan.Workload.Profile == "none" {
		return nil
	}
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	last := int64(0)
	id := r.plan.Workload.Clients + watchers
	r.vacate(ctx, id)
	for n := 0; n < 10 && last == 0 && ctx.Err() == nil; n++ {
		if c := r.seat(ctx, n); c != nil {
			q := ringproof.Request{Kind: ringproof.RequestPut, Key: Prefix + "end", Value: valueOf(id, n)}
			known := map[string]int64{}
			r.attempt(ctx, c, id, q, known)
			last = known[q.Key]
			c.Close()
		}
	}
	if last == 0 {
		return ctx.Err()
	}
	r.client(watching, "last watcher", func(ctx context.Context) { r.watcher(ctx, id+1) })
	return r.wait(ctx, 20*time.Second, func() bool { return r.sawUpTo(id+1) >= last })
}

// wait polls until ready says so; it returns an error only when ctx ends. The
// time in which the host starved the run doesn't count: a deadline is for the
// subject, and it can do nothing without a host.
func (r *runner) wait(ctx context.Context, within time.Duration, ready func() bool) error {
	began := r.world.Now()
	for r.given(began) < within {
		if ready() {
			return nil
		}
		if err := r.world.Sleep(ctx, poll); err != nil {
			return err
		}
	}
	return nil
}

// slowest is how many times longer than its plan says a run waits on a busy host.
// One on which somebody always waits for a processor would be waited on for ever.
const slowest = 4

// given is how much time the run has had since the moment.
func (r *runner) given(since ringproof.Instant) time.Duration {
	now := r.world.Now()
	passed := now.Sub(since)
	if w, ok := r.world.(ringproof.Pressed); ok {
		return max(passed-w.Starved(ringproof.Span{From: since, To: now}), passed/slowest)
	}
	return passed
}

// deadline ends a step's context when the run has had so much time.
func (r *runner) deadline(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := r.world.(ringproof.Pressed); !ok {
		return r.world.Timeout(ctx, within)
	}
	acting, cancel := context.WithCancelCause(ctx)
	r.world.Go(acting, "deadline", func(ctx context.Context) {
		if r.wait(ctx, within, func() bool { return false }) == nil {
			cancel(context.DeadlineExceeded)
		}
	})
	return acting, func() { cancel(context.Canceled) }
}

func (r *runner) history(evidence ringproof.Evidence) ringproof.History {
	r.record.mu.Lock()
	defer r.record.mu.Unlock()
	h := ringproof.History{Plan: r.plan, Tools: r.world.Tools(), Evidence: evidence}
	h.Events = append(h.Events, r.record.events...)
	h.Operations = r.record.operations.Slice()
	h.Watches = append(h.Watches, r.record.watches...)
	h.Observations = append(h.Observations, r.record.observations...)
	byCall(h.Operations)
	date(h.Evidence.Changes, h.Observations)
	r.attribute(&h.Evidence)
	return h
}

// date says when each change was first seen applied by a member.
func date(changes []ringproof.ConfChange, observations []ringproof.Observation) {
	for i := range changes {
		for _, o := range observations {
			if slices.ContainsFunc(o.Members, func(m ringproof.MemberView) bool { return m.Applied >= changes[i].Index }) {
				changes[i].At = max(o.At, o.Until)
				break
			}
		}
	}
}

// attribute says which changes are none of the subject's, asked for or made.
func (r *runner) attribute(e *ringproof.Evidence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, by := range r.hands {
		for i, c := range e.Changes {
			e.Changes[i].Foreign = c.Foreign || by.made(c)
		}
		e.Rejected = slices.DeleteFunc(e.Rejected, by.asked)
	}
}

func (r *runner) number() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	return r.ops
}

func (r *runner) count(n *int, by int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	*n += by
	return *n
}

func (r *runner) saw(watcher int, revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[watcher] = max(r.seen[watcher], revision)
}

func (r *runner) sawUpTo(watcher int) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[watcher]
}

func (r *runner) wanted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.target
}

// leaving are the machines whose members are asked to be replaced.
func (r *runner) leaving() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replaced
}

func (r *runner) leave(machines []string) {
	r.mu.Lock()
	r.replaced = machines
	r.mu.Unlock()
	r.ledger.Leave(machines)
}

func (r *runner) want(voters int) {
	r.mu.Lock()
	r.target = voters
	r.mu.Unlock()
	r.ledger.Want(voters)
}

var errTimeout = errors.New("timed out")
