// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"fmt"
	"strings"
)

// MemberID is etcd's member ID; it prints as etcd prints it, in hex.
type MemberID uint64

// String prints 8e9e05c52164694d.
func (id MemberID) String() string { return fmt.Sprintf("%x", uint64(id)) }

// MarshalText saves id in hex.
func (id MemberID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *MemberID) UnmarshalText(text []byte) error {
	var v uint64
	if _, err := fmt.Sscanf(string(text), "%x", &v); err != nil {
		return fmt.Errorf("member ID %q: write it in hex, as etcdctl prints it", text)
	}
	*id = MemberID(v)
	return nil
}

// EventKind names what happened. The names are the same in every world.
type EventKind string

// The events. Those of the ring are seen by the world's observer, those of an
// action are told by the subject, the rest come from the executor.
const (
	EventRingCreated    EventKind = "ring-created"    // the first linearizable answer
	EventMemberAdded    EventKind = "member-added"    // a new entry in the membership
	EventMemberStarted  EventKind = "member-started"  // it serves for the first time
	EventMemberPromoted EventKind = "member-promoted" // learner to voter
	EventMemberRemoved  EventKind = "member-removed"
	EventMemberUp       EventKind = "member-up"   // serves again
	EventMemberDown     EventKind = "member-down" // stopped answering
	EventLeaderChanged  EventKind = "leader-changed"
	EventAlarm          EventKind = "alarm"

	EventProcessStarted EventKind = "process-started" // an etcd process on a machine
	EventProcessExited  EventKind = "process-exited"
	EventDiskReplaced   EventKind = "disk-replaced" // a machine began to use a new empty disk

	EventLeads        EventKind = "leads"        // a process of the subject leads the automation
	EventActionBegun  EventKind = "action-begun" // the subject begins a change
	EventActionDone   EventKind = "action-done"
	EventActionFailed EventKind = "action-failed"
	EventWaiting      EventKind = "waiting"  // the subject says why it does nothing
	EventHalted       EventKind = "halted"   // the subject refuses to go on, with commands for a person
	EventRefused      EventKind = "refused"  // the subject refuses an operation
	EventBoot         EventKind = "boot"     // a launcher's decision
	EventTrespass     EventKind = "trespass" // it changed what was not its own to change
	EventStatus       EventKind = "status"   // what it says of the ring, where people read it, is another

	EventStepBegun  EventKind = "step-begun"
	EventStepDone   EventKind = "step-done"
	EventStepFailed EventKind = "step-failed"
	EventStepMissed EventKind = "step-missed" // it could not be tried, so it says nothing of the subject

	EventFaultLanded     EventKind = "fault-landed" // with the evidence
	EventFaultMissed     EventKind = "fault-missed" // it could not be applied, or did nothing
	EventFaultHealed     EventKind = "fault-healed"
	EventFaultDowngraded EventKind = "fault-downgraded" // the draw was unfair

	EventHealPhase EventKind = "heal-phase" // all faults end; convergence is demanded from here
	EventConverged EventKind = "converged"
	EventLoadEnds  EventKind = "load-ends" // clients stop asking
	EventRunEnds   EventKind = "run-ends"
	EventRunBegins EventKind = "run-begins" // the machines are there, and nothing is on them yet

	EventMutantReached EventKind = "mutant-reached" // what a mutant does wrong was done
)

// EventKinds lists every kind with one sentence for a reader.
func EventKinds() map[EventKind]string {
	return map[EventKind]string{
		EventRingCreated:     "the ring gave its first linearizable answer",
		EventMemberAdded:     "a member entered the membership, as learner or voter",
		EventMemberStarted:   "a member served for the first time",
		EventMemberPromoted:  "a learner became a voter",
		EventMemberRemoved:   "a member left the membership",
		EventMemberUp:        "a member serves again",
		EventMemberDown:      "a member stopped answering",
		EventLeaderChanged:   "another member leads, or none does",
		EventAlarm:           "a member raised an alarm, such as NOSPACE",
		EventProcessStarted:  "an etcd process started on a machine",
		EventProcessExited:   "an etcd process ended on a machine",
		EventDiskReplaced:    "a machine began to use a new, empty disk",
		EventLeads:           "one of the subject's processes began to lead the automation",
		EventActionBegun:     "the subject began a change of the ring",
		EventActionDone:      "the subject's change was carried out",
		EventActionFailed:    "the subject's change failed, or its reply was lost",
		EventWaiting:         "the subject said why it does nothing now",
		EventHalted:          "the subject refused to go on, and said what a person should consider",
		EventRefused:         "the subject refused an operation",
		EventBoot:            "a launcher decided how, or that not, to start etcd",
		EventTrespass:        "the subject changed what it must not: another ring, or anything while it was told to change nothing",
		EventStatus:          "the status of the ring's object says something else than before",
		EventStepBegun:       "a step of the plan began",
		EventStepDone:        "a step of the plan was done",
		EventStepFailed:      "the ring did not become what a step of the plan asked for or asserted",
		EventStepMissed:      "a step of the plan could not be tried: its trigger never came, or nobody could carry it out",
		EventFaultLanded:     "a fault was applied, with the evidence that it took effect",
		EventFaultMissed:     "a fault could not be applied, or did nothing",
		EventFaultHealed:     "a fault was taken away",
		EventFaultDowngraded: "a fault was unfair at that moment, and a milder one took its place",
		EventHealPhase:       "all faults ended; from here on the ring must converge",
		EventConverged:       "the ring is what was asked for, and stays so",
		EventLoadEnds:        "the clients stopped asking",
		EventRunEnds:         "the run ended",
		EventRunBegins:       "the machines are there and the ring is not: a fault from now on meets its bootstrap",
		EventMutantReached:   "the mistaken code of a mutant on trial was reached, once for each life of a process",
	}
}

// Event is one thing that happened. Fields that a kind doesn't use stay zero.
type Event struct {
	Seq     int       `json:"seq"`
	At      Instant   `json:"at"`
	Since   Instant   `json:"since,omitempty"` // of what a look showed: it happened after this; 0: at At
	Kind    EventKind `json:"kind"`
	Machine string    `json:"machine,omitempty"`
	Member  MemberID  `json:"member,omitempty"`
	By      string    `json:"by,omitempty"` // the machine whose process of the subject tells it; "": it isn't told by the subject
	Step    string    `json:"step,omitempty"`
	Fault   FaultKind `json:"fault,omitempty"`
	Action  string    `json:"action,omitempty"`  // "add-learner", "remove", …
	Command string    `json:"command,omitempty"` // the ringadm command that does the action by hand
	Learner bool      `json:"learner,omitempty"` // member-added: it entered as learner
	Text    string    `json:"text,omitempty"`    // the evidence, reason or error
}

// ChangesMembership reports whether the action that the event tells of is one by which
// a subject changes who is in the ring.
func (e Event) ChangesMembership() bool {
	return e.Action == "add-learner" || e.Action == "promote" || e.Action == "remove"
}

// Span is when it happened.
func (e Event) Span() Span {
	if e.Since == 0 {
		return Span{e.At, e.At}
	}
	return Span{e.Since, e.At}
}

// String prints one line: time, kind, who, what.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%9.3fs  %-16s", e.At.Seconds(), e.Kind)
	for _, part := range []string{e.Step, string(e.Fault), e.Machine, e.memberText(), e.Action, e.Text} {
		if part != "" {
			b.WriteString("  ")
			b.WriteString(part)
		}
	}
	return b.String()
}

func (e Event) memberText() string {
	if e.Member == 0 {
		return ""
	}
	return e.Member.String()
}
