// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// converges looks at the second half of a run: all faults have ended, a quorum's
// worth is healed, what was lost for good stays lost.
var converges = Check{
	Name:   "converges",
	Claim:  "Once all faults have ended, the ring becomes what was asked for, on machines that are there and none that was to be vacated, and every member of it serves; its objects that were deleted or emptied say again what they are for.",
	Source: "Kubernetes' level-triggered reconciliation; TigerBeetle's liveness phase",
	Timed:  true,
	Params: []Param{{"within", "45s", "how long after the end of all faults"}},
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
	end, ended := ended(h)
	if !ok && (!ended || end.Sub(healed) < within) {
		return unknown("the run ended %s after the last fault, without convergence and before the %s allowed", end.Sub(healed), within)
	}
	took := ringproof.Span{From: healed, To: end}
	if ok {
		took.To = e.At
	}
	switch h.Evidence.Starved.Overran(took, within) {
	case ringproof.Inconclusive:
		return with(starved(h, took, "expected %s within %s of the end of all faults, which took %s", wanted(h.Evidence), within, took.Length()), reasons(h, healed)...)
	case ringproof.Fail:
		return with(fail(healed.Add(within), "expected %s within %s of the end of all faults, saw %s%s",
			wanted(h.Evidence), within, cmp.Or(amiss(h.Evidence.Final, h.Evidence), "it so at the end only"), ineffective(h)), reasons(h, healed)...)
	}
	if saw := amiss(h.Evidence.Final, h.Evidence); saw != "" {
		final := h.Evidence.Final
		silent := slices.ContainsFunc(final.Members, func(m ringproof.MemberView) bool { return m.Silent })
		if (silent || !final.Fresh) && hasty(h) {
			return with(starved(h, ringproof.Span{From: final.At, To: looked(&final)}, "expected %s at the end, saw %s", wanted(h.Evidence), saw), final.Unknown...)
		}
		return with(fail(h.Evidence.Final.At, "expected %s at the end, saw %s%s", wanted(h.Evidence), saw, ineffective(h)), reasons(h, healed)...)
	}
	if whole(h, healed) {
		return pass("%s after the last fault ended, when nothing was left to mend: %s", e.At.Sub(healed), h.Evidence.Final.String())
	}
	return pass("%s after the last fault ended: %s", e.At.Sub(healed), h.Evidence.Final.String())
}

// whole reports whether the ring was seen as it was asked for when all faults had ended, and
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
	return last.Fresh && !unseen && amiss(last, h.Evidence) == ""
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

// wanted is what was asked for last.
func wanted(e ringproof.Evidence) string {
	text := ringproof.Counted(e.Spec, "voter") + ", no learner, all serving"
	if len(e.Vacant) > 0 {
		text += ", none on " + strings.Join(e.Vacant, ", ")
	}
	return text
}

// amiss says what the ring is, and on which machines, when that isn't what was
// asked for; "" when it is.
func amiss(o ringproof.Observation, asked ringproof.Evidence) string {
	var wrong []string
	idle := func(m ringproof.MemberView) bool { return !m.Serving }
	if len(o.Voters()) != asked.Spec || len(o.Learners()) > 0 || slices.ContainsFunc(o.Members, idle) {
		wrong = append(wrong, o.String())
	}
	for _, object := range o.Amiss {
		wrong = append(wrong, object+" not set right")
	}
	overdue := o.Overdue(asked.Vacant, asked.Spec)
	for _, m := range o.Members {
		on, known := o.Machine(m.Machine)
		switch {
		case known && on.Lost:
			wrong = append(wrong, fmt.Sprintf("member %s on %s, which is lost", m.ID, m.Machine))
		case known && !on.Up:
			wrong = append(wrong, fmt.Sprintf("member %s on %s, which is off", m.ID, m.Machine))
		case known && on.Forgets():
			wrong = append(wrong, fmt.Sprintf("member %s on %s, whose data were removed", m.ID, m.Machine))
		case slices.Contains(overdue, m.Machine):
			wrong = append(wrong, fmt.Sprintf("member %s on %s, which was to be replaced", m.ID, m.Machine))
		}
	}
	return strings.Join(wrong, "; ")
}

// ineffective names the members that the subject says it removed and that are
// there at the end: then the cause isn't that nothing was done.
func ineffective(h *ringproof.History) string {
	told := map[ringproof.MemberID]int{}
	for _, e := range events(h, ringproof.EventActionDone) {
		if e.Action == "remove" {
			told[e.Member]++
		}
	}
	text := ""
	for _, m := range h.Evidence.Final.Members {
		if n := told[m.ID]; n > 0 {
			text += fmt.Sprintf("; the subject says that it removed %s on %s %d times, and it is still listed", m.ID, m.Machine, n)
		}
	}
	return text
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
