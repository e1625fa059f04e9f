// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

var refusals = Check{
	Name:   "refusals",
	Claim:  "An operation that is unsafe or makes no sense is refused, and leaves the ring as it was.",
	Source: "even sizes and sizes outside 3–9 gain nothing and cost quorum; etcd's reconfiguration guide",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		asked := 0
		for _, s := range h.Plan.Steps {
			if s.Op == nil || !s.Op.Refused {
				continue
			}
			asked++
			if f := refusal(h, s); f.Verdict != ringproof.Pass {
				return f
			}
		}
		if asked == 0 {
			return unknown("the plan asks for nothing that must be refused")
		}
		return pass("%s refused, the ring unchanged", ringproof.Counted(asked, "operation"))
	},
	suits: asksTheUnsafe,
}

// asksTheUnsafe reports whether a step of the plan must be refused.
func asksTheUnsafe(p ringproof.Plan) bool {
	return slices.ContainsFunc(p.Steps, func(s ringproof.Step) bool { return s.Op != nil && s.Op.Refused })
}

func refusal(h *ringproof.History, s ringproof.Step) ringproof.Finding {
	begun, during := stepEvents(h, s.Name)
	if !begun {
		return unknown("step %s never began", s.Name)
	}
	for _, e := range during {
		if e.Kind == ringproof.EventRefused {
			return unchanged(h, s, during[0].At, e)
		}
	}
	if last := during[len(during)-1]; last.Kind == ringproof.EventStepMissed {
		return with(unknown("step %s could not be tried: %s", s.Name, last.Text), lines(during)...)
	}
	return with(fail(during[len(during)-1].At, "expected %s of step %s to be refused, it was not", requested(*s.Op), s.Name), lines(during)...)
}

func requested(op ringproof.Op) string {
	if op.Kind == ringproof.OpScale {
		return fmt.Sprintf("%s %d", op.Kind, op.To)
	}
	return strings.TrimSpace(string(op.Kind) + " " + op.Version + op.Peers)
}

// stepEvents returns the step's own events, and the refusals that name no step
// and came while it went on.
func stepEvents(h *ringproof.History, step string) (begun bool, during []ringproof.Event) {
	open := false
	for _, e := range h.Events {
		switch {
		case e.Step == step && e.Kind == ringproof.EventStepBegun:
			begun, open = true, true
		case e.Step == step && (e.Kind == ringproof.EventStepDone || e.Kind == ringproof.EventStepFailed || e.Kind == ringproof.EventStepMissed):
			during = append(during, e)
			open = false
			continue
		}
		if e.Step == step || open && e.Step == "" && e.Kind == ringproof.EventRefused {
			during = append(during, e)
		}
	}
	return begun, during
}

// unchanged looks at the ring from the step's beginning to its refusal. What
// the subject does then for another step that still goes on isn't charged, nor what
// follows of itself from one that is over: m2 has left, and clears its disk.
func unchanged(h *ringproof.History, s ringproof.Step, from ringproof.Instant, refused ringproof.Event) ringproof.Finding {
	if busy(h, s.Name, from) {
		return pass("refused")
	}
	owed := owedAt(h, from)
	for _, e := range events(h, ringproof.EventActionBegun, ringproof.EventMemberAdded, ringproof.EventMemberPromoted, ringproof.EventMemberRemoved) {
		if s.Op.Ends() && e.Action == "move-leader" {
			continue // an agent that is ended hands over
		}
		if e.At > from && e.At <= refused.At && e.Seq < refused.Seq && !owed.pays(e) {
			return with(fail(e.At, "expected the ring unchanged by step %s, which is refused; saw %s", s.Name, e.Kind), e.String())
		}
	}
	if s.Op.Kind == ringproof.OpScale && s.Op.To == h.Evidence.Spec && s.Op.To == len(h.Evidence.Final.Voters()) && !askedElsewhere(h.Plan, s) {
		return fail(refused.At, "expected the ring never to become the %s that step %s was refused, it ends so", ringproof.Counted(s.Op.To, "voter"), s.Name)
	}
	return pass("refused")
}

func askedElsewhere(p ringproof.Plan, refused ringproof.Step) bool {
	if p.Ring.Size == refused.Op.To {
		return true
	}
	for _, s := range p.Steps {
		if s.Op != nil && s.Op.Kind == ringproof.OpScale && !s.Op.Refused && s.Op.To == refused.Op.To {
			return true
		}
	}
	return false
}

// busy reports whether another step had begun and not ended at the moment.
func busy(h *ringproof.History, step string, at ringproof.Instant) bool {
	going := map[string]bool{}
	for _, e := range h.Events {
		if e.At > at {
			break
		}
		switch e.Kind {
		case ringproof.EventStepBegun:
			going[e.Step] = e.Step != step
		case ringproof.EventStepDone, ringproof.EventStepFailed, ringproof.EventStepMissed:
			delete(going, e.Step)
		}
	}
	delete(going, step)
	return len(going) > 0
}

func lines(all []ringproof.Event) []string {
	var texts []string
	for _, e := range all {
		texts = append(texts, e.String())
	}
	return texts
}
