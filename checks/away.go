// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// away reports whether the member had been gone for as long as the plan lets a
// machine be absent before a spare takes its place: a fault had cut it off for all
// of that time, or nobody saw it serve. Its log may be whole, and its machine come back.
func (l *ledger) away(member ringproof.MemberID, at ringproof.Instant) bool {
	where, known := l.homes[member]
	if !known || l.h.Plan.Ring.ReplaceAfter == 0 {
		return false
	}
	patience, unseen := l.h.Plan.Ring.ReplaceAfter.Std(), l.unseen(member, at)
	if at.Sub(unseen) >= patience || l.aged(unseen, at) || at.Sub(l.severed(where.machine, at)) >= patience {
		return true
	}
	return slices.ContainsFunc(events(l.h, ringproof.EventFaultHealed), func(e ringproof.Event) bool {
		return e.At <= at && l.unheard(member, e.At, at).Sub(l.severed(where.machine, e.At-1)) >= patience
	})
}

// unheard is until when nobody can have heard of a member that a fault had cut off until it healed. Whose packets
// took half a second longer was given up by who had asked it a moment before; and who was not seen to serve once
// they took no longer, or for less than a visit, was as silent as before.
func (l *ledger) unheard(member ringproof.MemberID, healed, at ringproof.Instant) ringproof.Instant {
	switch {
	case l.observed(at) > l.observed(healed) && !l.visits(member, healed, at):
		return at
	case healed > at.Add(-visit.Std()):
		return healed - 1
	}
	return 0
}

// visits reports whether the member served for as long as a visit between the two moments.
func (l *ledger) visits(member ringproof.MemberID, from, to ringproof.Instant) bool {
	begun, last, serves := from, from, true // from the first look on, for all that anybody knows
	for _, o := range l.h.Observations[l.observed(from):l.observed(to)] {
		m, listed := o.Member(member)
		switch up := listed && m.Serving; {
		case up && !serves:
			begun, last, serves = o.At, o.At, true
		case up:
			last = o.At
		case serves && last.Sub(begun) >= visit.Std():
			return true
		default:
			serves = false
		}
	}
	return serves && to.Sub(begun) >= visit.Std()
}

// aged reports whether hours passed between the two moments, by the clocks of the
// machines: a restart in which they do is a long one.
func (l *ledger) aged(from, to ringproof.Instant) bool {
	for _, e := range events(l.h, ringproof.EventFaultLanded) {
		if e.Fault != ringproof.FaultTimePasses || e.At > to {
			continue
		}
		over := func(h ringproof.Event) bool { return h.Step == e.Step && h.At < from }
		if !slices.ContainsFunc(events(l.h, ringproof.EventFaultHealed), over) {
			return true
		}
	}
	return false
}

// severed is since when a fault cuts the machine off; at when none does.
func (l *ledger) severed(machine string, at ringproof.Instant) ringproof.Instant {
	since, force := at, map[string]bool{}
	for _, e := range events(l.h, ringproof.EventFaultLanded, ringproof.EventFaultHealed) {
		hit := e.Machine == "" || slices.Contains(strings.Split(e.Machine, ","), machine)
		if e.At > at || !hit || !l.severs(e) {
			continue
		}
		switch healed := e.Kind == ringproof.EventFaultHealed; {
		case !healed && len(force) == 0:
			since, force[e.Step] = e.At, true
		case !healed:
			force[e.Step] = true
		default:
			delete(force, e.Step)
		}
		if len(force) == 0 {
			since = at
		}
	}
	return since
}

// severs reports whether the fault takes a machine's agent and etcd from the
// others. An etcd whose agent alone is silent serves on.
func (l *ledger) severs(e ringproof.Event) bool {
	switch e.Fault {
	case ringproof.FaultPartition, ringproof.FaultReplyLoss, ringproof.FaultSlowNetwork, ringproof.FaultPacketLoss, ringproof.FaultClockSkew, ringproof.FaultSleep:
		return true
	case ringproof.FaultKill, ringproof.FaultPause:
		f, known := faultOf(l.h.Plan, e.Step)
		return known && (f.Scope == "machine" || f.Permanent()) // a loss that was downgraded
	}
	return false
}

// visit is how long a member must serve before the others have heard of it: its agent
// comes up, asks the ring, and is asked for, each once a second or so.
const visit = 2 * ringproof.Duration(time.Second)

// unseen is when the member was last seen to serve before at. A visit that was too short
// for others to hear of it doesn't count: a machine that was off for four seconds, up for
// one and off again has been away, for all that anybody knows, since the first.
func (l *ledger) unseen(member ringproof.MemberID, at ringproof.Instant) ringproof.Instant {
	end, serves := at, false // when the visit ended that is looked at: of none long enough the first
	looks := l.h.Observations[:l.observed(at)]
	for i, o := range slices.Backward(looks) {
		m, listed := o.Member(member)
		switch up := listed && m.Serving; {
		case up && i == len(looks)-1:
			return o.At
		case up && serves && end.Sub(o.At) >= visit.Std():
			return end
		case up && !serves:
			end, serves = o.At, true
		case !up:
			serves = false
		}
	}
	return end
}
