// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// noFalseAlarm: who is called for every election soon comes for none.
var noFalseAlarm = Check{
	Name:   "no-false-alarm",
	Claim:  "Nobody is called for a lost quorum by whom the ring answered a moment ago, while no fault was on.",
	Source: "etcd-manager says \"unable to reach quorum of peers\" at each election, and in a disaster among a hundred other lines",
	Timed:  true,
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if _, over := ended(h); !over {
			return unknown("the run has no run-ends event: whom the subject called after it was cut off is unknown")
		}
		called := 0
		for _, e := range events(h, ringproof.EventHalted) {
			if !namesQuorum(e) {
				continue
			}
			called++
			if o, answered := answeredBefore(h, e.At); answered {
				return with(fail(e.At, "expected nobody to be called for a lost quorum within %s of an answer that took one, saw a call %s after one, which was given while no fault was on", calm, e.At.Sub(o.Return)), e.String(), operationText(o))
			}
		}
		return pass("%s for a lost quorum, none of them sooner than %s after the ring was well", ringproof.Counted(called, "call"), calm)
	},
	hears: []ringproof.EventKind{ringproof.EventHalted},
	suits: safely,
}

// calm is less than anybody may take for a quorum that is lost: an election and the restart of a
// member come and go. For as long after it a fault is still the reason of what is told.
const calm = 10 * time.Second

// answeredBefore finds the last answer by a quorum in the calm before the moment, given while no fault was
// on. Where months pass in a second the calm is long over by everybody's clock.
func answeredBefore(h *ringproof.History, at ringproof.Instant) (*ringproof.Operation, bool) {
	l := newLedger(h)
	for _, i := range slices.Backward(byReturn(h.Operations)) {
		o := &h.Operations[i]
		if o.Acked() && byQuorum(o.Request) && o.Return <= at && o.Return >= at.Add(-calm) && calmAt(h, o.Return) && !l.aged(o.Return, at) {
			return o, true
		}
	}
	return nil, false
}

// calmAt reports whether no fault is on, and none was a moment before, that may hide the ring from
// anybody: a store that is away does not.
func calmAt(h *ringproof.History, at ringproof.Instant) bool {
	return !slices.ContainsFunc(events(h, ringproof.EventFaultLanded), func(e ringproof.Event) bool {
		if e.Fault == ringproof.FaultStoreOutage || e.Fault == ringproof.FaultStoreStale {
			return false
		}
		over, ends := faultOver(h, e)
		for _, healed := range events(h, ringproof.EventFaultHealed) { // a machine that is off for a while, too
			if healed.Step == e.Step && healed.At >= e.At {
				over, ends = max(over, healed.At), true
			}
		}
		return e.At <= at && (!ends || at <= over.Add(calm))
	})
}

// namesQuorum reports whether what a person is called for is that the ring has none.
func namesQuorum(halted ringproof.Event) bool {
	text := strings.ToLower(halted.Text)
	return strings.Contains(text, "quorum") || strings.Contains(text, "majority")
}
