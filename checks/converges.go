// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"slices"

	"github.com/ringproof/ringproof"
)

// converges looks at the second half of a run: harm has ended, a quorum's
// worth is healed, what was lost for good stays lost.
var converges = Check{
	Name:   "converges",
	Claim:  "Once harm ends, the ring becomes what was asked for, and every member of it serves.",
	Source: "Kubernetes' level-triggered reconciliation; TigerBeetle's liveness phase",
	Params: []Param{{"within", "45s", "how long after the end of harm"}},
	Judge: func(h *ringproof.History, params Values) ringproof.Finding {
		if !safely(h.Plan) {
			return unknown("a plan in mode %s isn't asked to converge; take this check off its invariants", h.Plan.Mode)
		}
		phases := events(h, ringproof.EventHealPhase)
		if len(phases) == 0 {
			return unknown("the run has no heal-phase event: it never came to where convergence is demanded")
		}
		if h.Evidence.Spec == 0 {
			return unknown("what was asked for last isn't known")
		}
		return convergence(h, phases[len(phases)-1].At, params)
	},
	suits: safely,
}

func convergence(h *ringproof.History, healed ringproof.Instant, params Values) ringproof.Finding {
	within := params.Duration("within")
	e, ok := convergedAfter(h, healed)
	if end, ended := ended(h); !ok && (!ended || end.Sub(healed) < within) {
		return unknown("the run ended %s after harm, without convergence and before the %s allowed", end.Sub(healed), within)
	}
	if !ok || e.At.Sub(healed) > within {
		return with(fail(healed.Add(within), "expected the ring to converge to %d voters within %s of the end of harm, it did not; at the end %s",
			h.Evidence.Spec, within, shapeText(h.Evidence.Final)), reasons(h, healed)...)
	}
	if wrong := misshapen(h.Evidence.Final, h.Evidence.Spec); wrong {
		return fail(h.Evidence.Final.At, "expected %d voters at the end, no learners, all serving; saw %s", h.Evidence.Spec, shapeText(h.Evidence.Final))
	}
	if whole(h, healed) {
		return pass("%s after harm ended, when nothing was left to mend: %s", e.At.Sub(healed), shapeText(h.Evidence.Final))
	}
	return pass("%s after harm ended: %s", e.At.Sub(healed), shapeText(h.Evidence.Final))
}

// whole tells whether the ring was seen as it was asked for when harm ended, and
// no fault has landed since it was looked at: then it has not shown that it can
// mend itself, only that it rests.
func whole(h *ringproof.History, healed ringproof.Instant) bool {
	var last ringproof.Observation
	for _, o := range h.Observations {
		if o.At <= healed {
			last = o
		}
	}
	unseen := slices.ContainsFunc(events(h, ringproof.EventFaultLanded), func(e ringproof.Event) bool {
		return e.At >= last.At && e.At <= healed
	})
	return last.Fresh && !unseen && !misshapen(last, h.Evidence.Spec)
}

// convergedAfter returns the first convergence at or after the moment.
func convergedAfter(h *ringproof.History, since ringproof.Instant) (ringproof.Event, bool) {
	for _, e := range events(h, ringproof.EventConverged) {
		if e.At >= since {
			return e, true
		}
	}
	return ringproof.Event{}, false
}

func misshapen(o ringproof.Observation, voters int) bool {
	idle := func(m ringproof.MemberView) bool { return !m.Serving }
	return len(o.Voters()) != voters || len(o.Learners()) > 0 || slices.ContainsFunc(o.Members, idle)
}

// reasons are the subject's last words: why it waits or halts.
func reasons(h *ringproof.History, since ringproof.Instant) []string {
	var lines []string
	for _, e := range events(h, ringproof.EventWaiting, ringproof.EventHalted, ringproof.EventActionFailed) {
		if e.At >= since {
			lines = append(lines, e.String())
		}
	}
	return lines[max(0, len(lines)-mostEvidence):]
}
