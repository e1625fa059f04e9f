// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// noPanic asks of none whose disk a fault hit: an etcd that can't write what it
// must keep panics on purpose.
var noPanic = Check{
	Name:   "no-panic",
	Claim:  "No etcd ends in a panic, whatever clients and operators ask of it.",
	Source: "etcd#14110, #14382, #13466: requests after which a member panics, or never starts again",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		ended := events(h, ringproof.EventProcessExited)
		for _, e := range ended {
			if _, panicked, found := strings.Cut(e.Text, "panic: "); found && panicked != removed && !closing(h, e) && !diskHit(h, e) {
				return with(fail(e.At, "expected no panic, the etcd on %s ended in: %s", e.Machine, panicked), e.String())
			}
		}
		if len(ended)+len(events(h, ringproof.EventProcessStarted)) == 0 {
			return unknown("no etcd process was seen")
		}
		if i := slices.IndexFunc(ended, func(e ringproof.Event) bool { return slices.Contains(h.Evidence.Mute, e.Machine) }); i >= 0 {
			return with(unknown("nothing was found that the etcd on %s printed: how it ended is unknown", ended[i].Machine), ended[i].String())
		}
		return pass("%d etcd processes ended, none in a panic", len(ended))
	},
	suits: safely,
}

// removed is how an etcd (v3.6.16) may end that hears of its own removal.
const removed = "failed to find local ID in cluster members"

// closing reports whether an etcd that ended itself, as its member had been removed, panicked on the
// way: whoever reads from it meanwhile finds its backend closed (etcd#17223, #7322).
func closing(h *ringproof.History, at ringproof.Event) bool {
	return strings.Contains(at.Text, "nil pointer dereference, in go.etcd.io/bbolt.(*Tx).") && slices.ContainsFunc(events(h, ringproof.EventMemberRemoved), func(e ringproof.Event) bool {
		return e.Machine == at.Machine && e.At.Sub(at.At).Abs() < goes
	})
}

// goes is how long an etcd takes at most to end that has heard of its removal.
const goes = 5 * time.Second

func diskHit(h *ringproof.History, at ringproof.Event) bool {
	kinds := []ringproof.FaultKind{ringproof.FaultDiskFull, ringproof.FaultVolumeLoss, ringproof.FaultMachineLoss, ringproof.FaultDiskSwap}
	return slices.ContainsFunc(h.Events, func(e ringproof.Event) bool {
		return e.Kind == ringproof.EventFaultLanded && e.At <= at.At && slices.Contains(kinds, e.Fault) &&
			(e.Machine == at.Machine || e.Machine == "")
	})
}
