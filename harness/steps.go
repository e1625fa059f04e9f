// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
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

// op asks the subject, and waits until the ring is what was asked for.
func (r *runner) op(ctx context.Context, s ringproof.Step, within time.Duration) error {
	targets, err := r.find(ctx, s.Op.Target)
	if err != nil {
		return err
	}
	if s.Op.Kind == ringproof.OpAsk {
		return r.inquire(ctx, s, targets[0])
	}
	if ofMembers[s.Op.Kind] && r.vacant(targets) {
		return fmt.Errorf("no member is on %s, so that there is none to %s: aim at a machine that has one", strings.Join(targets, ", "), s.Op.Kind)
	}
	before := r.wanted()
	if s.Op.Kind == ringproof.OpScale && !s.Op.Refused {
		r.want(s.Op.To)
	}
	if err := r.address(ctx, &s); err != nil {
		return err
	}
	asked, text, err := r.carryOut(ctx, s, targets)
	r.mu.Lock()
	r.asked[s.Name] = targets
	r.mu.Unlock()
	switch {
	case s.Op.Refused:
		return r.refusal(s, text, err)
	case err != nil && s.Op.Kind == ringproof.OpScale:
		r.want(before)
	}
	if err != nil {
		return r.unasked(ctx, s, targets, err)
	}
	r.take(*s.Op, asked)
	return r.reached(ctx, s, within, targets)
}

// ofMembers are the operations that do nothing where no member is.
var ofMembers = map[ringproof.OpKind]bool{ringproof.OpReplace: true, ringproof.OpMoveLeader: true, ringproof.OpRestart: true}

// address resolves whom an operation asks, as find does its target.
func (r *runner) address(ctx context.Context, s *ringproof.Step) error {
	if s.Op.Endpoint == "" {
		return nil
	}
	asked, err := r.find(ctx, s.Op.Endpoint)
	if err != nil {
		return err
	}
	op := *s.Op
	op.Endpoint, s.Op = asked[0], &op
	return nil
}

// carryOut carries out the operation, again and again while it can't be: whoever
// operates a ring tries once more. What is refused is refused. It returns the machines that
// the subject was asked about.
func (r *runner) carryOut(ctx context.Context, s ringproof.Step, targets []string) (asked []string, text string, err error) {
	for {
		asked = targets
		if s.Op.Kind == ringproof.OpReplace {
			asked = r.moved(targets[0])
		}
		text, err = r.world.Do(ctx, s, asked)
		if s.Op.Changes() {
			r.change(*s.Op, targets[0], err)
		}
		if err == nil || s.Op.Refused || errors.Is(err, ringproof.ErrRefused) || restarts(s.Op.Kind) || s.Op.Kind == ringproof.OpReset || r.vacant(targets) {
			return asked, text, err
		}
		if r.world.Sleep(ctx, askAgain) != nil {
			return asked, text, err
		}
	}
}

// unasked says what an operation comes to that could not be carried out. A
// member that has left meanwhile needs no restart and can't lead. A restart that
// was begun is the subject's to end: it starts etcd. No disk need be emptied while
// the ring lists its member; that one was all the same is for the checks to find.
func (r *runner) unasked(ctx context.Context, s ringproof.Step, targets []string, err error) error {
	switch {
	case s.Op.Kind == ringproof.OpReset && errors.Is(err, ringproof.ErrRefused) && !r.vacant(targets):
		r.record.Record(ringproof.Event{Kind: ringproof.EventRefused, Step: s.Name, Machine: targets[0], Text: err.Error()})
		return nil
	case s.Op.Kind == ringproof.OpReset:
		return err
	case r.vacant(targets):
		return nil
	case errors.Is(err, ringproof.ErrRefused):
		return short("expected %s to be taken, saw it refused: %v", s, err)
	case restarts(s.Op.Kind) && ctx.Err() != nil:
		return short("expected %s to end, saw %s: %v", s, r.record.observation().String(), err)
	}
	return err
}

func restarts(kind ringproof.OpKind) bool {
	return kind == ringproof.OpRestart || kind == ringproof.OpRoll
}

// vacant reports whether no member is listed on the machines, by a list that was
// read with a quorum.
func (r *runner) vacant(machines []string) bool {
	o := r.record.observation()
	return len(machines) > 0 && o.Fresh && !slices.ContainsFunc(machines, func(m string) bool { _, on := o.On(m); return on })
}

// take notes what the ring owes from now on.
func (r *runner) take(op ringproof.Op, asked []string) {
	switch op.Kind {
	case ringproof.OpReplace:
		r.leave(asked)
	case ringproof.OpUpgrade:
		r.upgrade(op.Version)
	case ringproof.OpPeers:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.encrypted = true
	case ringproof.OpEdit:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.edited = r.world.Now()
	case ringproof.OpCancelReplace:
		r.leave(nil)
	case ringproof.OpSuspend, ringproof.OpResume:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.suspended = op.Kind == ringproof.OpSuspend
	}
}

// still reports whether the ring is to be left as it is.
func (r *runner) still() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.suspended
}

// refusal records that the subject refused, or fails because it didn't. One
// that broke or gave no answer has not refused.
func (r *runner) refusal(s ringproof.Step, text string, err error) error {
	if err == nil {
		asked := *s.Op
		asked.Refused = false // it is said here
		return short("expected %s to be refused, saw it taken: %s", asked, text)
	}
	if !errors.Is(err, ringproof.ErrRefused) {
		return err
	}
	r.record.Record(ringproof.Event{Kind: ringproof.EventRefused, Step: s.Name, Text: err.Error()})
	return nil
}

// reached waits for what the operation is for. A later operation may ask for
// something else meanwhile; then the ring owes that, and this step is done.
func (r *runner) reached(ctx context.Context, s ringproof.Step, within time.Duration, targets []string) error {
	over := false
	asked := r.world.Now()
	_ = r.wait(ctx, within, func() bool {
		o := r.record.observation()
		over = o.At > asked && r.came(s, o, targets) // what is older is from before the operation
		return over
	})
	if !over {
		return short("expected %s within %v, saw %s", r.goal(s, targets), within, r.record.observation().String())
	}
	return nil
}

// came reports whether the ring is what the operation is for.
func (r *runner) came(s ringproof.Step, o ringproof.Observation, targets []string) bool {
	switch s.Op.Kind {
	case ringproof.OpCancelReplace, ringproof.OpSuspend, ringproof.OpResume:
		return true // what there is to do is of the requests before
	case ringproof.OpScale:
		return r.still() || r.wanted() != s.Op.To || r.asWanted(o)
	case ringproof.OpUpgrade:
		return r.still() || r.runs() != s.Op.Version || r.asWanted(o)
	case ringproof.OpPeers:
		// What the list can't tell, such as whether a port was closed, the subject is given
		// time for; a check judges it.
		return r.still() || r.asWanted(o) && r.given(r.lastAction()) >= r.rested()
	case ringproof.OpEdit: // what it asks for the subject knows, and says when it has no more to do; a check judges how it is done
		return r.still() || r.asWanted(o) && r.content() && r.given(max(r.lastAction(), r.lastEdit())) >= r.rested()
	case ringproof.OpReplace:
		return r.still() || !slices.Contains(r.leaving(), targets[0]) || !slices.Contains(o.Overdue(r.leaving(), r.wanted()), targets[0]) && r.asWanted(o)
	case ringproof.OpReset:
		return true // the disk was emptied; who takes a member next is of the other requests
	case ringproof.OpMoveLeader:
		return true // etcd has said that it leads; who leads since is the fault's to say
	}
	return r.asWanted(o)
}

// content reports whether the subject has nothing more to do by its own last word, if it is
// one that says so. Who calls for a person has more to do, and can't; and of who says when
// it has nothing to do, and hasn't yet, nobody knows: a controller on a node whose kubelet hangs
// is heard by nobody.
func (r *runner) content() bool {
	events, _ := r.record.since(0)
	said := scene{events: events}.said()
	return said == steady || slices.Contains(r.plan.Untold, ringproof.EventWaiting) && said == ""
}

// steady is what a subject says that has nothing to do, as the reference does.
const steady = "steady"

// lastEdit is when somebody edited the ring's object last.
func (r *runner) lastEdit() ringproof.Instant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.edited
}

// rested is how long a subject has done nothing that has no more to do: longer than another
// takes to lead it. A controller's Lease outlives it by a quarter of a minute.
func (r *runner) rested() time.Duration {
	if r.plan.Ring.On == ringproof.OnKubernetes {
		return 3 * rested
	}
	return rested
}

// goal is what came waits for, in words.
func (r *runner) goal(s ringproof.Step, targets []string) string {
	text := ringproof.Counted(r.wanted(), "voter") + ", no learner, all serving"
	if s.Op.Kind == ringproof.OpReplace {
		text += ", none on " + targets[0]
	}
	if s.Op.Kind == ringproof.OpUpgrade {
		text += " etcd " + s.Op.Version
	}
	if s.Op.Kind == ringproof.OpEdit {
		text += ", nothing waited for, and nothing done for " + r.rested().String()
	}
	if s.Op.Kind == ringproof.OpPeers {
		text += ", none listed for plain text, and nothing done for " + r.rested().String()
	}
	return text
}

// targets resolves a selector against the ring as it is now.
func (r *runner) targets(selector string) ([]string, error) {
	if selector == "" {
		return nil, nil
	}
	if lead := r.record.lead(); selector == faults.Lead && lead != "" {
		selector = lead
	}
	if step, is := faults.OfStep(selector); is {
		if hit := r.record.hit(step); len(hit) > 0 {
			return hit, nil
		}
	}
	return faults.Resolve(selector, r.record.observation())
}

// find is targets for a fault: what it aims at may not be there yet, such as a
// leader just after the last one was killed.
func (r *runner) find(ctx context.Context, selector string) (targets []string, err error) {
	end := r.wait(ctx, findWithin, func() bool {
		targets, err = r.targets(selector)
		return err == nil
	})
	return targets, errors.Join(err, end)
}

// inject applies a fault: as it is, or milder when the ledger finds it unfair.
func (r *runner) inject(ctx, acting context.Context, s ringproof.Step) error {
	s, targets, err := r.aim(acting, s)
	if err != nil {
		r.record.Record(ringproof.Event{Kind: ringproof.EventFaultMissed, Step: s.Name, Fault: s.Fault.Kind, Text: err.Error()})
		return err
	}
	admitted, reason := r.admit(acting, *s.Fault, targets)
	if reason != "" {
		r.record.Record(ringproof.Event{Kind: ringproof.EventFaultDowngraded, Step: s.Name, Fault: s.Fault.Kind,
			Machine: strings.Join(targets, ","), Text: fmt.Sprintf("to %q: %s", admitted.Kind, reason)})
		if admitted.Kind == "" {
			return nil
		}
		s.Fault = &admitted
	}
	began := r.world.Now().Add(s.Fault.Age())
	by := r.hand(*s.Fault, targets)
	evidence, err := r.world.Do(acting, s, targets)
	by(evidence)
	hit := targets
	if err != nil {
		hit, err = r.missed(s, targets, err)
	}
	if err == nil && evidence != "" { // else it is armed, and the world tells when it goes off
		r.landed(s, hit, evidence, began)
	}
	r.keep(ctx, landed{s, targets, hit})
	return err
}

// aim finds whom a fault hits, and from whom it takes something. A hand removes a member
// that was seen: of one that nobody knows yet the removal would be the subject's. It adds
// one where there is none.
func (r *runner) aim(ctx context.Context, s ringproof.Step) (_ ringproof.Step, targets []string, err error) {
	if targets, err = r.find(ctx, s.Fault.Target); err != nil {
		return s, nil, err
	}
	if s.Fault.Kind == ringproof.FaultForeignHand {
		removes := s.Fault.Adds() == ""
		fits := func() bool { _, on := r.record.observation().On(targets[0]); return on == removes }
		switch _ = r.wait(ctx, findWithin, fits); {
		case fits():
		case removes:
			return s, nil, fmt.Errorf("no member is on %s that could be removed", targets[0])
		default:
			return s, nil, fmt.Errorf("a member is on %s already, so that none can be added there", targets[0])
		}
	}
	s, err = r.source(ctx, s)
	return s, targets, err
}

// admit asks the ledger for the fault. Where a look takes time the ledger may know less
// than there is, of a ring that is being bootstrapped nothing: the third initial member never ran, and
// the loss of one of the other two is let go, as no list was read yet. So a loss is asked
// for after a new look, unless the last one found all in order; and again, while it is
// refused and somebody was never heard of, as the loss of an initial member that has just started.
func (r *runner) admit(ctx context.Context, f ringproof.Fault, targets []string) (admitted ringproof.Fault, reason string) {
	last := r.record.observation()
	if !f.Permanent() || last.Until <= last.At || last.Fresh && serve(last) {
		return r.ledger.Admit(f, targets)
	}
	_ = r.wait(ctx, findWithin, func() bool {
		if o, err := r.world.Observe(ctx); err == nil {
			r.ledger.Observe(o)
		}
		return !r.ledger.tooEarly(f, targets)
	})
	return r.ledger.Admit(f, targets)
}

// serve reports whether all members do.
func serve(o ringproof.Observation) bool {
	return !slices.ContainsFunc(o.Members, func(m ringproof.MemberView) bool { return !m.Serving })
}

// missed records that a fault did not land on all of its targets, and returns those
// on which it did; err is nil if it did on any.
func (r *runner) missed(s ringproof.Step, targets []string, cause error) (hit []string, err error) {
	var partial *ringproof.PartialError
	if err = cause; errors.As(cause, &partial) {
		hit, err, cause = partial.Hit, nil, partial.Err
	}
	others := slices.DeleteFunc(slices.Clone(targets), func(target string) bool { return slices.Contains(hit, target) })
	r.record.Record(ringproof.Event{Kind: ringproof.EventFaultMissed, Step: s.Name, Fault: s.Fault.Kind, Machine: strings.Join(others, ","), Text: cause.Error()})
	return hit, err
}

// source names the machine that a fault takes something from.
func (r *runner) source(ctx context.Context, s ringproof.Step) (ringproof.Step, error) {
	if s.Fault.From == "" {
		return s, nil
	}
	from, err := r.find(ctx, s.Fault.From)
	if err != nil {
		return s, err
	}
	f := *s.Fault
	f.From = from[0]
	s.Fault = &f
	return s, nil
}

// hand notes which member somebody else is about to remove, and returns what notes, by the
// evidence, that they are done: no change and no refusal of it is the subject's. Which member
// they have added the evidence says.
func (r *runner) hand(f ringproof.Fault, targets []string) (done func(evidence string)) {
	if f.Kind != ringproof.FaultForeignHand {
		return func(string) {}
	}
	m, _ := r.record.observation().On(targets[0])
	by := hand{adds: f.Adds(), member: m.ID, when: ringproof.Span{From: r.world.Now()}}
	return func(evidence string) {
		if by.adds != "" {
			_, _ = fmt.Sscanf(evidence, "member %x was added", &by.member)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		by.when.To = r.world.Now()
		r.hands = append(r.hands, by)
	}
}

// hand is what somebody else asked for, and when.
type hand struct {
	adds   string // as [ringproof.Fault.Adds]
	member ringproof.MemberID
	when   ringproof.Span
}

// asked reports whether somebody else asked for what was refused. Of an addition that is
// asked for again each has an ID of its own.
func (h hand) asked(x ringproof.Rejection) bool {
	mine := x.Kind == h.adds
	if h.adds == "" {
		mine = x.Kind == "remove" && x.Member == h.member
	}
	return mine && h.when.From <= x.At && x.At <= h.when.To
}

// made reports whether somebody else made the change.
func (h hand) made(c ringproof.ConfChange) bool {
	return c.Member == h.member && c.Kind == cmp.Or(h.adds, "remove")
}

// landed records the fault once for each machine it hit, as of when it was
// begun: what the observer sees of it meanwhile is its doing.
func (r *runner) landed(s ringproof.Step, targets []string, evidence string, at ringproof.Instant) {
	hit := targets
	if len(hit) == 0 {
		hit = []string{""}
	}
	for _, machine := range hit {
		r.record.Record(ringproof.Event{At: at, Kind: ringproof.EventFaultLanded, Step: s.Name, Fault: s.Fault.Kind, Machine: machine, Text: evidence})
	}
}

// keep remembers a fault that has to be healed, and heals it when its time is
// up, whatever the plan does meanwhile.
func (r *runner) keep(ctx context.Context, h landed) {
	if h.step.Fault.Permanent() {
		return
	}
	r.mu.Lock()
	r.inForce = append(r.inForce, h)
	r.mu.Unlock()
	if h.step.Fault.For == 0 || h.step.Fault.Kind == ringproof.FaultAgentCrash {
		return // an agent that crashed comes back by itself; For is how long it is down
	}
	r.world.Go(ctx, "heal "+h.step.Name, func(ctx context.Context) {
		if r.world.Sleep(ctx, h.step.Fault.For.Std()) == nil && r.release(h) {
			r.undo(ctx, h)
			r.count(&r.healing, -1)
		}
	})
}

// release takes the fault off the list; false when the heal phase already has.
func (r *runner) release(h landed) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.inForce, func(other landed) bool { return other.step.Name == h.step.Name })
	if i < 0 {
		return false
	}
	r.inForce = slices.Delete(r.inForce, i, i+1)
	r.healing++
	return true
}

// undo heals one target after another, as far apart as the fault says.
func (r *runner) undo(ctx context.Context, h landed) {
	groups := [][]string{h.targets}
	if h.step.Fault.Stagger > 0 {
		groups = nil
		for _, t := range h.targets {
			groups = append(groups, []string{t})
		}
	}
	for i, group := range groups {
		if i > 0 && r.world.Sleep(ctx, h.step.Fault.Stagger.Std()) != nil {
			return
		}
		if err := r.world.Heal(ctx, h.step, group); err != nil {
			r.record.Record(ringproof.Event{Kind: ringproof.EventStepMissed, Step: h.step.Name, Text: "healing: " + err.Error()})
			continue
		}
		r.record.Record(ringproof.Event{Kind: ringproof.EventFaultHealed, Step: h.step.Name, Fault: h.step.Fault.Kind, Machine: strings.Join(group, ",")})
	}
}

// assert waits for the state.
func (r *runner) assert(ctx context.Context, s ringproof.Step) error {
	a := *s.Assert
	within := a.Within.Std()
	if within == 0 {
		within = defaultTimeout
	}
	met := false
	began := r.world.Now()
	err := r.wait(ctx, within, func() bool { met = r.holds(a, began); return met })
	if err != nil || met {
		return err
	}
	if unhalted := r.unhalted(); a.Halted && unhalted != "" {
		return short("expected the subject to halt within %v, %s", within, unhalted)
	}
	return short("expected %s within %v, saw %s", claimed(a), within, r.instead(a, began))
}

// heeded is for how long a subject may be about to make a change that it decides on by what is so
// as an assert begins: that none is made can't be seen at the first look.
const heeded = 5 * time.Second

// holds reports whether all is as asserted, the ring by a look that began since.
// Equal hashes are read with the evidence, when nothing is written any more, and
// judged by the hash-equal check.
func (r *runner) holds(a ringproof.Assert, since ringproof.Instant) bool {
	if a.Halted && r.unhalted() != "" {
		return false
	}
	if a.Changes != nil && r.world.Now().Sub(since) < min(heeded, cmp.Or(a.Within.Std(), defaultTimeout)-poll) {
		return false
	}
	if a.OfRing() {
		o := r.record.observation()
		idle := slices.ContainsFunc(o.Members, func(m ringproof.MemberView) bool { return !m.Serving })
		if o.At <= since || !o.Fresh || idle || a.Voters > 0 && len(o.Voters()) != a.Voters ||
			a.Learners != nil && len(o.Learners()) != *a.Learners {
			return false
		}
	}
	return len(r.record.unmet(a)) == 0
}

// claimed is an assert in words.
func claimed(a ringproof.Assert) string {
	wants := a.Wants()
	if a.OfRing() {
		wants = append(wants, "all serving")
	}
	return strings.Join(wants, ", ")
}

// instead is what there is in place of what was asserted.
func (r *runner) instead(a ringproof.Assert, since ringproof.Instant) string {
	saw := r.record.unmet(a)
	if a.OfRing() {
		saw = append([]string{r.lastObserved(since)}, saw...)
	}
	return strings.Join(saw, "; ")
}

// lastObserved is what the ring is, by the last observation.
func (r *runner) lastObserved(since ringproof.Instant) string {
	o := r.record.observation()
	switch {
	case o.At <= since:
		return "nothing: no look at the ring ended since"
	case !o.Fresh:
		return "a member list that no quorum confirms: " + o.String()
	}
	return o.String()
}

// unhalted says what the subject did instead of halting; "" when it halted. What it said before
// the quorum was lost is of something else.
func (r *runner) unhalted() string {
	events, _ := r.record.since(0)
	h := ringproof.History{Plan: r.plan, Events: events, Observations: r.record.looks()}
	since, none := checks.QuorumLost(&h)
	if none != "" {
		return "saw no disaster: " + none
	}
	waits := ""
	for _, e := range events {
		switch {
		case e.At >= since && e.Kind == ringproof.EventHalted:
			return ""
		case e.At >= since && e.Kind == ringproof.EventWaiting:
			waits = e.Text
		}
	}
	if waits != "" {
		return "saw it only wait: " + waits
	}
	return "saw it say nothing"
}

func byCall(operations []ringproof.Operation) {
	slices.SortFunc(operations, func(a, b ringproof.Operation) int {
		if a.Call != b.Call {
			return int(min(max(a.Call-b.Call, -1), 1))
		}
		return a.ID - b.ID
	})
}
