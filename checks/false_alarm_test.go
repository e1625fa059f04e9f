// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/ringproof/ringproof"
)

// TestNoFalseAlarm: the ring of the history answers at 11 s, 16 s, 21 s and 26 s.
func TestNoFalseAlarm(t *testing.T) {
	called := func(at float64, text string, faults ...ringproof.Event) *ringproof.History {
		h := healthy()
		drop(h, ringproof.EventFaultLanded)
		event(h, ringproof.Event{At: sec(at), Kind: ringproof.EventHalted, Machine: "m1", Text: text})
		for _, e := range faults {
			event(h, e)
		}
		return h
	}
	const lost = "no quorum of the ring has answered for 15s"
	cut := ringproof.Event{At: sec(10), Kind: ringproof.EventFaultLanded, Step: "cut", Fault: ringproof.FaultPartition, Machine: "m1"}
	healed := ringproof.Event{Kind: ringproof.EventFaultHealed, Step: "cut", Machine: "m1"}
	storeless := ringproof.Event{At: sec(10), Kind: ringproof.EventFaultLanded, Step: "store", Fault: ringproof.FaultStoreOutage}
	forgetful := ringproof.Event{At: sec(10), Kind: ringproof.EventFaultLanded, Step: "store", Fault: ringproof.FaultStoreLost}
	months := ringproof.Event{Kind: ringproof.EventFaultLanded, Step: "months", Fault: ringproof.FaultTimePasses}
	for _, c := range []struct {
		story string
		h     *ringproof.History
		says  string
	}{
		{"nobody is called", healthy(), ""},
		{"a moment after an answer", called(27, lost), "saw a call 1s after one"},
		{"a moment after the only answer for long", answersOnce(called(27, lost)), ""},
		{"nobody has answered for long", called(41, lost), ""},
		{"for something else", called(27, "m2 has no etcd v3.6.16"), ""},
		{"by one that is cut off", called(27, lost, cut), ""},
		{"while the store is away", called(27, lost, storeless), "saw a call 1s after one"},
		{"while the store is lost", called(27, lost, forgetful), "saw a call 1s after one"},
		{"as months pass", called(27, lost, moved(months, 26.5)), ""},
		{"a fault is over for a moment only", called(19, lost, cut, moved(healed, 12)), ""},
		{"a fault came after the answer", called(23, lost, moved(cut, 22)), "saw a call 2s after one"},
		{"a fault was over long before", called(27, lost, moved(cut, 1), moved(healed, 2)), "saw a call"},
	} {
		t.Run(c.story, func(t *testing.T) { judged(t, noFalseAlarm.Finding(c.h, nil), c.says) })
	}
}

// answersOnce leaves the last answer alone.
func answersOnce(h *ringproof.History) *ringproof.History {
	h.Operations = h.Operations[len(h.Operations)-1:]
	return h
}

func moved(e ringproof.Event, second float64) ringproof.Event {
	e.At = sec(second)
	return e
}
