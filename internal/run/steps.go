// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

const (
	defaultTimeout = 60 * time.Second
	findWithin     = 10 * time.Second
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

func (l *ledger) Admit(f ringproof.Fault, targets []string) (ringproof.Fault, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note()
	return l.truth.Admit(f, targets)
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

// steps carries out the plan's steps in order. A step that fails is recorded
// and the next is carried out: what it means is for the checks to say.
func (r *runner) steps(ctx context.Context) error {
	previous := r.record.mark()
	for _, s := range r.plan.Steps {
		if isEarly(s) {
			continue
		}
		from := previous
		if s.After != nil {
			if err := r.await(ctx, s, from); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				r.fail(s, err)
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
// the plan. Only their fulfilment overlaps.
func (r *runner) inOrder(ctx context.Context, s ringproof.Step) error {
	if s.Op == nil || s.Op.Kind == ringproof.OpRestart || s.Op.Kind == ringproof.OpRoll {
		return nil
	}
	return r.wait(ctx, defaultTimeout, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.asked[s.Name] || r.done[s.Name]
	})
}

func (r *runner) detached() []string {
	var names []string
	for _, s := range r.plan.Steps {
		if s.Detach {
			names = append(names, s.Name)
		}
	}
	return names
}

// await waits for the step's trigger among the events since the step before
// it began.
func (r *runner) await(ctx context.Context, s ringproof.Step, from int) error {
	t := *s.After
	within := t.Timeout.Std()
	if within == 0 {
		within = defaultTimeout
	}
	met := false
	if err := r.wait(ctx, within, func() bool { met = r.met(t, from); return met }); err != nil {
		return err
	}
	if !met {
		return fmt.Errorf("%s within %v: %w", describe(t), within, errTimeout)
	}
	return r.world.Sleep(ctx, t.Delay.Std())
}

func (r *runner) met(t ringproof.Trigger, from int) bool {
	n := r.record.count(from, func(e *ringproof.Event) bool {
		return e.Kind == t.Event && (t.Step == "" || t.Step == e.Step) && (t.Action == "" || t.Action == e.Action)
	})
	return n >= max(t.Nth, 1)
}

func describe(t ringproof.Trigger) string {
	return strings.Join(strings.Fields(fmt.Sprintf("no %s %s %s number %d", t.Event, t.Action, t.Step, max(t.Nth, 1))), " ")
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
	r.record.Record(ringproof.Event{Kind: ringproof.EventStepBegun, Step: s.Name, Text: sentence(s)})
	within := s.Timeout.Std()
	if within == 0 {
		within = defaultTimeout
	}
	acting, cancel := r.world.Timeout(ctx, within)
	defer cancel()
	var err error
	switch {
	case s.Op != nil:
		err = r.op(acting, s, within)
	case s.Fault != nil:
		err = r.harm(ctx, acting, s)
	case s.Assert != nil:
		err = r.assert(ctx, s)
	}
	if err != nil {
		r.fail(s, err)
		return
	}
	r.end(s)
	r.record.Record(ringproof.Event{Kind: ringproof.EventStepDone, Step: s.Name})
}

func (r *runner) fail(s ringproof.Step, err error) {
	r.end(s)
	r.record.Record(ringproof.Event{Kind: ringproof.EventStepFailed, Step: s.Name, Text: err.Error()})
}

func (r *runner) end(s ringproof.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[s.Name] = true
}

// sentence is the step as a person would say it.
func sentence(s ringproof.Step) string {
	switch {
	case s.Op != nil && s.Op.Kind == ringproof.OpScale:
		return fmt.Sprintf("scale to %d", s.Op.To)
	case s.Op != nil:
		return strings.TrimSpace(string(s.Op.Kind) + " " + s.Op.Target)
	case s.Fault != nil:
		return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %s", s.Fault.Kind, s.Fault.Shape, s.Fault.Action, s.Fault.Phase, s.Fault.Target)), " ")
	case s.Assert != nil:
		return "assert"
	}
	return ""
}

// op asks the subject, and waits until the ring is what was asked for.
func (r *runner) op(ctx context.Context, s ringproof.Step, within time.Duration) error {
	targets, err := r.targets(s.Op.Target)
	if err != nil {
		return err
	}
	before := r.wanted()
	if s.Op.Kind == ringproof.OpScale && !s.Op.Refused {
		r.want(s.Op.To)
	}
	text, err := r.world.Do(ctx, s, targets)
	r.mu.Lock()
	r.asked[s.Name] = true
	r.mu.Unlock()
	if s.Op.Refused {
		return r.refusal(s, text, err)
	}
	if err != nil {
		if s.Op.Kind == ringproof.OpScale {
			r.want(before)
		}
		return err
	}
	if s.Op.Kind == ringproof.OpReplace {
		r.mu.Lock()
		r.replaced = targets[0]
		r.mu.Unlock()
	}
	return r.reached(ctx, s, within, targets)
}

// refusal records that the subject refused, or fails because it didn't. One
// that broke or gave no answer has not refused.
func (r *runner) refusal(s ringproof.Step, text string, err error) error {
	if err == nil {
		return fmt.Errorf("%s should have been refused and was taken: %s", sentence(s), text)
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
		if o.At <= asked {
			return false // from before the operation
		}
		switch s.Op.Kind {
		case ringproof.OpScale:
			over = r.wanted() != s.Op.To || r.asWanted(o)
		case ringproof.OpReplace:
			_, still := o.On(targets[0])
			over = !still && r.asWanted(o)
		case ringproof.OpMoveLeader:
			leader, ok := o.Leader()
			over = ok && leader.Machine == targets[0]
		default:
			over = r.asWanted(o)
		}
		return over
	})
	if !over {
		return fmt.Errorf("%s: the ring did not get there within %v: %w", sentence(s), within, errTimeout)
	}
	return nil
}

// targets resolves a selector against the ring as it is now.
func (r *runner) targets(selector string) ([]string, error) {
	if selector == "" {
		return nil, nil
	}
	return faults.Select(selector, r.record.observation())
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

// harm applies a fault: as it is, or milder when the ledger finds it unfair.
func (r *runner) harm(ctx, acting context.Context, s ringproof.Step) error {
	targets, err := r.find(acting, s.Fault.Target)
	if err != nil {
		r.record.Record(ringproof.Event{Kind: ringproof.EventFaultMissed, Step: s.Name, Fault: s.Fault.Kind, Text: err.Error()})
		return err
	}
	admitted, reason := r.ledger.Admit(*s.Fault, targets)
	if reason != "" {
		r.record.Record(ringproof.Event{Kind: ringproof.EventFaultDowngraded, Step: s.Name, Fault: s.Fault.Kind,
			Machine: strings.Join(targets, ","), Text: fmt.Sprintf("to %q: %s", admitted.Kind, reason)})
		if admitted.Kind == "" {
			return nil
		}
		s.Fault = &admitted
	}
	began := r.world.Now()
	evidence, err := r.world.Do(acting, s, targets)
	if err != nil {
		r.record.Record(ringproof.Event{Kind: ringproof.EventFaultMissed, Step: s.Name, Fault: s.Fault.Kind, Machine: strings.Join(targets, ","), Text: err.Error()})
		r.keep(ctx, harm{s, targets, true})
		return err
	}
	if evidence != "" { // else it is armed, and the world tells when it goes off
		r.landed(s, targets, evidence, began)
	}
	r.keep(ctx, harm{s, targets, false})
	return nil
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

// keep remembers a harm that has to be healed, and heals it when its time is
// up, whatever the plan does meanwhile.
func (r *runner) keep(ctx context.Context, h harm) {
	if h.step.Fault.Permanent() {
		return
	}
	r.mu.Lock()
	r.harmed = append(r.harmed, h)
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

// release takes the harm off the list; false when the heal phase already has.
func (r *runner) release(h harm) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.harmed, func(other harm) bool { return other.step.Name == h.step.Name })
	if i < 0 {
		return false
	}
	r.harmed = slices.Delete(r.harmed, i, i+1)
	r.healing++
	return true
}

// undo heals one target after another, as far apart as the fault says.
func (r *runner) undo(ctx context.Context, h harm) {
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
			r.record.Record(ringproof.Event{Kind: ringproof.EventStepFailed, Step: h.step.Name, Text: "healing: " + err.Error()})
			continue
		}
		r.record.Record(ringproof.Event{Kind: ringproof.EventFaultHealed, Step: h.step.Name, Fault: h.step.Fault.Kind, Machine: strings.Join(group, ",")})
	}
}

// assert waits for the state.
func (r *runner) assert(ctx context.Context, s ringproof.Step) error {
	a := s.Assert
	within := a.Within.Std()
	if within == 0 {
		within = defaultTimeout
	}
	unmet := ""
	began := r.world.Now()
	err := r.wait(ctx, within, func() bool { unmet = r.unmet(*a, began); return unmet == "" })
	if err == nil && unmet != "" {
		err = fmt.Errorf("within %v: %s", within, unmet)
	}
	return err
}

// unmet says what is not as asserted. Equal hashes are read with the evidence,
// when nothing is written any more, and judged by the hash-equal check.
func (r *runner) unmet(a ringproof.Assert, began ringproof.Instant) string {
	o := r.record.observation()
	switch {
	case a.Halted:
		return r.unhalted()
	case o.At <= began:
		return "the ring was not observed since"
	case !o.Fresh:
		return "the member list can't be read with a quorum"
	case a.Voters > 0 && len(o.Voters()) != a.Voters:
		return fmt.Sprintf("%d voters, want %d", len(o.Voters()), a.Voters)
	case a.Learners != nil && len(o.Learners()) != *a.Learners:
		return fmt.Sprintf("%d learners, want %d", len(o.Learners()), *a.Learners)
	}
	for _, m := range o.Members {
		if !m.Serving {
			return fmt.Sprintf("member %s on %s is not serving", m.ID, m.Machine)
		}
	}
	return ""
}

func (r *runner) unhalted() string {
	events, _ := r.record.since(0)
	harmed := false
	for _, e := range events {
		harmed = harmed || e.Kind == ringproof.EventFaultLanded
		said := e.Kind == ringproof.EventHalted || e.Kind == ringproof.EventWaiting || e.Kind == ringproof.EventBoot && strings.HasPrefix(e.Text, "wait")
		if harmed && said {
			return ""
		}
	}
	return "the subject has not said that it halts or waits"
}

func byCall(operations []ringproof.Operation) {
	slices.SortFunc(operations, func(a, b ringproof.Operation) int {
		if a.Call != b.Call {
			return int(min(max(a.Call-b.Call, -1), 1))
		}
		return a.ID - b.ID
	})
}
