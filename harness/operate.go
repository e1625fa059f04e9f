// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

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
	case ringproof.OpSnapshot:
		return true // the file was written; a check judges what is in it
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
