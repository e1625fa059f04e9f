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

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

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
