// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// needlessEnds are the ends of etcds that nothing explains which was so at the moment: a fault
// that was not over, an operator who restarted that one, or a member that had left. A machine
// that was killed once is as well as any as soon as its member serves again.
func needlessEnds(h *ringproof.History) (all []ringproof.Event) {
	gone, vain, turns, misled := departuresOf(h), overtaken{}, turnsOf(h), map[string]bool{}
	for _, e := range h.Events {
		vain.see(e)
		switch e.Kind {
		case ringproof.EventRunEnds:
			return all // what ends then is ended with the run
		case ringproof.EventMemberRemoved:
			for _, t := range turns {
				delete(t.spent, e.Machine) // the next member there has its own turn
			}
		case ringproof.EventProcessExited:
			beside, first := amongFaults(h, e.At), !misled[e.Machine]
			excused := misinformed(e) && (beside || first) || undecided(e) && beside && first
			misled[e.Machine] = misled[e.Machine] || misinformed(e) || undecided(e)
			excused = excused || unanswered(h, e)
			excused = excused || strings.Contains(e.Text, "panic: ") // nobody ended it, and no-panic judges it
			if !excused && !vain[e.Machine] && !byFault(h, e.Machine, e.At) && !askedToEnd(h, e) && !gone.explain(h, e) && !take(turns, e) {
				all = append(all, e)
			}
		}
	}
	return all
}

// askedToEnd reports whether an operator had that very etcd restarted.
func askedToEnd(h *ringproof.History, end ringproof.Event) bool {
	return slices.ContainsFunc(h.Plan.Steps, func(s ringproof.Step) bool {
		return s.Op != nil && turnsFor(*s.Op) == 0 && byOperator(h, s, end.Machine, end.At)
	})
}

// turnsFor is how often each etcd is ended for what is asked of every member in its turn. For TLS
// it listens for both ways in between, also where it is given a launcher for that; for other
// authorities it trusts both.
func turnsFor(op ringproof.Op) int {
	switch {
	case op.Kind == ringproof.OpPeers, op.Kind == ringproof.OpEdit && twice.MatchString(op.Params["field"]):
		return 2
	case op.Kind == ringproof.OpRoll, op.InTurn():
		return 1
	}
	return 0
}

// twice are the fields whose edit ends each etcd twice, of the ring or of the defaults of all.
var twice = regexp.MustCompile(`authorit|[eE]tcdLauncher`)

// turn is what a step asks of each machine's etcd, and while it may be carried out.
type turn struct {
	kind   ringproof.OpKind
	times  int // that each is ended
	during ringproof.Span
	spent  map[string]int // ends, by machine
}

// turnsOf lists them by when they are over, the first first. Of one end that two steps may have
// asked for the one must be taken that can't wait for another.
func turnsOf(h *ringproof.History) (all []turn) {
	later := putOff(h.Plan)
	for _, s := range h.Plan.Steps {
		if s.Op == nil || turnsFor(*s.Op) == 0 {
			continue
		}
		during := ringproof.Span{From: ringproof.Forever, To: ringproof.Forever}
		for _, e := range events(h, ringproof.EventStepBegun, ringproof.EventStepDone, ringproof.EventStepFailed, ringproof.EventStepMissed) {
			switch {
			case e.Step == s.Name && e.Kind == ringproof.EventStepBegun:
				during.From = e.At
			case e.Step == s.Name && !later[s.Name]:
				during.To = e.At
			}
		}
		all = append(all, turn{s.Op.Kind, turnsFor(*s.Op), during, map[string]int{}})
	}
	superseded(all)
	slices.SortStableFunc(all, func(a, b turn) int { return cmp.Compare(a.during.To, b.during.To) })
	return all
}

// superseded has a step last as long as one of its kind that was begun before it was done: who
// asks for v3.6 and a moment later for v3.7 has nobody wait for v3.6 any more, and each
// etcd comes to it all the same.
func superseded(all []turn) {
	for range all {
		for i := range all {
			for _, other := range all {
				if t := &all[i]; other.kind == t.kind && other.during.From < t.during.To {
					t.during.To = max(t.during.To, other.during.To)
				}
			}
		}
	}
}

// take reports whether the end is one that a step asks for, and has not had yet.
func take(turns []turn, end ringproof.Event) bool {
	for _, t := range turns {
		if t.during.From <= end.At && end.At <= t.during.To && t.spent[end.Machine] < t.times {
			t.spent[end.Machine]++
			return true
		}
	}
	return false
}

// putOff are the steps that may be carried out once they are done: those that ask every member for
// something in its turn where the ring is suspended, too, as they are done when they are heard; and
// a move to TLS, which is done by the list, in which no port that is open yet shows.
func putOff(p ringproof.Plan) map[string]bool {
	suspends := slices.ContainsFunc(p.Steps, func(s ringproof.Step) bool { return s.Op != nil && s.Op.Kind == ringproof.OpSuspend })
	later := map[string]bool{}
	for _, s := range p.Steps {
		later[s.Name] = s.Op != nil && (suspends && s.Op.InTurn() || s.Op.Kind == ringproof.OpPeers)
	}
	return later
}

// overtaken knows, machine by machine, of the etcd that was started last whether
// it has served, and whether the membership changed before it did: its peers tell
// it another list than it was started with, and it ends (etcd's
// ValidateClusterAndAssignIDs). Whoever starts it again has restarted nothing.
type overtaken map[string]bool

func (o overtaken) see(e ringproof.Event) {
	switch e.Kind {
	case ringproof.EventProcessStarted:
		o[e.Machine] = false
	case ringproof.EventMemberStarted, ringproof.EventMemberUp:
		delete(o, e.Machine)
	case ringproof.EventMemberAdded, ringproof.EventMemberRemoved:
		for machine := range o {
			o[machine] = o[machine] || machine != e.Machine
		}
	}
}

// misinformed reports whether an etcd ended itself because the peer that it asked first
// had another list of members than it was started with. A voter that has just come back
// from behind a partition has an old one until it has caught up, and no starter can know
// whom etcd will ask. Where no fault has hit one may lag for a moment: then the first
// such end on a machine is etcd's, and the second its starter's.
func misinformed(e ringproof.Event) bool {
	return strings.Contains(e.Text, "fatal: ") && strings.Contains(e.Text, "error validating peerURLs")
}

// undecided reports whether an etcd ended itself because no peer told it a version of the cluster that
// it can join. In a ring that has just been bootstrapped the leader first asks every member for its own,
// for seconds if one is off. A release that can't join ends so again and again.
func undecided(e ringproof.Event) bool {
	return strings.Contains(e.Text, "fatal: incompatible with current running cluster")
}

// unanswered reports whether an etcd that was to join ended itself because no peer told it who the
// members are, and faults or an operator kept each from it that ran (etcd's
// GetClusterFromRemotePeers asks one after the other). No starter can know of a voter that hangs
// this second. Where one peer was well, the list was wrong or the start too early.
func unanswered(h *ringproof.History, end ringproof.Event) bool {
	if !strings.Contains(end.Text, "cannot fetch cluster info from peer urls") {
		return false
	}
	kept := false
	for machine, runs := range started(h, end.At) { // order: all must be kept
		hit := machine != end.Machine && mayEnd(h, machine, end.At)
		if kept = kept || hit; runs && !hit && machine != end.Machine {
			return false
		}
	}
	return kept
}

// started tells of each machine on which an etcd has been started whether one runs at the time.
func started(h *ringproof.History, at ringproof.Instant) map[string]bool {
	runs := map[string]bool{}
	for _, e := range events(h, ringproof.EventProcessStarted, ringproof.EventProcessExited) {
		if e.At < at {
			runs[e.Machine] = e.Kind == ringproof.EventProcessStarted
		}
	}
	return runs
}

// beside are the faults that hit no machine's etcd where they hit no machine: of what runs
// beside the ring.
var beside = map[ringproof.FaultKind]bool{ringproof.FaultAPIOutage: true, ringproof.FaultKubeKill: true, ringproof.FaultKubePause: true, ringproof.FaultStatusEmptied: true,
	ringproof.FaultObjectsDeleted: true, ringproof.FaultObjectsEmptied: true, ringproof.FaultRecordsDeleted: true, ringproof.FaultUpgraded: true,
	ringproof.FaultAdmissionDenied: true, ringproof.FaultStoreLost: true}

// amongFaults reports whether a fault was on anywhere, or over for so short a time that not all have
// caught up with it.
func amongFaults(h *ringproof.History, at ringproof.Instant) bool {
	return slices.ContainsFunc(events(h, ringproof.EventFaultLanded), func(e ringproof.Event) bool {
		if spares(h.Plan, e, e.Machine) || e.At > at.Add(landing) {
			return false
		}
		over, ends := faultOver(h, e)
		return !ends || over.Add(heeds) >= at
	})
}

// departures are the removals of members that had a machine, machine by machine.
type departures map[string][]departure

type departure struct {
	member ringproof.MemberID
	made   ringproof.Span
}

func departuresOf(h *ringproof.History) departures {
	all, l := departures{}, newLedger(h)
	for _, c := range made(h) {
		if where := l.homes[c.Member]; c.Kind == "remove" {
			all[where.machine] = append(all[where.machine], departure{c.Member, l.made(c)})
		}
	}
	return all
}

// explain reports whether the etcd that ended was that of a member that had left: no other has
// served on the machine since.
func (d departures) explain(h *ringproof.History, end ringproof.Event) bool {
	return slices.ContainsFunc(d[end.Machine], func(d departure) bool {
		return d.made.From <= end.At.Add(hearsay) && !servedAnother(h, end.Machine, d.member, ringproof.Span{From: d.made.To, To: end.At})
	})
}

// servedAnother reports whether a look in the span found another member than that serve on the machine.
func servedAnother(h *ringproof.History, machine string, not ringproof.MemberID, in ringproof.Span) bool {
	return slices.ContainsFunc(h.Observations, func(o ringproof.Observation) bool {
		m, on := o.On(machine)
		return on && m.Serving && m.ID != not && o.At > in.From && o.At < in.To
	})
}
