// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

// What may happen to a ring and its machines, by what is done to them.
var (
	told     = []ringproof.EventKind{ringproof.EventStepBegun, ringproof.EventStepDone, ringproof.EventStepFailed, ringproof.EventStepMissed}
	acted    = []ringproof.EventKind{ringproof.EventActionBegun, ringproof.EventActionDone, ringproof.EventActionFailed, ringproof.EventWaiting, ringproof.EventBoot, ringproof.EventLeads}
	grown    = []ringproof.EventKind{ringproof.EventMemberAdded, ringproof.EventMemberStarted, ringproof.EventMemberPromoted, ringproof.EventProcessStarted, ringproof.EventMemberUp}
	shrunk   = []ringproof.EventKind{ringproof.EventMemberRemoved, ringproof.EventMemberDown, ringproof.EventProcessExited, ringproof.EventLeaderChanged}
	bounced  = []ringproof.EventKind{ringproof.EventMemberDown, ringproof.EventMemberUp, ringproof.EventProcessExited, ringproof.EventProcessStarted, ringproof.EventLeaderChanged}
	hit      = []ringproof.EventKind{ringproof.EventFaultLanded, ringproof.EventFaultMissed, ringproof.EventFaultHealed, ringproof.EventFaultDowngraded}
	replaced = slices.Concat(grown, shrunk)
	emptied  = append([]ringproof.EventKind{ringproof.EventDiskReplaced}, replaced...)
)

// Causes lists every event that the step, taken at that many voters, may cause in a ring
// of the plan. In doubt an event is listed.
func Causes(s ringproof.Step, voters int, p ringproof.Plan) []ringproof.EventKind {
	switch {
	case s.Op != nil && s.Op.Refused:
		return append(slices.Clone(told), ringproof.EventRefused, ringproof.EventWaiting)
	case s.Op != nil:
		entry, _ := LookupOperation(s.Op.Kind)
		if entry.Causes == nil {
			return slices.Concat(told, acted, replaced, bounced)
		}
		return append(slices.Clone(told), entry.Causes(*s.Op, voters)...)
	case s.Fault != nil:
		return append(slices.Clone(told), caused(*s.Fault, p)...)
	}
	return told
}

func caused(f ringproof.Fault, p ringproof.Plan) []ringproof.EventKind {
	entry, _ := Lookup(f.Kind)
	events := slices.Concat(hit, acted, entry.Causes)
	if entry.Unfelt {
		return events
	}
	if f.For == 0 || f.For >= p.Ring.ReplaceAfter { // who is away for long is replaced
		events = append(events, replaced...)
	}
	if p.Mode == ringproof.ModeDisaster {
		events = append(events, ringproof.EventHalted)
	}
	return append(events, bounced...)
}

// causing is what an operation causes by whatever it is asked with.
func causing(events ...[]ringproof.EventKind) func(ringproof.Op, int) []ringproof.EventKind {
	all := append(slices.Clone(acted), slices.Concat(events...)...)
	return func(ringproof.Op, int) []ringproof.EventKind { return all }
}

func resized(op ringproof.Op, voters int) []ringproof.EventKind {
	if op.To > voters {
		return slices.Concat(acted, grown)
	}
	return slices.Concat(acted, shrunk)
}

func restarted(op ringproof.Op, _ int) []ringproof.EventKind {
	events := slices.Concat(acted, bounced)
	if op.Flags["quota-backend-bytes"] != "" {
		events = append(events, ringproof.EventAlarm)
	}
	return events
}

// Estimate is roughly how long the step takes in real time at so many voters of the
// plan's ring. One that is detached counts in full: what waits for it waits that long.
func Estimate(s ringproof.Step, voters int, p ringproof.Plan) time.Duration {
	switch {
	case s.Op != nil && !s.Op.Refused:
		if entry, _ := LookupOperation(s.Op.Kind); entry.Takes != nil {
			return entry.Takes(*s.Op, voters)
		}
		return time.Second
	case s.Fault != nil && s.Fault.Kind == ringproof.FaultMachineLoss:
		return p.Ring.ReplaceAfter.Std() + 6*time.Second
	case s.Fault != nil && s.Fault.Kind == ringproof.FaultVolumeLoss:
		return s.Fault.For.Std() + 6*time.Second
	case s.Fault != nil:
		return max(time.Second, s.Fault.For.Std()) + time.Duration(voters-1)*s.Fault.Stagger.Std()
	}
	return 2 * time.Second
}
