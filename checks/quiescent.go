// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"maps"
	"slices"

	"github.com/ringproof/ringproof"
)

// quiescent: a controller that fights itself, or that restarts etcd for ever,
// passes every look at the state and fails this.
var quiescent = Check{
	Name:   "quiescent",
	Claim:  "Once the ring has converged nothing changes it any more: no membership change, no process ends, no action begins, and nobody writes its object again and again.",
	Source: "Kubernetes' controllers must be idempotent at rest; Sieve's and Acto's oscillation oracles",
	Timed:  true,
	Params: []Param{{"atLeast", "3s", "how long the rest must be to count"}},
	Judge: func(h *ringproof.History, params Values) ringproof.Finding {
		end, over := ended(h)
		rest, ok := restsFrom(h)
		if !over || !ok {
			return unknown("the run has no converged event followed by its end: there was no rest to watch")
		}
		if f, bad := disturbed(h, rest, end); bad {
			return f
		}
		if length, least := end.Sub(rest), params.Duration("atLeast"); length < least {
			return unknown("the ring was watched at rest for %s, expected at least %s", length, least)
		}
		if slices.Contains(h.Plan.Untold, ringproof.EventActionBegun) {
			return pass("no member came or went and no process ended for %s; what else the subject did it doesn't tell", end.Sub(rest))
		}
		return pass("nothing changed for %s", end.Sub(rest))
	},
	suits: safely,
}

// restsFrom returns the first convergence after the last fault, or the last one of a run
// without a fault.
func restsFrom(h *ringproof.History) (ringproof.Instant, bool) {
	if phases := events(h, ringproof.EventHealPhase); len(phases) > 0 {
		e, ok := convergedAfter(h, phases[len(phases)-1].At)
		return e.At, ok
	}
	all := events(h, ringproof.EventConverged)
	if len(all) == 0 {
		return 0, false
	}
	return all[len(all)-1].At, true
}

// bind is the one action that changes nothing but a record of the automation
// itself: on which disk a member lives. After a power cut nobody leads the
// automation until the last lead's lease is over, which may be long after the
// ring is what was asked for. So each member may be bound in the rest, once.
//
// A member is its ID, not its machine: m2, whose disk was lost, is bound again
// as another member.
const bind = "bind"

// bound tells which members' binding was done by the moment. One that only began,
// or failed, may still be owed: whoever began it died, or a fault cut it off. So is
// one whose record was damaged since: a ring that is suspended meanwhile looks as
// asked for, and repairs its records when it is resumed. Damage that was missed may be done
// all the same: whoever asked for it was not answered in time.
func bound(h *ringproof.History, by ringproof.Instant) map[ringproof.MemberID]bool {
	members := map[ringproof.MemberID]bool{}
	for _, e := range events(h, ringproof.EventActionDone, ringproof.EventFaultLanded, ringproof.EventFaultMissed) {
		switch {
		case e.At > by:
		case e.Fault == ringproof.FaultKeysDamaged:
			clear(members)
		case e.Action == bind:
			members[e.Member] = true
		}
	}
	return members
}

// clearing is how a machine that was away when its member left makes its disk fit for
// another. It changes nothing of the ring, and may have to wait: as long as a second
// machine was called m2 a moment ago, m2 acts on no member list. So each disk of a
// member that has left may be cleared in the rest, once; and before that its etcd be
// started once, by a machine that can't read the list yet, and end as it hears that it has left.
const clearing = "clear"

// disowning is the same where the log was lost before.
const disowning = "disown"

const launching = "launch"

// uncleared counts, machine by machine, the members that had left by the moment
// without a disk cleared for it. It may be cleared before anybody sees that its
// member has left.
func uncleared(h *ringproof.History, by ringproof.Instant) map[string]int {
	machines := map[string]int{}
	for _, e := range events(h, ringproof.EventMemberRemoved, ringproof.EventActionDone) {
		switch {
		case e.At > by:
		case e.Kind == ringproof.EventMemberRemoved:
			machines[e.Machine]++
		case e.Action == clearing, e.Action == disowning:
			machines[e.Machine]--
		}
	}
	return machines
}

// debts are what follows of itself from what was done by some moment, and may come after it: a
// record of each member that was added, a disk cleared for each that left, and until it is,
// one start of its etcd, which ends.
type debts struct {
	bound                map[ringproof.MemberID]bool
	clears, starts, ends map[string]int
}

func owedAt(h *ringproof.History, at ringproof.Instant) debts {
	left := uncleared(h, at)
	return debts{bound(h, at), left, maps.Clone(left), maps.Clone(left)}
}

// pays reports whether the event is one that is owed. Begun is enough: no fault excuses a second
// attempt.
func (d debts) pays(e ringproof.Event) bool {
	take := func(from map[string]int) bool {
		owed := d.clears[e.Machine] > 0 && from[e.Machine] > 0
		if owed {
			from[e.Machine]--
		}
		return owed
	}
	switch {
	case e.Action == bind:
		owed := !d.bound[e.Member]
		d.bound[e.Member] = true
		return owed
	case e.Action == clearing, e.Action == disowning:
		return take(d.clears)
	case e.Action == launching:
		return take(d.starts)
	case e.Kind == ringproof.EventProcessExited:
		return take(d.ends)
	}
	return false
}

func disturbed(h *ringproof.History, from, to ringproof.Instant) (ringproof.Finding, bool) {
	owed := owedAt(h, from)
	for _, e := range events(h, ringproof.EventActionBegun, ringproof.EventProcessExited,
		ringproof.EventMemberAdded, ringproof.EventMemberPromoted, ringproof.EventMemberRemoved) {
		if e.At <= from || e.At >= to || owed.pays(e) {
			continue
		}
		return with(fail(e.At, "expected rest after the convergence at %s, saw %s", from, e.Kind), e.String()), true
	}
	c := newConfig()
	for _, change := range h.Evidence.Changes {
		if c.apply(change) && !change.Foreign && change.At > from && change.At < to {
			return with(fail(change.At, "expected rest after the convergence at %s, saw %s of %s", from, change.Kind, change.Member), change.String()), true
		}
	}
	return rewritten(h, lastStir(h, to), to)
}

// lastStir is when something last happened of which a status may tell. The convergence is not waited
// for: it takes longer to be seen than a controller that lost its Lease goes on beside its successor,
// each with a status of its own.
func lastStir(h *ringproof.History, by ringproof.Instant) (last ringproof.Instant) {
	for _, e := range events(h, ringproof.EventFaultLanded, ringproof.EventFaultHealed, ringproof.EventStepDone, ringproof.EventStepFailed,
		ringproof.EventActionBegun, ringproof.EventActionDone, ringproof.EventActionFailed, ringproof.EventBoot, ringproof.EventLeads,
		ringproof.EventProcessStarted, ringproof.EventProcessExited, ringproof.EventDiskReplaced, ringproof.EventAlarm, ringproof.EventLeaderChanged,
		ringproof.EventMemberAdded, ringproof.EventMemberStarted, ringproof.EventMemberPromoted, ringproof.EventMemberRemoved,
		ringproof.EventMemberUp, ringproof.EventMemberDown) {
		if e.At < by && !looks(h, e) {
			last = max(last, e.At)
		}
	}
	return last
}

// looks reports whether an event is of a step that only looks at the ring.
func looks(h *ringproof.History, e ringproof.Event) bool {
	return slices.ContainsFunc(h.Plan.Steps, func(s ringproof.Step) bool { return s.Name == e.Step && e.Step != "" && s.Assert != nil })
}

// mostWrites of the ring's object are those of a status that follows what has come to rest.
const mostWrites = 2

// rewritten finds an object that is written for ever: each write wakes all that watch it, and
// its own controller first.
func rewritten(h *ringproof.History, from, to ringproof.Instant) (ringproof.Finding, bool) {
	writes, last := 0, ""
	for _, s := range h.Evidence.Statuses {
		if s.At <= from || s.At >= to || s.Object == "" {
			continue
		}
		if last != "" && s.Object != last {
			writes++
		}
		if last = s.Object; writes > mostWrites {
			return fail(s.At, "expected the ring's object to rest once nothing happens any more, at %s, saw it written anew before each of %d looks", from, writes), true
		}
	}
	return ringproof.Finding{}, false
}
