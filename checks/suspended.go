// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"maps"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

// stillness lists the times in which the ring was suspended and every process of
// the subject must have heard so: what is begun before that may still be done.
func stillness(h *ringproof.History) (spans []ringproof.Span) {
	ops := map[string]ringproof.OpKind{}
	for _, s := range h.Plan.Steps {
		if s.Op != nil {
			ops[s.Name] = s.Op.Kind
		}
	}
	// Of two that ask for the opposite at once nobody knows who was last: the one that
	// has its answer first may have written after the other, whose answer was lost.
	since, resuming, suspending, contested := ringproof.Forever, map[string]bool{}, map[string]bool{}, map[string]bool{}
	end := func(at ringproof.Instant) {
		if from := heard(h, since, at); since != ringproof.Forever && from < at {
			spans = append(spans, ringproof.Span{From: from, To: at})
		}
		since = ringproof.Forever
	}
	for _, e := range h.Events {
		asked := ops[e.Step]
		switch {
		case e.Kind == ringproof.EventRunEnds:
			end(e.At)
		case asked == ringproof.OpResume && e.Kind == ringproof.EventStepBegun:
			end(e.At)
			resuming[e.Step] = true
			maps.Copy(contested, suspending)
		case asked == ringproof.OpResume && stepEnds[e.Kind]:
			delete(resuming, e.Step)
		case asked == ringproof.OpSuspend && e.Kind == ringproof.EventStepBegun:
			suspending[e.Step] = true
			contested[e.Step] = len(resuming) > 0
		case asked == ringproof.OpSuspend && stepEnds[e.Kind]:
			delete(suspending, e.Step)
			if e.Kind == ringproof.EventStepDone && !contested[e.Step] && len(resuming) == 0 && since == ringproof.Forever {
				since = e.At
			}
		}
	}
	return spans
}

var stepEnds = map[ringproof.EventKind]bool{ringproof.EventStepDone: true, ringproof.EventStepFailed: true, ringproof.EventStepMissed: true}

// deafening are the faults by which a process of the subject goes by what was
// asked for earlier, or is in the middle of an action for as long as they last.
var deafening = []ringproof.FaultKind{ringproof.FaultStoreOutage, ringproof.FaultStoreStale, ringproof.FaultStoreLost, ringproof.FaultPause, ringproof.FaultSleep,
	ringproof.FaultKubePause, ringproof.FaultAPIOutage, ringproof.FaultPartition}

// heard is when the subject must have heard what was written at since: hearsay
// after it, and after the last fault that kept somebody from hearing it before to.
func heard(h *ringproof.History, since, to ringproof.Instant) ringproof.Instant {
	if since == ringproof.Forever {
		return since
	}
	from, deaf := since, map[string]bool{}
	for _, e := range events(h, ringproof.EventFaultLanded, ringproof.EventFaultHealed) {
		if e.At >= to || !slices.Contains(deafening, e.Fault) {
			continue
		}
		if e.Kind == ringproof.EventFaultLanded {
			deaf[e.Step] = true
			continue
		}
		delete(deaf, e.Step)
		from = max(from, e.At)
	}
	if len(deaf) > 0 {
		return ringproof.Forever
	}
	lost := h.Evidence.Starved.Within(ringproof.Span{From: from, To: to})
	return from.Add(hearsay + lost)
}

// stirred returns the first change that the subject began, or that was made, while
// the ring was to be left alone; and for how long it was. Whoever is told to end
// may hand leadership over, and a record that was damaged changes no membership.
func stirred(h *ringproof.History) (e ringproof.Event, bad bool, still time.Duration) {
	l := newLedger(h)
	for _, span := range stillness(h) {
		still += span.Length()
		for _, e := range events(h, ringproof.EventActionBegun) {
			if e.ChangesMembership() && e.At > span.From && e.At < span.To {
				return e, true, still
			}
		}
		for _, c := range made(h) {
			if by := l.made(c); by.From > span.From && by.To < span.To {
				return ringproof.Event{At: by.To, Kind: ringproof.EventActionDone, Member: c.Member, Action: c.Kind}, true, still
			}
		}
	}
	return e, false, still
}
