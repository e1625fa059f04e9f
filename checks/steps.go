// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"slices"

	"github.com/ringproof/ringproof"
)

// steps judges what the plan itself says: without it a scenario that asks a
// ring of three for seven voters, and asserts them, passes. Faults are not its
// concern: one that missed is the assumptions'.
var steps = Check{
	Name:   "steps",
	Claim:  "Every operation of the plan was carried out, and every state that it asserts was reached in time.",
	Source: "a level-triggered subject that ignores what it is asked for rests, converges, and loses nothing",
	Timed:  true,
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		all := took(h)
		asked, ends := owed(h.Plan.Mode, all), map[string][]ringproof.Event{}
		for _, e := range events(h, ringproof.EventStepDone, ringproof.EventStepFailed, ringproof.EventStepMissed) {
			ends[e.Step] = append(ends[e.Step], e)
		}
		for _, s := range all { // who owes nobody an operation must have been asked for it all the same
			tried := func(e ringproof.Event) bool { return e.Kind != ringproof.EventStepMissed }
			if s.Op != nil && len(ends[s.Name]) > 0 && !slices.ContainsFunc(ends[s.Name], tried) && !slices.Contains(asked, s.Name) {
				asked = append(asked, s.Name)
			}
		}
		if _, over := ended(h); !over {
			return unknown("the run has no run-ends event: it was cut off before its plan was carried out")
		}
		f := judgeSteps(asked, ends)
		if f.Verdict == ringproof.Fail && onlyByLeaving(h.Plan, asked, ends) {
			return unlessLeftStarved(h, f)
		}
		return f
	},
	suits: func(p ringproof.Plan) bool { return len(owed(p.Mode, p.Steps)) > 0 },
}

// owed are the steps whose end says something of the subject. In a disaster it
// owes nobody an operation.
func owed(mode ringproof.Mode, all []ringproof.Step) (names []string) {
	for _, s := range all {
		if s.Assert != nil || s.Op != nil && mode == ringproof.ModeSafe {
			names = append(names, s.Name)
		}
	}
	return names
}

// onlyByLeaving reports whether all that failed are asserts of who left or stayed, or how much was changed. Another
// failure beside them is the subject's, however starved the host was.
func onlyByLeaving(p ringproof.Plan, asked []string, ends map[string][]ringproof.Event) bool {
	return !slices.ContainsFunc(p.Steps, func(s ringproof.Step) bool {
		failed := slices.ContainsFunc(ends[s.Name], func(e ringproof.Event) bool { return e.Kind == ringproof.EventStepFailed })
		return failed && slices.Contains(asked, s.Name) && (s.Assert == nil || !s.Assert.OfLeaving())
	})
}

// unlessLeftStarved is a failure by who left, or not known where the host may be why somebody was taken
// for one that is gone. Beside eight busy loops a link that was cut for four seconds at a time was healed so late
// that its member was heard of by nobody for ten.
func unlessLeftStarved(h *ringproof.History, f ringproof.Finding) ringproof.Finding {
	for _, c := range h.Evidence.Changes {
		if c.Kind != "remove" || c.Foreign || f.At == nil || c.At > *f.At {
			continue
		}
		then := f
		then.At = &c.At
		if then = unlessStarved(h, then); then.Verdict != ringproof.Fail {
			return then
		}
	}
	return f
}

func judgeSteps(asked []string, ends map[string][]ringproof.Event) ringproof.Finding {
	var failed, doubtful []ringproof.Event
	for _, name := range asked {
		for _, e := range ends[name] {
			switch e.Kind {
			case ringproof.EventStepFailed:
				failed = append(failed, e)
			case ringproof.EventStepMissed:
				doubtful = append(doubtful, e)
			}
		}
		if len(ends[name]) == 0 {
			doubtful = append(doubtful, ringproof.Event{Kind: ringproof.EventStepMissed, Step: name, Text: "the run ended before it"})
		}
	}
	if len(failed) > 0 {
		return with(fail(failed[0].At, "step %s: %s", failed[0].Step, failed[0].Text), lines(failed)...)
	}
	if len(doubtful) > 0 {
		return with(unknown("step %s was not tried: %s", doubtful[0].Step, doubtful[0].Text), lines(doubtful)...)
	}
	if len(asked) == 0 {
		return unknown("the plan asks for nothing and asserts nothing")
	}
	return pass("%s came to what they ask for", ringproof.Counted(len(asked), "step"))
}
