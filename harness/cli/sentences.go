// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

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
		text = worded(op.Scope, "restart etcd on ", "agent", "restart the agent on ", "service", "restart the agent and etcd at once on ", "machine", "reboot ") + op.Target
		if op.For > 0 {
			text += fmt.Sprintf(", %s later", span(op.For))
		}
	case ringproof.OpRoll:
		text = worded(op.Scope, "restart every member", "agent", "restart every agent", "service", "restart every agent and its etcd at once", "machine", "reboot every member's machine") +
			", one after another, the leader last"
	case ringproof.OpMoveLeader:
		text = "hand leadership to " + op.Target
	case ringproof.OpCancelReplace:
		text = "take back what was asked to be moved"
	case ringproof.OpReset:
		text = "empty the disk of " + op.Target + " by the subject's own command"
		if op.Endpoint != "" {
			text += ", which asks at " + op.Endpoint + " who is a member"
		}
	case ringproof.OpSuspend:
		text = "ask that the ring be left as it is"
	case ringproof.OpResume:
		text = "let the ring be changed again"
	case ringproof.OpAsk:
		text = worded(op.Request, "ask %s for its status", "hash", "ask %s for the hash of its keys", "alarms", "ask %s for alarms", "disarm", "take back all alarms at %s",
			"defrag", "defragment %s", "snapshot", "make a backup of %s", "compact", "compact at %s all history up to now")
		text = fmt.Sprintf(text, op.Target)
	}
	if op.Rival {
		text += ", while another operator asks too"
	}
	if op.Refused {
		text += ", which must be refused"
	}
	return text
}

func harm(f ringproof.Fault) string {
	text := harmed(f)
	switch {
	case f.For == 0 || f.Kind == ringproof.FaultPause:
	case f.Kind == ringproof.FaultAgentCrash:
		if dies(f.Phase) {
			text += fmt.Sprintf(", started again after %s", span(f.For))
		}
	case f.Kind == ringproof.FaultVolumeLoss:
		text += fmt.Sprintf(", off for %s first", span(f.For))
	default:
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
		return worded(f.Leave, "lose the disk of "+whose+", for good", "directories", "lose the disk of "+whose+", for good; the new one holds empty directories",
			"identity", "lose etcd's data on the disk of "+whose+", for good; the disk's identity stays",
			ringproof.LeaveCopy, fmt.Sprintf("put the disk of %s back as it was %s before", whose, span(ringproof.Duration(f.Age()))),
			ringproof.LeaveDamaged, "damage the log of "+whose+" in the middle",
			ringproof.LeaveForced, "make the log of "+whose+" that of a ring of one, as etcd --force-new-cluster does")
	case ringproof.FaultDiskFull:
		return "fill the disk of " + whose
	case ringproof.FaultPartition:
		if f.Shape == "pair" {
			return "keep " + f.From + " and " + whose + " from hearing each other"
		}
		return worded(f.Shape, "split from the others ", "isolate", "cut off, each alone, ", "one-way", "keep the others from hearing ") + whose
	case ringproof.FaultStoreOutage:
		return strings.Join(strings.Fields("fail every store "+worded(f.Calls, "call", "writes", "write")+concerning(f.Records)+" of "+whose), " ")
	case ringproof.FaultStoreStale:
		return "answer the store reads of " + whose + " with the past"
	case ringproof.FaultReplyLoss:
		return fmt.Sprintf("lose %d of 100 replies to %s", f.Percent, whose)
	case ringproof.FaultSlowNetwork:
		return fmt.Sprintf("delay every packet from and to %s by %s", whose, span(f.By))
	case ringproof.FaultClockSkew:
		return "set the clock of " + whose + " " + skew(f.By)
	case ringproof.FaultStartFailure:
		return worded(f.At, "have etcd end before it writes a log, whenever it starts, on ", "after-log", "have etcd end once it has a log, whenever it starts, on ") + whose
	case ringproof.FaultVolumeUnmounted:
		return "restart " + whose + " without its data filesystem, mounted again " + worded(f.Remount, "while it runs", "reboot", "with another restart")
	case ringproof.FaultVolumeCopy:
		return "copy the data of " + f.From + " to " + whose
	case ringproof.FaultTimePasses:
		return "let " + span(f.By) + " pass by all clocks"
	case ringproof.FaultDiskSwap:
		return "swap the disks of " + whose
	case ringproof.FaultWrongRing:
		return "let another ring answer at the address of " + whose
	case ringproof.FaultDuplicate:
		return "bring up a second machine with the name of " + whose
	case ringproof.FaultDryRun:
		return "run the agent on " + whose + " dry"
	case ringproof.FaultKeysDamaged:
		if f.Leave == "nonsense" {
			return "overwrite every key that is not the clients'"
		}
		return "delete every key that is not the clients'"
	case ringproof.FaultForeignHand:
		return "have somebody else remove the member of " + whose
	case ringproof.FaultSlowDisk:
		return fmt.Sprintf("delay every sync of the disk of %s by %s", whose, span(f.By))
	case ringproof.FaultAPIOutage:
		return "take the cluster's API server away"
	case ringproof.FaultAgentCrash:
		return cut(f)
	case ringproof.FaultStaleView, ringproof.FaultSkippedView:
		return misled(f)
	}
	return strings.TrimSpace(string(f.Kind) + " " + f.Target)
}

func concerning(records string) string {
	if records == "" {
		return ""
	}
	return " about " + records
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

func skew(by ringproof.Duration) string {
	if by < 0 {
		return span(-by) + " back"
	}
	return span(by) + " ahead"
}

// dies tells whether a cut in this phase ends the agent; else it lives on.
func dies(phase string) bool { return phase == "before" || phase == "after" }

// agent is whose agent a fault at the seams hits.
func agent(f ringproof.Fault) string {
	if f.Target == "" {
		return "the agent"
	}
	return "the agent on " + f.Target
}

func cut(f ringproof.Fault) string {
	what := cmp.Or(f.Action, f.Effect)
	if f.Nth > 1 {
		what += fmt.Sprintf(" number %d", f.Nth)
	}
	switch f.Phase {
	case "reply-lost":
		return fmt.Sprintf("lose the reply of %s to %s", what, agent(f))
	case "refused":
		return fmt.Sprintf("refuse %s %s", agent(f), what)
	}
	return fmt.Sprintf("crash %s %s %s", agent(f), f.Phase, what)
}

// misled says which decisions are made on an old view, or missed.
func misled(f ringproof.Fault) string {
	count, nth := max(f.Count, 1), max(f.Nth, 1)
	which := fmt.Sprintf("decision %d", nth)
	if count > 1 {
		which = fmt.Sprintf("decisions %d to %d", nth, nth+count-1)
	}
	which += worded(f.Decision, " about the ring", "boot", " about a start")
	if f.Kind == ringproof.FaultSkippedView {
		return fmt.Sprintf("keep %s from %s", agent(f), which)
	}
	return fmt.Sprintf("show %s a view %s old at %s", agent(f), counted(max(f.Back, 1), "decision"), which)
}

func demand(a ringproof.Assert) string {
	return fmt.Sprintf("expect within %s %s", span(a.Within), strings.Join(a.Wants(), ", "))
}
