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
			if o, answered := answeredFor(h, e.At); answered {
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

// longLook is how long whoever is called may take to ask all members of a ring without a quorum once. A
// ring that answered for a moment in between may have answered nobody who asked: of three voters one was
// gone, and each time that the others were two for a third of a second one of them was killed.
const longLook = 3 * time.Second

// answeredFor finds the last answer by a quorum in the calm before the moment, given while no fault was
// on, and a look or more after another such. Where months pass in a second the calm is long over by
// everybody's clock.
func answeredFor(h *ringproof.History, at ringproof.Instant) (last *ringproof.Operation, answered bool) {
	l := newLedger(h)
	for _, i := range slices.Backward(byReturn(h.Operations)) {
		o := &h.Operations[i]
		switch {
		case !o.Acked() || !byQuorum(o.Request) || o.Return > at || o.Return < at.Add(-calm) || !calmAt(h, o.Return) || l.aged(o.Return, at):
		case last == nil:
			last = o
		case last.Return.Sub(o.Return) >= longLook:
			return last, true
		}
	}
	return nil, false
}

// calmAt reports whether no fault is on, and none was a moment before, that may hide the ring from
// anybody: a store that is away does not.
func calmAt(h *ringproof.History, at ringproof.Instant) bool {
	return !slices.ContainsFunc(events(h, ringproof.EventFaultLanded), func(e ringproof.Event) bool {
		if e.Fault == ringproof.FaultStoreOutage || e.Fault == ringproof.FaultStoreStale || e.Fault == ringproof.FaultStoreLost {
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
