// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// TestEndedFirst: a voter leaves the list, and then its etcd ends.
func TestEndedFirst(t *testing.T) {
	ends := func(at float64, text string) func(*ringproof.History) {
		return func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(at), Kind: ringproof.EventProcessExited, Machine: "m3", Text: text})
		}
	}
	putIn := func(h *ringproof.History, from, to float64) {
		event(h, ringproof.Event{At: sec(from), Kind: ringproof.EventStepBegun, Step: "put-in"})
		event(h, ringproof.Event{At: sec(from), Kind: ringproof.EventFaultLanded, Step: "put-in", Machine: "m3", Fault: ringproof.FaultVolumeLoss})
		event(h, ringproof.Event{At: sec(to), Kind: ringproof.EventStepDone, Step: "put-in"})
	}
	for _, test := range []struct {
		name  string
		plant func(*ringproof.History)
		bad   bool
	}{
		{"removed and then ended", ends(40.2, ""), false},
		{"ended and then removed", ends(30.5, ""), true},
		{"ended a moment before it was removed", ends(39.5, ""), false},
		{"ended by itself", ends(30.5, "etcd, pid 7, fatal: permission denied"), false},
		{"ended by a fault", func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(30), Kind: ringproof.EventFaultLanded, Machine: "m3", Fault: ringproof.FaultMachineLoss})
			ends(30.5, "")(h)
		}, false},
		{"ended while a disk was put in, which takes its time", func(h *ringproof.History) {
			putIn(h, 28.5, 31)
			ends(30.5, "")(h) // at 29 s it served still
		}, false},
		{"ended after a disk was put in, and served on", func(h *ringproof.History) {
			putIn(h, 20, 21)
			ends(30.5, "")(h)
		}, true},
		{"ended with its pod, which had time to end", func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(28.5), Kind: ringproof.EventFaultLanded, Machine: "m3", Fault: ringproof.FaultKubeDelete})
			ends(30.5, "")(h) // at 29 s it served still
		}, false},
		{"ended long after its claim was deleted", func(h *ringproof.History) {
			h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "claim", Fault: &ringproof.Fault{Kind: ringproof.FaultKubeDelete, Object: ringproof.ObjectClaim}})
			event(h, ringproof.Event{At: sec(20), Kind: ringproof.EventFaultLanded, Step: "claim", Machine: "m3", Fault: ringproof.FaultKubeDelete})
			ends(30.5, "")(h)
		}, true},
		{"ended when its pod had long been made anew", func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(20), Kind: ringproof.EventFaultLanded, Machine: "m3", Fault: ringproof.FaultKubeDelete})
			event(h, ringproof.Event{At: sec(22), Kind: ringproof.EventProcessStarted, Machine: "m3"})
			ends(30.5, "")(h)
		}, true},
		{"ended again after its pod came back", func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(20), Kind: ringproof.EventFaultLanded, Machine: "m3", Fault: ringproof.FaultKubeDelete})
			ends(20.5, "")(h)
			ends(30.5, "")(h)
		}, true},
		{"ended, and back since", func(h *ringproof.History) {
			for at := range h.Observations {
				for i, m := range h.Observations[at].Members {
					h.Observations[at].Members[i].Serving = m.Serving || at == 36 // and m3 was seen to serve then
				}
			}
			ends(30.5, "")(h)
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := rolled("3.5.35")
			away(h, "m3", 31, 41)
			for at := 41; at < len(h.Observations); at++ {
				h.Observations[at].Members = h.Observations[at].Members[:2]
			}
			h.Evidence.Changes = []ringproof.ConfChange{entry("add-voter", 1, 1), entry("add-voter", 2, 1), entry("add-voter", 3, 1), entry("remove", 3, 40)}
			for i := range h.Evidence.Changes {
				h.Evidence.Changes[i].Initial = i < 3
			}
			test.plant(h)
			w := marginWalk{ledger: newLedger(h), grace: sec(5).Sub(0)}
			f, bad := w.endedFirst()
			assert.Equal(t, test.bad, bad, f.Message)
		})
	}
}
