// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// Operation describes one operation: what an operator asks of the subject.
type Operation struct {
	Kind    ringproof.OpKind `json:"kind"`
	Doc     string           `json:"doc"`
	Params  Params           `json:"params"`
	Targets []string         `json:"targets,omitempty"` // forms of selectors of whom it is about and whom it asks; empty: any that is one machine's
	Owes    string           `json:"owes"`              // what a correct subject owes to whoever asks
	Worlds  []string         `json:"worlds"`            // where it can be carried out
	Beside  bool             `json:"beside,omitempty"`  // the subject has no part in it
	Undrawn bool             `json:"undrawn,omitempty"` // explore asks for it in no plan

	// Causes lists the events that it may cause in a ring of so many voters, besides those of
	// every step; nil: those of a subject at work.
	Causes func(op ringproof.Op, voters int) []ringproof.EventKind `json:"-"`
	// Takes is roughly how long it takes in real time in a ring of so many voters; nil: a second.
	Takes func(op ringproof.Op, voters int) time.Duration `json:"-"`
	// Sentence says what is asked, for a person; nil: as the operation prints itself.
	Sentence func(ringproof.Op) string `json:"-"`
}

// Operations lists every operation there is.
func Operations() []Operation { return slices.Clone(operations) }

// OperationKinds lists the names of all operations in the catalogue's order.
func OperationKinds() []string {
	kinds := make([]string, 0, len(operations))
	for _, o := range operations {
		kinds = append(kinds, string(o.Kind))
	}
	return kinds
}

// LookupOperation returns the entry of one operation.
func LookupOperation(kind ringproof.OpKind) (Operation, bool) {
	i := slices.IndexFunc(operations, func(o Operation) bool { return o.Kind == kind })
	if i < 0 {
		return Operation{}, false
	}
	return operations[i], true
}

var (
	member  = Param{Name: "target", Type: TypeTarget, Doc: "which member", Required: true}
	stopped = Param{Name: "scope", Doc: "what hears SIGTERM. process (default): etcd. agent: the subject's process, which ends its etcd or leaves it. " +
		"service: both at once. machine: the agent, and once it has ended the power is cut", Values: []string{"process", "agent", "service", "machine"}}

	single = append(MemberForms(), "mN", "machine/N", "step/NAME")
)

// The catalogue's order is the one in which explore draws.
var operations = []Operation{
	{
		Kind:   ringproof.OpScale,
		Doc:    "change the number of voters",
		Params: Params{{Name: "to", Type: TypeNumber, Doc: "voters", Required: true, Most: 99}},
		Owes:   "An odd number up to 9 is reached, one member after another, each a learner first. Any other is refused.",
		Worlds: everywhere,
		Causes: resized,
		Takes: func(op ringproof.Op, voters int) time.Duration {
			return time.Duration(max(op.To-voters, voters-op.To)) * 4 * time.Second
		},
		Sentence: func(op ringproof.Op) string { return "ask for " + ringproof.Counted(op.To, "voter") },
	},
	{
		Kind:    ringproof.OpReplace,
		Doc:     "move a healthy member to a spare machine",
		Params:  Params{member},
		Targets: single,
		Owes:    "Another machine has the member in the end, and the ring is never smaller meanwhile.",
		Worlds:  everywhere,
		Causes:  causing(replaced),
		Takes:   lasting(6 * time.Second),
		Sentence: func(op ringproof.Op) string {
			return "ask to move the member on " + op.Target + " to another machine"
		},
	},
	{
		Kind: ringproof.OpRestart,
		Doc:  "end one etcd in order, or more than it, and wait until it serves again; with another release or other flags from then on, if they are given",
		Params: Params{
			member, stopped,
			{Name: "for", Type: TypeDuration, Doc: "how long what was ended stays down; at once when absent"},
			{Name: "version", Type: TypeRelease, Doc: "the release that it runs from then on"},
			{Name: "flags", Type: TypeFlags, Doc: "more flags from then on; an empty one is taken away"},
		},
		Targets:  single,
		Owes:     "Who ended in order has lost nothing: the same member serves again, as it is asked to.",
		Worlds:   everywhere,
		Causes:   restarted,
		Takes:    lasting(3 * time.Second),
		Sentence: restart,
	},
	{
		Kind:   ringproof.OpRoll,
		Doc:    "restart every member, one after another, the leader last",
		Params: Params{{Name: "scope", Doc: "what hears SIGTERM, as of restart", Values: stopped.Values}},
		Owes:   "Clients are served throughout, but for elections.",
		Worlds: everywhere,
		Causes: restarted,
		Takes: func(_ ringproof.Op, voters int) time.Duration {
			return time.Duration(voters) * 4 * time.Second
		},
		Sentence: func(op ringproof.Op) string {
			return worded(op.Scope, "restart every member", "agent", "restart every agent", "service", "restart every agent and its etcd at once", "machine", "reboot every member's machine") +
				", one after another, the leader last"
		},
	},
	{
		Kind:     ringproof.OpMoveLeader,
		Doc:      "hand leadership to a member",
		Params:   Params{member},
		Targets:  single,
		Owes:     "The member leads, unless a fault comes between.",
		Worlds:   everywhere,
		Causes:   causing([]ringproof.EventKind{ringproof.EventLeaderChanged}),
		Sentence: func(op ringproof.Op) string { return "hand leadership to " + op.Target },
	},
	{
		Kind:     ringproof.OpCancelReplace,
		Doc:      "take back the replacements that were asked for",
		Owes:     "What is not done by then isn't begun; a member that is on its way is not left half in.",
		Worlds:   everywhere,
		Causes:   causing(replaced), // of what was asked for before
		Sentence: func(ringproof.Op) string { return "take back what was asked to be moved" },
	},
	{
		Kind:     ringproof.OpSuspend,
		Doc:      "leave the ring as it is, whatever is asked for, until resume",
		Owes:     "No member is added, promoted or removed. Members that end are started again.",
		Worlds:   everywhere,
		Causes:   causing(replaced),
		Sentence: func(ringproof.Op) string { return "ask that the ring be left as it is" },
	},
	{
		Kind:     ringproof.OpResume,
		Doc:      "go on after suspend",
		Owes:     "What was asked for meanwhile is done.",
		Worlds:   everywhere,
		Causes:   causing(replaced),
		Sentence: func(ringproof.Op) string { return "let the ring be changed again" },
	},
	{
		Kind: ringproof.OpReset,
		Doc:  "end the agent of a machine in order, empty its disk by the subject's own command, and start it again; the subject refuses while the ring lists the member",
		Params: Params{
			{Name: "target", Type: TypeTarget, Doc: "which machine", Required: true},
			{Name: "endpoint", Type: TypeTarget, Doc: "at whose address the members are asked for; at everybody's when absent"},
		},
		Targets: append(slices.Clone(single), "spare"),
		Owes:    "A disk is emptied only once its member has left by a list that a quorum confirms.",
		Worlds:  everywhere,
		Causes:  causing(bounced, []ringproof.EventKind{ringproof.EventRefused, ringproof.EventDiskReplaced}),
		Takes:   lasting(4 * time.Second),
		Sentence: func(op ringproof.Op) string {
			text := "empty the disk of " + op.Target + " by the subject's own command"
			if op.Endpoint != "" {
				text += ", which asks at " + op.Endpoint + " who is a member"
			}
			return text
		},
	},
	{
		Kind:     ringproof.OpSnapshot,
		Doc:      "have the subject write what the ring holds into a file",
		Owes:     "The file holds all that was acknowledged when it was asked for, and nothing that the ring never held.",
		Worlds:   everywhere,
		Causes:   func(ringproof.Op, int) []ringproof.EventKind { return nil },
		Sentence: func(ringproof.Op) string { return "ask for a backup of the ring" },
	},
	{
		Kind:   ringproof.OpUpgrade,
		Doc:    "have all members run another release of etcd, one after another",
		Params: Params{{Name: "version", Key: "to", Type: TypeRelease, Doc: "the release that all members run then: a later one of the same minor, or of the next; the one before takes back an upgrade that nobody waits for", Required: true}},
		Owes:   "One member at a time is restarted while all others serve, the leader last; none is replaced. What etcd doesn't go to is refused.",
		Worlds: everywhere,
		Causes: restarted,
		Takes: func(_ ringproof.Op, voters int) time.Duration {
			return time.Duration(voters) * 4 * time.Second
		},
		Sentence: func(op ringproof.Op) string { return "ask to upgrade every member to etcd " + op.Version },
	},
	{
		Kind:   ringproof.OpPeers,
		Doc:    "have all members speak another way to each other, while the ring runs; on Kubernetes, give them launchers, which do",
		Params: Params{{Name: "peers", Key: "to", Doc: "tls, where they speak plain text; to plain a correct subject doesn't go back", Values: []string{"tls", "plain"}, Required: true}},
		Owes:   "One member at a time is restarted or listed anew, while all others serve; none is replaced. In the end nothing goes between peers in the clear.",
		Worlds: withStore,
		Causes: restarted,
		Takes: func(_ ringproof.Op, voters int) time.Duration {
			return time.Duration(voters) * 10 * time.Second
		},
		Sentence: func(op ringproof.Op) string {
			return "ask to have every member speak " + worded(op.Peers, "plain text", "tls", "TLS") + " to its peers"
		},
	},
	{
		Kind: ringproof.OpEdit,
		Doc:  "edit a field of the object by which an operator is asked for the ring, as kubectl patch does: its resources, or where its pods may run",
		Params: Params{
			{Name: "field", Doc: "its path: spec.resources", Required: true},
			{Name: "value", Doc: "what it is to be: JSON, or else a string; null takes it away", Required: true},
			{Name: "object", Doc: "another object of the operator's, as KIND/NAME, of the ring's group and version, and of its namespace if it is in one; made, where it isn't there"},
		},
		Owes:   "Members whose pods must be others for that are restarted one at a time, while all others serve, the leader last; none is replaced.",
		Worlds: onNodes,
		Causes: restarted,
		Takes: func(_ ringproof.Op, voters int) time.Duration {
			return time.Duration(voters) * 10 * time.Second
		},
		Undrawn: true, // what fields there are the subject knows; of the reference some are drawn
		Sentence: func(op ringproof.Op) string {
			return fmt.Sprintf("edit %s to %s", strings.TrimPrefix(op.Params["object"]+" "+op.Params["field"], " "), op.Params["value"])
		},
	},
	{
		Kind: ringproof.OpAsk,
		Doc:  "ask one member what its operator may ask, as with etcdctl: the subject has no part in it",
		Params: Params{
			member,
			{Name: "request", Doc: "status, hash: of itself, and of its keys. alarms, disarm: list those raised, take them back. " +
				"defrag: give the space of what was deleted back. snapshot: a backup. compact: discard all history up to now. " +
				"surge: thousands of writes as fast as it takes them, as of an import",
				Values: []string{"status", "hash", "alarms", "disarm", "defrag", "snapshot", "compact", ringproof.AskSurge}, Required: true},
		},
		Targets:  single,
		Owes:     "The member answers as the ring's history says.",
		Worlds:   everywhere,
		Beside:   true,
		Causes:   func(ringproof.Op, int) []ringproof.EventKind { return nil },
		Sentence: question,
	},
}

func lasting(d time.Duration) func(ringproof.Op, int) time.Duration {
	return func(ringproof.Op, int) time.Duration { return d }
}

func restart(op ringproof.Op) string {
	text := worded(op.Scope, "restart etcd on ", "agent", "restart the agent on ", "service", "restart the agent and etcd at once on ", "machine", "reboot ") + op.Target
	if op.For > 0 {
		text += fmt.Sprintf(", %s later", span(op.For))
	}
	return text
}

func question(op ringproof.Op) string {
	text := worded(op.Request, "ask %s for its status", "hash", "ask %s for the hash of its keys", "alarms", "ask %s for alarms", "disarm", "take back all alarms at %s",
		"defrag", "defragment %s", "snapshot", "make a backup of %s", "compact", "compact at %s all history up to now", ringproof.AskSurge, "write thousands of entries by %s at once")
	return fmt.Sprintf(text, op.Target)
}
