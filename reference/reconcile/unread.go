// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reconcile

import (
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// Unread says what it means that the ring can't be read, and returns that. Every process says
// it, as nobody leads then.
func (r *Reconciler) Unread(spec ring.Spec, why error) ring.Decision {
	now := r.Log.Host.Monotonic()
	if !r.away {
		r.away, r.unread = true, now
	}
	d := r.Next(spec, ring.Observed{Why: why.Error(), Unread: now - r.unread})
	r.Log.Say(host.EventWaiting, "the ring can't be read: "+why.Error())
	if d.Halt != "" && WantsUser(why) {
		// It answers: nothing is lost, and nothing to be restored.
		d = ring.Decision{Halt: "etcd's authentication is on, and the automation has no user of its own: nothing is repaired until it is off", Commands: []string{"etcdctl auth disable"}}
	}
	if d.Halt != "" {
		r.halt(d)
	}
	return d
}

// Read says that the ring can be read: the next time that it can't is another one.
func (r *Reconciler) Read() {
	if r.away {
		r.away = false
		r.Log.Forget(host.EventHalted)
	}
}

// Barred calls a person where err says that etcd refuses every write for an alarm of a member,
// and returns that halt; else none. Whoever asks for the lead in vain does: nobody leads then,
// as nobody can write that they do.
func (r *Reconciler) Barred(err error) (d ring.Decision) {
	for alarm, refusal := range map[string]error{ring.NoSpace: rpctypes.ErrNoSpace, ring.Corrupt: rpctypes.ErrCorrupt} { // order: err is one of them
		if err != nil && strings.Contains(err.Error(), refusal.Error()) {
			d = ring.Barred(alarm, "a member")
			r.halt(d)
		}
	}
	return d
}

// goesOn says that the halt is over: the next is another one, and so is what was waited for
// before.
func (r *Reconciler) goesOn() {
	if r.halted {
		r.halted = false
		r.Log.Forget(host.EventHalted)
		r.Log.Forget(host.EventWaiting)
	}
}

// halt calls a person, once for each reason.
func (r *Reconciler) halt(d ring.Decision) {
	r.halted = true
	if !r.Log.News(host.EventHalted, d.Halt) {
		return
	}
	for _, command := range d.Commands {
		r.Log.Host.Log(host.Line{Event: host.EventHalted, Text: d.Halt, Command: command})
	}
}

// WantsUser reports whether a member refused to answer without a user's name.
func WantsUser(why error) bool {
	for _, refusal := range []error{rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed} {
		if strings.Contains(why.Error(), refusal.Error()) {
			return true
		}
	}
	return false
}
