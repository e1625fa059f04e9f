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
// one of their own; and where an upgrade was taken back, those that have had it.
func (r *runner) upgrade(to string) {
	o := r.record.observation()
	r.mu.Lock()
	defer r.mu.Unlock()
	before := cmp.Or(r.upgraded, r.plan.Ring.Version)
	for machine, own := range r.own { // order: each for itself
		m, on := o.On(machine)
		had := on && !ringproof.Upgradable(before, to) && "v"+m.Version == before
		if own.Version == before && !had {
			own.Version = to
			r.own[machine] = own
		}
	}
	r.upgraded, r.withdrawn = to, withdrawal{}
	if !ringproof.Upgradable(before, to) {
		r.withdrawn.release = before
		for _, m := range o.Members {
			r.withdrawn.stay = append(r.withdrawn.stay, m.Machine)
		}
	}
}

// withdrawal is an upgrade that was taken back.
type withdrawal struct {
	release string   // "": none was
	stay    []string // machines that held members then; one of them may have had its turn already
	turned  bool     // and came to the release since
}

// granted reports whether the member may run what was taken back: it was its turn, or it joined
// since, and a ring takes who joins with the latest release that a member runs.
func (w *withdrawal) granted(m ringproof.MemberView) bool {
	switch {
	case w.release == "" || "v"+m.Version != w.release:
		return false
	case !slices.Contains(w.stay, m.Machine):
		return true
	case w.turned:
		return false
	}
	w.turned = true
	return true
}

// inTurn notes who came to run what was asked for and taken back, and may: it can't go back.
func (r *runner) inTurn(o ringproof.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range o.Members {
		if own, known := r.own[m.Machine]; known && own.Version == r.upgraded && r.withdrawn.granted(m) {
			own.Version = r.withdrawn.release
			r.own[m.Machine] = own
		}
	}
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
