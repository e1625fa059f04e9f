// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ringproof/ringproof"
)

// sentence says what a step does, and when.
func sentence(s ringproof.Step) string {
	parts := append(beginning(s), deed(s))
	if s.Detach {
		parts = append(parts, "while the next steps go on")
	}
	return strings.Join(parts, ", ")
}

// span prints 1m, where Go prints 1m0s.
func span(d ringproof.Duration) string {
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
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
		return asked(*s.Op)
	case s.Fault != nil:
		return harm(*s.Fault)
	case s.Assert != nil:
		return demand(*s.Assert)
	}
	return "nothing"
}

func asked(op ringproof.Op) string {
	text := string(op.Kind)
	switch op.Kind {
	case ringproof.OpScale:
		text = fmt.Sprintf("ask for %s", counted(op.To, "voter"))
	case ringproof.OpReplace:
		text = "ask to move the member on " + op.Target + " to another machine"
	case ringproof.OpRestart:
		text = "restart etcd on " + op.Target
	case ringproof.OpRoll:
		text = "restart every member, one after another, the leader last"
	case ringproof.OpMoveLeader:
		text = "hand leadership to " + op.Target
	}
	if op.Refused {
		text += ", which must be refused"
	}
	return text
}

func harm(f ringproof.Fault) string {
	text := harmed(f)
	if f.For > 0 && f.Kind != ringproof.FaultPause {
		text += fmt.Sprintf(", for %s", span(f.For))
	}
	if f.Stagger > 0 {
		text += fmt.Sprintf(", ended one by one, %s apart", span(f.Stagger))
	}
	return text
}

func harmed(f ringproof.Fault) string {
	whose := cmp.Or(f.Target, "all")
	switch f.Kind {
	case ringproof.FaultKill:
		return worded(f.Scope, "kill etcd on ", "agent", "kill the agent on ", "machine", "cut the power of ") + whose
	case ringproof.FaultPause:
		return fmt.Sprintf("stop the %s on %s for %s", cmp.Or(f.Scope, "process"), whose, span(f.For))
	case ringproof.FaultMachineLoss:
		return "lose the machine of " + whose + " and its disk, for good"
	case ringproof.FaultVolumeLoss:
		if f.Leave == "directories" {
			return "lose the disk of " + whose + ", for good; the new one holds empty directories"
		}
		return "lose the disk of " + whose + ", for good"
	case ringproof.FaultDiskFull:
		return "fill the disk of " + whose
	case ringproof.FaultPartition:
		return worded(f.Shape, "split from the others ", "isolate", "cut off, each alone, ", "one-way", "keep the others from hearing ") + whose
	case ringproof.FaultStoreOutage:
		return "fail every store call of " + whose
	case ringproof.FaultStoreStale:
		return "answer the store reads of " + whose + " with the past"
	case ringproof.FaultAgentCrash:
		return crash(f)
	}
	return strings.TrimSpace(string(f.Kind) + " " + f.Target)
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

func crash(f ringproof.Fault) string {
	whose := "the agent"
	if f.Target != "" {
		whose += " on " + f.Target
	}
	when := worded(f.Phase, f.Phase, "reply-lost", "with the reply lost of")
	text := fmt.Sprintf("crash %s %s %s", whose, when, f.Action)
	if f.Nth > 1 {
		text += fmt.Sprintf(" number %d", f.Nth)
	}
	return text
}

func demand(a ringproof.Assert) string {
	var wants []string
	if a.Voters > 0 {
		wants = append(wants, counted(a.Voters, "voter"))
	}
	if a.Learners != nil {
		wants = append(wants, counted(*a.Learners, "learner"))
	}
	if a.HashKV == "equal" {
		wants = append(wants, "equal data everywhere")
	}
	if a.Halted {
		wants = append(wants, "that the subject halts and says so")
	}
	return fmt.Sprintf("expect within %s %s", span(a.Within), strings.Join(wants, ", "))
}
