// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

// owned is what each machine's etcd is asked to have at the start: its release, and
// its flags as etcd's own.
func owned(r ringproof.RingSpec) map[string]ringproof.Own {
	ring := map[string]string{}
	set := func(flag string, value int64) {
		if value > 0 {
			ring[flag] = fmt.Sprint(value)
		}
	}
	set("heartbeat-interval", r.Heartbeat.Std().Milliseconds())
	set("election-timeout", r.Election.Std().Milliseconds())
	set("snapshot-count", int64(r.SnapCount))
	all := map[string]ringproof.Own{}
	for i := range r.Machines {
		machine := fmt.Sprintf("m%d", i+1)
		all[machine] = r.Own(machine)
		maps.Copy(all[machine].Flags, ring)
	}
	return all
}

// change notes that a machine's etcd was asked to have what a restart gives it. What
// came of one that failed nobody knows.
func (r *runner) change(op ringproof.Op, machine string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, known := r.own[machine]
	if !known || err != nil {
		delete(r.own, machine)
		return
	}
	own.Version = cmp.Or(op.Version, own.Version)
	maps.Copy(own.Flags, op.Flags)
	r.own[machine] = own
}

// upgrade notes that all members were asked to run a release, but those on machines with
// one of their own.
func (r *runner) upgrade(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := cmp.Or(r.upgraded, r.plan.Ring.Version)
	for machine, own := range r.own { // order: each for itself
		if own.Version == before {
			own.Version = to
			r.own[machine] = own
		}
	}
	r.upgraded = to
}

// runs is what the members were last asked to run.
func (r *runner) runs() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.upgraded, r.plan.Ring.Version)
}

// outdated reports whether the member runs another release than it was asked to, where
// an upgrade was asked for.
func (r *runner) outdated(m ringproof.MemberView) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, known := r.own[m.Machine]
	return r.upgraded != "" && known && own.Version != "v"+m.Version
}

// lingering is for how long nothing must happen in a ring some of whose members may still be
// spoken to in plain text by their peers, after they were asked to speak TLS; 0: there are
// none. What is not over goes on as soon as somebody leads again.
func (r *runner) lingering(o ringproof.Observation) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.encrypted && slices.ContainsFunc(o.Machines, func(m ringproof.MachineView) bool { return m.Etcd && m.Clear != ringproof.No }) {
		return 15 * time.Second
	}
	return 0
}

// listedPlain reports whether others are told to speak plain text to the member as its
// peers, after they were asked to speak TLS.
func (r *runner) listedPlain(m ringproof.MemberView) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.encrypted && m.Plain()
}
