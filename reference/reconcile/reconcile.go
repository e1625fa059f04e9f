// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package reconcile brings a ring to what was asked for: view, observe, decide on
// one change, make it if the decision still holds, log it, and look again. One
// process at a time leads; whichever agent or controller it is runs this. How its
// machines are hosted, and how an etcd is started on them, is no concern of it.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// Reconciler is one process's part in the automation of a ring.
type Reconciler struct {
	Ring *admin.Ring
	Log  *host.Recorder
	Next func(ring.Spec, ring.Observed) ring.Decision
	Do   func(context.Context, *admin.Ring, ring.Action, admin.Fence) error
	// Lead is what it writes into the ring to lead. No other process, and no other life
	// of this one, has its nonce.
	Lead admin.Lead
	// Queues: it stands in a queue for the lead, and may succeed the one who has it where etcd takes
	// no write. Where something else says who acts, such as a Lease of Kubernetes, no other process
	// has a lease of the ring, and none could.
	Queues bool

	observer admin.Observer
	leading  bool
	halted   bool          // what it said last is a halt of its own
	away     bool          // the ring can't be read
	unread   time.Duration // since when, by the monotonic clock
	notes    map[ring.ID]note
}

// Leads reports whether this process leads the automation: it wrote the lead's
// record, under its own lease. Then there is a fence, under which alone it changes
// the ring. If nobody leads it stands for it, and the next view tells who won.
func (r *Reconciler) Leads(ctx context.Context, view admin.View, lease admin.Lease) (f admin.Fence, leads bool, err error) {
	if f, leads = view.Led(r.Lead.Nonce, lease); view.Lead == nil {
		f, leads, err = r.succeed(ctx, view, lease)
	}
	if r.Queues {
		err = cmp.Or(err, r.Ring.Stand(ctx, r.Lead, view, lease.ID))
	}
	if leads {
		err = nil // that there is no room to stand in the queue is no matter to who leads
	}
	if leads && !r.leading {
		r.observer = admin.Observer{}
		r.Log.Host.Log(host.Line{Event: host.EventLeads})
	}
	r.leading = leads
	if view.Lead != nil && !leads {
		r.goesOn() // another speaks
	}
	return f, leads, err
}

// succeed stands for the lead that nobody has. Of those who queue for it only the oldest does, and
// leads without the record where etcd has no room for that.
func (r *Reconciler) succeed(ctx context.Context, view admin.View, lease admin.Lease) (f admin.Fence, leads bool, err error) {
	if r.Queues && !view.First(r.Lead.Nonce) {
		return f, false, nil
	}
	err = r.Ring.Campaign(ctx, r.Lead, view, lease.ID)
	if r.Queues && errors.Is(err, rpctypes.ErrNoSpace) {
		f, leads = view.Succeeds(r.Lead.Nonce, lease)
	}
	return f, leads, err
}

// Bind binds a member that the ring was bootstrapped with to its initial member's disk, and
// reports whether there was one to bind: members are only added once there is none.
func (r *Reconciler) Bind(ctx context.Context, view admin.View, initialMembers []store.InitialMember, f admin.Fence) bool {
	members := view.RingMembers()
	for _, m := range members {
		i := slices.IndexFunc(initialMembers, func(f store.InitialMember) bool { return f.Name == m.Name && f.PeerURL == m.PeerURL })
		if m.Disk == "" && i >= 0 {
			r.act(ctx, ring.Action{Kind: ring.Bind, Member: m.ID, Machine: initialMembers[i].Machine, Disk: initialMembers[i].Disk, On: ring.Roles(members)}, f)
			return true
		}
	}
	return false
}

// Step observes the ring and does the one thing that is next.
func (r *Reconciler) Step(ctx context.Context, view admin.View, spec ring.Spec, f admin.Fence) ring.Decision {
	now := r.Log.Host.Now
	if len(view.Missing()) > 0 && view.Whole() && !r.Log.DryRun {
		_ = r.Ring.NoteLeft(ctx, view, f) // the next step tries again
	}
	begun := now()
	seen := r.observer.Observe(ctx, r.Ring, view)
	if now().Sub(begun) > admin.LeaseTTL/2 {
		// Member changes can't be fenced by a comparison. A lead that looked for
		// so long may no longer be it: it looks again.
		return ring.Decision{Wait: "the look at the ring took too long"}
	}
	d := r.Next(spec, seen)
	switch {
	case d.Halt != "":
		r.halt(d)
	case d.Action != nil:
		r.goesOn()
		r.act(ctx, *d.Action, f)
	default:
		r.goesOn()
		r.Log.Say(host.EventWaiting, d.Wait)
	}
	return d
}

// act makes one change. One that fails is none to report: the next view shows what
// became of it.
func (r *Reconciler) act(ctx context.Context, a ring.Action, f admin.Fence) {
	line := host.Line{Action: string(a.Kind), Command: a.String(), Target: a.Machine, Text: a.Why}
	if a.Member != 0 {
		line.Member = a.Member.String()
	}
	if !r.Log.DryRun {
		r.Log.Forget(host.EventWaiting)
	}
	if err := r.Log.Act(line, func() error { return r.Do(ctx, r.Ring, a, f) }); err != nil {
		// etcd refuses while members are not connected for five seconds; what
		// it refused now it will refuse again at once.
		_ = r.Log.Host.Sleep(ctx, 500*time.Millisecond)
	}
}

// Tidy takes away the records of members that have left, and the notes of removals that came to
// nothing. It is for a ring in which nothing is left to do.
func (r *Reconciler) Tidy(ctx context.Context, view admin.View, f admin.Fence) error {
	if r.Log.DryRun {
		return nil
	}
	if left := view.Outlived(); len(left) > 0 {
		if err := r.Ring.Forget(ctx, left, f); err != nil {
			return err
		}
	}
	if stayed := r.stayed(view); len(stayed) > 0 {
		return r.Ring.Stayed(ctx, stayed, view, f)
	}
	return nil
}

// note is one that lets a member go, and since when this process has seen it.
type note struct {
	revision int64
	since    time.Duration
}

// outlasts is longer than a removal takes from its note on. A person makes one too, beside
// whoever leads.
const outlasts = 2 * admin.LeaseTTL

// stayed lists the members that were let go so long ago that nobody is about to remove them.
func (r *Reconciler) stayed(view admin.View) (all []ring.ID) {
	now, seen := r.Log.Host.Monotonic(), map[ring.ID]note{}
	for _, id := range view.Stays() {
		n := r.notes[id]
		if revision := view.Noted(id); n.revision != revision {
			n = note{revision, now}
		}
		if now-n.since > outlasts {
			all = append(all, id)
		}
		seen[id] = n
	}
	r.notes = seen
	return all
}
