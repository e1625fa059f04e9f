// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// restartsInTurn: a ring whose pods are all deleted at once, so that they come back with
// other flags, is there again after some seconds, and its membership has never changed.
var restartsInTurn = Check{
	Name:   "restarts-in-turn",
	Claim:  "While members are upgraded, made anew for an edit, or their peers moved to TLS, the subject ends one voter's etcd at a time, while all others serve, and are a quorum if as many were asked for.",
	Source: "etcd's runtime reconfiguration and upgrade guides: one by one, each healthy before the next; kubermatic's rollouts wait for a readiness that is not the pod's own",
	Timed:  true,
	Params: []Param{{"least", "1", "how many ends of voters' etcds, that nobody else may have caused, there must be to judge by"}},
	Judge: func(h *ringproof.History, params Values) ringproof.Finding {
		ended, sizes := 0, sizesOf(h)
		for _, e := range events(h, ringproof.EventProcessExited) {
			last, voter := servedLast(h, e)
			if !voter || byItself(e) || left(h, last, e.Machine) || mayEnd(h, e.Machine, e.At) {
				continue
			}
			ended++
			if n, asked := mostVoters(h, last, e.At), smallest(h, sizes, ringproof.Span{From: e.At, To: e.At}); short(h, n, asked, e.At) {
				return with(fail(e.At, "expected the etcd of %s to be ended once the ring has the %d voters that were asked for, saw %d: without it they are no quorum", e.Machine, asked, n), e.String())
			}
			for _, v := range h.Observations[last].Voters() {
				if v.Machine != e.Machine && (anotherAway(h, v, last, e) || together(h, v, last, e)) && (!mayEnd(h, v.Machine, e.At) || knownAway(h, v.ID, e.At)) {
					return unlessStarved(h, with(fail(e.At, "expected the etcd of %s to be ended while all other voters serve, saw %s away", e.Machine, v.Machine), e.String()))
				}
			}
		}
		if ended < params.Int("least") {
			return unknown("no voter's etcd was seen to be ended by the subject")
		}
		return pass("%s of voters' etcds, each while all others served", ringproof.Counted(ended, "end"))
	},
	suits: ringproof.Plan.TakesTurns,
}

// short reports whether a ring of n voters lacks some that were asked for, and a quorum while one
// of them is ended. A ring that was asked to be so small can't be upgraded otherwise, and of whom
// somebody else has just removed the subject has yet to hear.
func short(h *ringproof.History, n, asked int, at ringproof.Instant) bool {
	foreign := slices.ContainsFunc(h.Evidence.Changes, func(c ringproof.ConfChange) bool {
		return c.Foreign && c.At <= at && c.At >= at.Add(-heeds)
	})
	return n < asked && n-1 < ringproof.Quorum(n) && !foreign
}

// mostVoters is how many voters there may have been when an etcd was ended, or asked to end: as many as a look
// shows from the last that found it serve to the first after its end. On a busy host two seconds lie between
// two looks, and in them a learner was promoted and the next voter ended.
func mostVoters(h *ringproof.History, last int, end ringproof.Instant) (most int) {
	for _, o := range h.Observations[last:] {
		if o.Fresh {
			most = max(most, len(o.Voters()))
		}
		if o.At > end {
			break
		}
	}
	return most
}

// heeds is how long a voter must have been away for nobody to end another's etcd: a look, a
// decision, and an etcd that takes its time to end.
const heeds = 15 * time.Second

// knownAway reports whether a voter had been away for so long, at each look, that the subject must
// have heard of it, whatever fault is why.
func knownAway(h *ringproof.History, voter ringproof.MemberID, at ringproof.Instant) bool {
	from := at.Add(-heeds - h.Evidence.Starved.Within(ringproof.Span{From: at.Add(-heeds), To: at}))
	looks := 0
	for _, o := range h.Observations {
		if o.At < from || o.At >= at {
			continue
		}
		m, listed := o.Member(voter)
		if !o.Fresh || !listed || m.Serving {
			return false
		}
		looks++
	}
	return from > 0 && looks > 1
}

// byItself reports whether an etcd said why it ended before it did: nobody has ended it. The
// write that found no space left may have been asked for seconds before there was space again.
func byItself(end ringproof.Event) bool {
	return strings.Contains(end.Text, ", fatal: ") || strings.Contains(end.Text, ", panic: ")
}

// servedLast is the last look that found the voter serve whose etcd ended; there is one
// after it. voter: there was such a look.
func servedLast(h *ringproof.History, end ringproof.Event) (last int, voter bool) {
	for i, o := range h.Observations[:max(0, len(h.Observations)-1)] {
		if m, on := o.On(end.Machine); o.At < end.At && on && !m.Learner && m.Serving {
			last, voter = i, true
		}
	}
	return last, voter
}

// left reports whether the voter of the machine has left the ring by the look after the
// last, if that read a list: its etcd ends as it is no member any more.
func left(h *ringproof.History, last int, machine string) bool {
	m, _ := h.Observations[last].On(machine)
	next := h.Observations[last+1]
	_, still := next.Member(m.ID)
	return next.Fresh && !still
}

// anotherAway reports whether another voter was away as an etcd ended that was last seen to
// serve in the last look: neither that nor the next found it serve, or it ended in between
// too, of which no look tells. Who ended and served again by the next look may have been back
// before another ended, if it was started before that, and was back before an etcd that still
// ran at that look: one may take seconds to end, and answers nobody meanwhile. Who ended after
// that look ended while this one was away, and is judged by that. Whom a fault had end counts
// no more than where it keeps him away: he may be back before an etcd has ended that was asked
// to before the fault.
func anotherAway(h *ringproof.History, v ringproof.MemberView, last int, end ringproof.Event) bool {
	last = untilLed(h, v, last, end.At)
	v, _ = h.Observations[last].Member(v.ID)
	from, next := h.Observations[last].At, h.Observations[last+1]
	now, still := next.Member(v.ID)
	switch {
	case still && !v.Serving && !now.Serving:
		return !backWithin(h, v.ID, last+1, end.At)
	case !still && next.Fresh:
		return false // it has left: nobody misses it
	}
	return slices.ContainsFunc(events(h, ringproof.EventProcessExited), func(e ringproof.Event) bool {
		back := now.Serving && (e.At < next.At && next.At < end.At || started(h, end.At)[e.Machine]) // less than the time between two looks is enough
		return e.Machine == v.Machine && e.At >= from && e.At <= min(next.At, end.At) && !back && !mayEnd(h, e.Machine, e.At)
	})
}

// untilLed is the last look before an etcd ended, of those that follow a look and in which no quorum
// served, though that of another voter ran: that it didn't serve either is no sign that it was about
// to end. A ring elects for a second, and a member is ended as soon as all have a leader.
func untilLed(h *ringproof.History, other ringproof.MemberView, look int, end ringproof.Instant) int {
	from := h.Observations[look].At
	if slices.ContainsFunc(events(h, ringproof.EventProcessExited), func(e ringproof.Event) bool {
		return e.Machine == other.Machine && e.At >= from && e.At <= end
	}) {
		return look
	}
	for look+2 < len(h.Observations) {
		next := h.Observations[look+1]
		voters := next.Voters()
		serving := slices.DeleteFunc(slices.Clone(voters), func(m ringproof.MemberView) bool { return !m.Serving })
		if len(serving) >= ringproof.Quorum(len(voters)) || max(next.At, next.Until) > end {
			break
		}
		look++
	}
	return look
}

// backWithin reports whether a member may have been back at an instant, though a look that spans it
// did not find it serve: the look after found it. A question to a ring without a leader waits, and is
// given up, while one that is asked once a leader is there is answered at once.
func backWithin(h *ringproof.History, member ringproof.MemberID, look int, at ringproof.Instant) bool {
	if o := h.Observations[look]; o.At >= at || o.Until <= at {
		return false
	}
	if look+1 == len(h.Observations) {
		return true
	}
	m, listed := h.Observations[look+1].Member(member)
	return !listed || m.Serving
}

// together reports whether another voter ceased to serve before an etcd ended, and did not
// serve again before its own end: one look found that neither did, and later both were ended.
// An etcd may answer nobody for seconds before it has ended, and two that were asked to in
// one moment served in one look, and in the next neither did.
func together(h *ringproof.History, v ringproof.MemberView, last int, end ringproof.Event) bool {
	return slices.ContainsFunc(events(h, ringproof.EventProcessExited), func(e ringproof.Event) bool {
		before, voter := servedLast(h, e)
		if e.Machine != v.Machine || !voter || byItself(e) || left(h, before, e.Machine) || mayEnd(h, e.Machine, e.At) {
			return false
		}
		return slices.ContainsFunc(h.Observations, func(o ringproof.Observation) bool {
			one, listed := o.On(end.Machine)
			other, too := o.On(e.Machine)
			return o.At > max(h.Observations[last].At, h.Observations[before].At) && o.At < min(end.At, e.At) && listed && too && !one.Serving && !other.Serving
		})
	})
}

// served reports whether a look between two instants found the member on a machine serve.
func served(h *ringproof.History, machine string, from, to ringproof.Instant) bool {
	return slices.ContainsFunc(h.Observations, func(o ringproof.Observation) bool {
		m, on := o.On(machine)
		return on && m.Serving && o.At > from && o.At < to
	})
}

// mayEnd reports whether a fault or an operator may be why an etcd ends, or is away.
func mayEnd(h *ringproof.History, machine string, at ringproof.Instant) bool {
	return byFault(h, machine, at) || slices.ContainsFunc(h.Plan.Steps, func(s ringproof.Step) bool { return byOperator(h, s, machine, at) })
}

// byFault reports whether a fault may be why: some has hit the machine, and its member was not
// seen to serve since that was over.
func byFault(h *ringproof.History, machine string, at ringproof.Instant) bool {
	for _, e := range events(h, ringproof.EventFaultLanded) {
		if e = felt(h, e); spares(h.Plan, e, machine) || e.At > at.Add(landing) {
			continue
		}
		e.Machine = machine // who hits nobody by name hits all
		if over, ends := faultOver(h, e); !ends || !served(h, machine, over, at) {
			return true
		}
	}
	return false
}

// spares reports whether what landed has not hit the machine's etcd. What is aimed at the
// subject's controller lands on the machine that this one runs on, and no etcd there feels it.
func spares(p ringproof.Plan, landed ringproof.Event, machine string) bool {
	f, _ := faultOf(p, landed.Step)
	other := landed.Machine != machine && (landed.Machine != "" || beside[landed.Fault])
	return other || landed.Machine == "" && beside[landed.Fault] || f.Scope == ringproof.ScopeController || orphans(p, landed)
}

// byOperator reports whether an operator's own restart of the machine's etcd may be why. Whom a
// step restarts is told as it is done; of one that never tells it may be anybody.
func byOperator(h *ringproof.History, s ringproof.Step, machine string, at ringproof.Instant) bool {
	if s.Op == nil || !s.Op.Bounces() || s.Op.InTurn() {
		return false
	}
	begun, during := stepEvents(h, s.Name)
	if !begun || during[0].At > at {
		return false
	}
	over := during[len(during)-1]
	if stepEnds[over.Kind] && over.Machine != "" && over.Machine != machine {
		return false
	}
	return !stepEnds[over.Kind] || over.At >= at || !served(h, machine, over.At, at)
}

// momentary is a fault that is over as soon as it is done: who serves again has come back.
var momentary = map[ringproof.FaultKind]bool{ringproof.FaultKill: true, ringproof.FaultKubeDelete: true, ringproof.FaultMachineLoss: true, ringproof.FaultVolumeLoss: true}

// orphans reports whether what landed took from pods what made them, or has one more made: they
// run on as they are.
func orphans(p ringproof.Plan, landed ringproof.Event) bool {
	f, _ := faultOf(p, landed.Step)
	return ofSet[landed.Fault] && (f.How == ringproof.Orphan || f.How == ringproof.ScaledMore)
}

// ofSet is what is done to who makes the pods, or to what owns that: pods may end for it.
var ofSet = map[ringproof.FaultKind]bool{ringproof.FaultSetDeleted: true, ringproof.FaultSetScaled: true, ringproof.FaultRingDeleted: true}

// felt is what landed on the machine that it is felt on: of a set that is to keep one pod fewer
// only one pod ends, and which one only the set's controller knows.
func felt(h *ringproof.History, landed ringproof.Event) ringproof.Event {
	if f, _ := faultOf(h.Plan, landed.Step); landed.Fault != ringproof.FaultSetScaled || f.How != ringproof.ScaledFewer {
		return landed
	}
	for _, e := range events(h, ringproof.EventProcessExited) {
		if e.At >= landed.At {
			landed.Machine = e.Machine
			break
		}
	}
	return landed
}

// podEnded is when the etcd of a pod that was deleted ended: it serves on until its time to
// end is over, and that it was seen to doesn't say that it has come back. One that starts
// first is the next pod's: none had to end.
func podEnded(h *ringproof.History, deleted ringproof.Event) ringproof.Instant {
	for _, e := range events(h, ringproof.EventProcessExited, ringproof.EventProcessStarted) {
		switch {
		case e.Machine != deleted.Machine || e.At < deleted.At:
		case e.Kind == ringproof.EventProcessExited:
			return e.At
		default:
			return deleted.At
		}
	}
	return deleted.At
}

// faultOver is when a fault that has landed was over; ends: it ever was. What is over as soon as it
// is done takes its time to be done: a disk is put in, and the etcd that serves from the old one
// ends a tenth of a second after the fault began.
func faultOver(h *ringproof.History, landed ringproof.Event) (over ringproof.Instant, ends bool) {
	if ofSet[landed.Fault] || landed.Fault == ringproof.FaultKubeDelete && !tookDisk(h, landed) {
		return podEnded(h, landed), true
	}
	over, ends = landed.At, momentary[landed.Fault]
	for _, e := range h.Events {
		end := momentary[landed.Fault] && stepEnds[e.Kind] || !momentary[landed.Fault] && e.Kind == ringproof.EventFaultHealed
		if end && e.Step == landed.Step && e.At >= landed.At {
			over, ends = max(over, e.At), true
		}
	}
	return over, ends
}
