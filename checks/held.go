// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// heldDown lists the spans in which faults themselves kept the ring from a quorum, so that
// whatever the subject did nobody could commit: a majority without power for half a
// minute is an outage of half a minute. Such a span begins when a fault lands. A subject
// that takes away the voters that faults have left loses the quorum by itself.
func heldDown(h *ringproof.History) (spans []ringproof.Span) {
	l, grip := newLedger(h), grip{}
	since := ringproof.Forever
	for _, e := range podsEnded(h, events(h, ringproof.EventFaultLanded, ringproof.EventFaultHealed, ringproof.EventProcessExited)) {
		tighter := grip.take(h.Plan, e)
		switch held := grip.holds(l.votersAt(e.At)); {
		case held && tighter && since == ringproof.Forever:
			since = e.At
		case !held && since != ringproof.Forever:
			spans, since = append(spans, ringproof.Span{From: since, To: e.At}), ringproof.Forever
		}
	}
	if since != ringproof.Forever {
		spans = append(spans, ringproof.Span{From: since, To: lastMoment(h)})
	}
	return spans
}

// hangs is how long a real etcd may send nothing to anybody as it applies the removal of a member
// that is cut off: its writes to that member are under way, and each of two streams has a write
// timeout of 5 s (peer.stop, Transport.RemovePeer and DefaultConnWriteTimeout in rafthttp).
const hangs = 10 * time.Second

// hanging lists the spans in which a real etcd may do so for a removal that is not the subject's.
func hanging(h *ringproof.History) (spans []ringproof.Span) {
	for _, e := range events(h, ringproof.EventFaultLanded) {
		hand, _ := faultOf(h.Plan, e.Step)
		if !h.Tools.Virtual && hand.Does == ringproof.MemberRemove && cutOff(h, e) {
			spans = append(spans, ringproof.Span{From: e.At, To: e.At.Add(hangs)})
		}
	}
	return spans
}

// cutOff reports whether a partition was in force on the machine of what landed.
func cutOff(h *ringproof.History, landed ringproof.Event) bool {
	return slices.ContainsFunc(events(h, ringproof.EventFaultLanded), func(e ringproof.Event) bool {
		over, ends := faultOver(h, e)
		return e.Fault == ringproof.FaultPartition && e.Machine == landed.Machine && e.At < landed.At && (!ends || over > landed.At)
	})
}

// podsEnded has what ended pods beside what makes them, or what asks for that, land on the machines
// whose etcds ended for it, and heal machine by machine: once that one has ended, as no other is made
// before, and where nobody asks for a ring, once somebody does again. From then on it is the
// subject's to bring them back.
func podsEnded(h *ringproof.History, all []ringproof.Event) (told []ringproof.Event) {
	for _, e := range all {
		switch takes := takesPods(h.Plan, e); {
		case !takes:
			told = append(told, e)
		case e.Kind == ringproof.EventFaultLanded:
			told = append(told, tookPods(h, e)...)
		}
	}
	slices.SortStableFunc(told, func(a, b ringproof.Event) int { return cmp.Compare(a.At, b.At) })
	return told
}

// takesPods reports whether the event is of such a fault.
func takesPods(p ringproof.Plan, e ringproof.Event) bool {
	return (e.Fault == ringproof.FaultSetDeleted || e.Fault == ringproof.FaultRingDeleted) && !orphans(p, e)
}

// tookPods is how such a fault has landed on each machine whose etcd ended for it, and healed.
func tookPods(h *ringproof.History, landed ringproof.Event) (told []ringproof.Event) {
	asked := landed.At
	for _, e := range events(h, ringproof.EventFaultHealed) {
		if e.Step == landed.Step && e.Fault == ringproof.FaultRingDeleted {
			asked = max(asked, e.At)
		}
	}
	for _, m := range slices.Sorted(maps.Keys(newLedger(h).machines)) {
		landed.Machine = m
		// Who served on for long has ended for something else.
		if over := podEnded(h, landed); over > landed.At && !served(h, m, landed.At.Add(heeds), over) {
			healed := landed
			healed.Kind, healed.At = ringproof.EventFaultHealed, max(over, asked)
			told = append(told, landed, healed)
		}
	}
	return told
}

// votersAt are the machines of the voters as last seen before the moment, those left out
// whose log is gone. all counts the latter too.
func (l *ledger) votersAt(at ringproof.Instant) (machines []string, all int) {
	for _, o := range slices.Backward(l.h.Observations[:l.observed(at)]) {
		voters := o.Voters()
		if len(voters) == 0 {
			continue
		}
		for _, v := range voters {
			if !l.ruined(v.ID, at) {
				machines = append(machines, cmp.Or(v.Machine, l.homes[v.ID].machine))
			}
		}
		return machines, len(voters)
	}
	return nil, 0
}

// grip is the fault that is on, by step.
type grip map[string]*hold

// hold is what one fault does to its targets until it heals.
type hold struct {
	on    map[string]bool // its targets, and whether it keeps each from voting
	apart string          // a partition's shape, or barred; "": it parts nobody
}

// take notes what landed, healed, or ended under a fault that lets no etcd start. It
// reports whether the fault is heavier for it.
func (g grip) take(p ringproof.Plan, e ringproof.Event) bool {
	targets := strings.Split(e.Machine, ",")
	switch e.Kind {
	case ringproof.EventFaultLanded:
		f, known := faultOf(p, e.Step)
		stops, apart := gripOf(p.Ring, f, e.Fault)
		if !known || !stops && apart == "" && !starting[e.Fault] {
			return false
		}
		if g[e.Step] == nil {
			g[e.Step] = &hold{on: map[string]bool{}, apart: apart}
		}
		for _, m := range targets {
			g[e.Step].on[m] = stops
		}
		return true
	case ringproof.EventFaultHealed:
		if held := g[e.Step]; held != nil {
			for _, m := range targets {
				delete(held.on, m)
			}
			if e.Machine == "" || held.apart != "" {
				delete(g, e.Step)
			}
		}
		return false
	}
	ended := false
	for _, held := range g { // order: all are set alike
		if _, hit := held.on[e.Machine]; hit && held.apart == "" {
			held.on[e.Machine], ended = true, true
		}
	}
	return ended
}

// starting are the faults that keep an etcd from starting again, once it has ended.
var starting = map[ringproof.FaultKind]bool{ringproof.FaultDiskFull: true, ringproof.FaultStartFailure: true}

// usualElection is how long etcd waits for a leader (--election-timeout).
const usualElection = time.Second

// barred is how an alarm holds a ring: whoever hears whom, nobody writes.
const barred = "barred"

// gripOf is how a fault keeps members from voting till it heals: stops, those that it
// hits, at once; apart, from each other, in this shape. landed is what was made of it.
// What only makes things slower or stranger does neither, unless no election can be won by then: a leader
// that syncs for longer than others wait to hear of it is none, and a vote that takes as long to be asked for
// and given comes too late.
func gripOf(ring ringproof.RingSpec, f ringproof.Fault, landed ringproof.FaultKind) (stops bool, apart string) {
	election := cmp.Or(ring.Election.Std(), usualElection)
	switch landed {
	case ringproof.FaultKill:
		return f.Scope == "machine" || f.Permanent(), "" // a loss that was downgraded
	case ringproof.FaultPause:
		return f.Scope != "agent", ""
	case ringproof.FaultSleep, ringproof.FaultNameStale: // where it is nobody knows
		return true, ""
	case ringproof.FaultSlowDisk:
		return f.By.Std() >= election, ""
	case ringproof.FaultSlowNetwork:
		return 2*f.By.Std() >= election, ""
	case ringproof.FaultPacketLoss:
		return losesLead(f.Percent, election), ""
	case ringproof.FaultSetDeleted, ringproof.FaultRingDeleted:
		return f.How != ringproof.Orphan, ""
	case ringproof.FaultVolumeUnmounted:
		return f.Remount == "reboot", ""
	case ringproof.FaultPartition:
		if f.Port == ringproof.PortClient {
			return false, "" // members hear each other
		}
		return false, cmp.Or(f.Shape, "split")
	case ringproof.FaultAlarmRaised:
		return false, barred
	}
	return false, ""
}

// losesLead reports whether a leader loses its lead twice a minute or more often, of whose packets so many of 100 are
// lost: whether of its heartbeats, ten in an election timeout, one is lost so often in a row that it comes after that. TCP sends it again after 200 ms, and each time after twice as long.
func losesLead(percent int, election time.Duration) bool {
	const often = 30 * time.Second
	every := election / 10
	for late, wait := time.Duration(0), 200*time.Millisecond; every < often && late < election; wait *= 2 {
		late += wait
		every = every * 100 / time.Duration(percent)
	}
	return every < often
}

// faultOf is the fault that the plan has at the step.
func faultOf(p ringproof.Plan, step string) (ringproof.Fault, bool) {
	i := slices.IndexFunc(p.Steps, func(s ringproof.Step) bool { return s.Name == step })
	if i < 0 || p.Steps[i].Fault == nil {
		return ringproof.Fault{}, false
	}
	return *p.Steps[i].Fault, true
}

// holds reports whether no quorum of all voters can hear each other.
func (g grip) holds(voters []string, all int) bool {
	sides := map[string]int{}
	for _, m := range voters {
		if side, can := g.side(m); can {
			sides[side]++
		}
	}
	most := 0
	for n := range maps.Values(sides) { // order: the largest
		most = max(most, n)
	}
	return len(g) > 0 && all > 0 && most < ringproof.Quorum(all)
}

// side names with whom the machine can talk in both directions, and whether it can vote
// at all.
func (g grip) side(machine string) (side string, can bool) {
	for _, step := range slices.Sorted(maps.Keys(g)) {
		held := g[step]
		stopped, hit := held.on[machine]
		switch {
		case stopped || held.apart == barred:
			return "", false
		case held.apart == "isolate" && hit:
			side += " " + step + " alone " + machine
		case held.apart != "" && hit:
			side += " " + step + " cut off"
		}
	}
	return side, true
}
