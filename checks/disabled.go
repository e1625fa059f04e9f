// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"maps"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// disabled reports whether a fault keeps the member's etcd from starting at the
// moment: that fault, or a full disk on which it has ended and hasn't served since. It
// has its log and can't vote, and a subject that takes it for lost after some patience,
// or as it is asked to, takes nothing from the margin.
func (l *ledger) disabled(member ringproof.MemberID, at ringproof.Instant) bool {
	on := l.homes[member].machine
	open := map[string]bool{} // by step: whether etcd can't start
	for _, e := range l.starts {
		switch {
		case e.At <= at && e.Kind == ringproof.EventMemberUp && e.Member == member:
			for step := range open { // order: all are set alike
				open[step] = false
			}
		case e.At > at || e.Kind == ringproof.EventMemberUp || !slices.Contains(strings.Split(e.Machine, ","), on):
		case e.Kind == ringproof.EventProcessExited:
			for step := range open { // order: all are set alike
				open[step] = true
			}
		case !disables(e.Fault):
		case e.Kind == ringproof.EventFaultHealed:
			delete(open, e.Step)
		default:
			open[e.Step] = e.Fault == ringproof.FaultStartFailure
		}
	}
	return slices.Contains(slices.Collect(maps.Values(open)), true)
}

// failedStarts lists the events by which disabled goes, or none where no fault disables.
func failedStarts(h *ringproof.History) []ringproof.Event {
	found := events(h, ringproof.EventFaultLanded, ringproof.EventFaultHealed, ringproof.EventProcessExited, ringproof.EventMemberUp)
	if !slices.ContainsFunc(found, func(e ringproof.Event) bool { return disables(e.Fault) }) {
		return nil
	}
	return found
}

func disables(fault ringproof.FaultKind) bool {
	return fault == ringproof.FaultStartFailure || fault == ringproof.FaultDiskFull
}
