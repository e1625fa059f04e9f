// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// Sentence says to a person what a step does, and when.
func Sentence(s ringproof.Step) string {
	parts := append(beginning(s), deed(s))
	if s.Detach {
		parts = append(parts, "while the next steps go on")
	}
	return strings.Join(parts, ", ")
}

// SentenceOfEnd says how the ring is deleted.
func SentenceOfEnd(e ringproof.End) string {
	text := fmt.Sprintf("delete the ring, and expect within %s that nothing of it is left", span(e.Within))
	if e.Fault != nil {
		text = breaking(*e.Fault) + "; meanwhile " + text
	}
	return text
}

func beginning(s ringproof.Step) []string {
	var parts []string
	if len(s.Join) > 0 {
		parts = append(parts, "at the end of "+strings.Join(s.Join, " and "))
	}
	if s.After != nil {
		parts = append(parts, trigger(*s.After))
	}
	return parts
}

func trigger(t ringproof.Trigger) string {
	text := "once " + cmp.Or(ringproof.EventKinds()[t.Event], string(t.Event))
	var more []string
	if t.Nth > 1 {
		more = append(more, fmt.Sprintf("%d times", t.Nth))
	}
	if t.Action != "" {
		more = append(more, "action "+t.Action)
	}
	if t.Step != "" {
		more = append(more, "step "+t.Step)
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	if t.Delay > 0 {
		text = fmt.Sprintf("%s after %s", span(t.Delay), strings.TrimPrefix(text, "once "))
	}
	return text
}

func deed(s ringproof.Step) string {
	switch {
	case s.Op != nil:
		return asking(*s.Op)
	case s.Fault != nil:
		return breaking(*s.Fault)
	case s.Assert != nil:
		return fmt.Sprintf("expect within %s %s", span(s.Assert.Within), strings.Join(s.Assert.Wants(), ", "))
	}
	return "nothing"
}

func asking(op ringproof.Op) string {
	entry, _ := LookupOperation(op.Kind)
	if entry.Sentence == nil {
		return op.String()
	}
	text := entry.Sentence(op)
	if op.Rival {
		text += ", while another operator asks too"
	}
	if op.Refused {
		text += ", which must be refused"
	}
	return text
}

func breaking(f ringproof.Fault) string {
	entry, _ := Lookup(f.Kind)
	if entry.Sentence == nil {
		return f.String()
	}
	text := entry.Sentence(f)
	if f.For > 0 && !entry.TellsFor {
		text += fmt.Sprintf(", for %s", span(f.For))
	}
	if f.Stagger > 0 {
		text += fmt.Sprintf(", ended one by one, %s apart", span(f.Stagger))
	}
	return text
}

// span prints 1m, where Go prints 1m0s.
func span(d ringproof.Duration) string {
	if day := ringproof.Duration(24 * time.Hour); d >= 2*day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// worded picks the text of a value: usual, or one of the pairs.
func worded(value, usual string, pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] == value {
			return pairs[i+1]
		}
	}
	return usual
}

// to says the same of every target: "fill the disk of " whose it is.
func to(deed string) func(ringproof.Fault) string {
	return func(f ringproof.Fault) string { return deed + whom(f) }
}

func whom(f ringproof.Fault) string { return cmp.Or(f.Target, "all") }

func loseVolume(f ringproof.Fault) string {
	if f.How == ringproof.Removed {
		return worded(f.Leave, "remove all files on the disk of "+whom(f)+" from under its etcd", "identity", "remove the data of "+whom(f)+" from under its etcd")
	}
	text := worded(f.Leave, "lose the disk of "+whom(f)+", for good", "directories", "lose the disk of "+whom(f)+", for good; the new one holds empty directories",
		"identity", "lose etcd's data on the disk of "+whom(f)+", for good; the disk's identity stays",
		ringproof.LeaveCopy, fmt.Sprintf("put the disk of %s back as it was %s before", whom(f), span(ringproof.Duration(f.Age()))),
		ringproof.LeaveDamaged, "damage the log of "+whom(f)+" in the middle",
		ringproof.LeaveHoled, "leave zeros in the middle of the log of "+whom(f),
		ringproof.LeaveGarbled, "damage the keyspace of "+whom(f),
		ringproof.LeaveForced, "make the log of "+whom(f)+" that of a ring of one, as etcd --force-new-cluster does")
	if f.For > 0 {
		text += fmt.Sprintf(", off for %s first", span(f.For))
	}
	return text
}

func part(f ringproof.Fault) string {
	at := ""
	if f.OfPort() {
		at = " at the " + f.Port + " port"
	}
	if f.Shape == "pair" {
		return "keep " + f.From + " and " + whom(f) + " from hearing each other" + at
	}
	return worded(f.Shape, "split from the others ", "isolate", "cut off, each alone, ", "one-way", "keep the others from hearing ") + whom(f) + at
}

func failCalls(f ringproof.Fault) string {
	about := ""
	if f.Records != "" {
		about = " about " + f.Records
	}
	return worded(f.How, "fail", ringproof.StoreHangs, "hold") + " every store " + worded(f.Calls, "call", "writes", "write") + about + " of " + whom(f)
}

func skew(f ringproof.Fault) string {
	if f.By < 0 {
		return "set the clock of " + whom(f) + " " + span(-f.By) + " back"
	}
	return "set the clock of " + whom(f) + " " + span(f.By) + " ahead"
}

// agent is whose agent a fault at the seams hits.
func agent(f ringproof.Fault) string {
	if f.Scope == ringproof.ScopeController {
		return "the controller"
	}
	if f.Target == "" {
		return "the agent"
	}
	return "the agent on " + f.Target
}

// crash says where an agent is cut. In two of the phases it dies, else it lives on.
func crash(f ringproof.Fault) string {
	what := cmp.Or(f.Action, f.Effect)
	if f.Nth > 1 {
		what += fmt.Sprintf(" number %d", f.Nth)
	}
	switch f.Phase {
	case "reply-lost":
		return fmt.Sprintf("lose the reply of %s to %s", what, agent(f))
	case "late":
		return fmt.Sprintf("delay %s of %s until it has given up", what, agent(f))
	case "unseen":
		return fmt.Sprintf("hide %s from the cache of %s", what, agent(f))
	case "refused":
		return fmt.Sprintf("refuse %s %s", agent(f), what)
	}
	text := fmt.Sprintf("crash %s %s %s", agent(f), f.Phase, what)
	if f.For > 0 {
		text += fmt.Sprintf(", started again after %s", span(f.For))
	}
	return text
}

// decisions says which are made on an old view, or missed.
func decisions(f ringproof.Fault) string {
	count, nth := max(f.Count, 1), max(f.Nth, 1)
	which := fmt.Sprintf("decision %d", nth)
	if count > 1 {
		which = fmt.Sprintf("decisions %d to %d", nth, nth+count-1)
	}
	return which + worded(f.Decision, " about the ring", "boot", " about a start")
}
