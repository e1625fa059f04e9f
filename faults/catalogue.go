// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"slices"

	"github.com/ringproof/ringproof"
)

// Entry describes one fault.
type Entry struct {
	Kind     ringproof.FaultKind `json:"kind"`
	Doc      string              `json:"doc"`
	Params   []Param             `json:"params"`
	Targets  []string            `json:"targets,omitempty"` // forms of selectors; empty: it takes no target
	Fairness string              `json:"fairness"`          // what a correct subject must survive, and why the rest is excluded
	Heals    string              `json:"heals"`
	Worlds   []string            `json:"worlds"` // where it can be applied
}

// Param is one parameter of a fault, named as it is written in a scenario.
type Param struct {
	Name     string   `json:"name"`
	Doc      string   `json:"doc"`
	Values   []string `json:"values,omitempty"` // the legal ones, the default first; empty: free
	Required bool     `json:"required,omitempty"`
}

// Param returns the parameter with that name.
func (e Entry) Param(name string) (Param, bool) {
	i := slices.IndexFunc(e.Params, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return Param{}, false
	}
	return e.Params[i], true
}

// ParamNames lists what may be written under the fault.
func (e Entry) ParamNames() []string {
	names := make([]string, 0, len(e.Params))
	for _, p := range e.Params {
		names = append(names, p.Name)
	}
	return names
}

// All returns the catalogue: transient harms first, losses after.
func All() []Entry { return slices.Clone(catalogue) }

// Kinds lists the names of all faults in the catalogue's order.
func Kinds() []string {
	kinds := make([]string, 0, len(catalogue))
	for _, e := range catalogue {
		kinds = append(kinds, string(e.Kind))
	}
	return kinds
}

// Lookup returns the entry of one fault.
func Lookup(kind ringproof.FaultKind) (Entry, bool) {
	i := slices.IndexFunc(catalogue, func(e Entry) bool { return e.Kind == kind })
	if i < 0 {
		return Entry{}, false
	}
	return catalogue[i], true
}

var (
	everywhere = []string{"sim", "local", "kind"}
	// Only auto mode meets in a store; on Kubernetes the API server is its place.
	withStore = []string{"sim", "local"}

	target  = Param{Name: "target", Doc: "which machines it hits", Required: true}
	someone = Param{Name: "target", Doc: "whose calls it hits; all when absent"}
	lasts   = Param{Name: "for", Doc: "heals by itself after this long; when absent, at the end of harm"}
	stagger = Param{Name: "stagger", Doc: "heals one target after another, this far apart"}
	scope   = Param{Name: "scope", Doc: "what dies: etcd's process, the subject's agent, or the machine with both", Values: []string{"process", "agent", "machine"}}
)

const transient = "Always fair: nothing that a member promised is forgotten, and it ends. " +
	"While it lasts the ring may lack a quorum, and then clients may wait; they may not be lied to. " +
	"Once it is healed the ring must converge."

const permanent = "Fair only if, in every configuration that could still commit, a quorum of voters keeps its log without the target. " +
	"Without such a quorum no software can tell which writes were acknowledged, so an unfair draw becomes a kill of the machine. " +
	"The charge ends when the lost member has left every such configuration. In mode disaster nothing is downgraded."

var catalogue = []Entry{
	{
		Kind: ringproof.FaultKill,
		Doc:  "SIGKILL to a process, or the cut of a machine's power: what wasn't synced is gone, what was is not",
		Params: []Param{
			target, scope, lasts, stagger,
		},
		Targets:  union(MemberForms(), MachineForms(), SetForms()),
		Fairness: transient + " A process that is killed is started again by whoever supervises it, not by the harness.",
		Heals:    "the machine gets power, or the agent is started again; with stagger, one target after another",
		Worlds:   everywhere,
	},
	{
		Kind: ringproof.FaultPause,
		Doc:  "SIGSTOP for a time, then SIGCONT: to the others it is dead, to itself no time has passed",
		Params: []Param{
			target, scope,
			{Name: "for", Doc: "how long it is stopped", Required: true},
		},
		Targets:  union(MemberForms(), MachineForms(), SetForms()),
		Fairness: transient + " A paused leader wakes up believing that it leads; so does a paused agent.",
		Heals:    "SIGCONT",
		Worlds:   everywhere,
	},
	{
		Kind: ringproof.FaultDiskFull,
		Doc:  "the target's data filesystem is filled: every write of etcd fails with ENOSPC",
		Params: []Param{
			target, lasts,
		},
		Targets:  union(MemberForms(), MachineForms()),
		Fairness: transient + " etcd ends on a failed WAL write; the subject must not mistake that for a lost disk.",
		Heals:    "the filler file is deleted",
		Worlds:   everywhere,
	},
	{
		Kind: ringproof.FaultPartition,
		Doc:  "packets between machines are dropped; clients on a machine stay with it",
		Params: []Param{
			target,
			{Name: "shape", Doc: "split: the targets on one side, all others on the other; isolate: each target alone; one-way: the others don't hear the targets, the targets hear them", Values: []string{"split", "isolate", "one-way"}},
			lasts,
		},
		Targets:  union(MemberForms(), MachineForms(), []string{"minority", "leader-minority", "majority"}),
		Fairness: transient + " The side without a quorum must not act as if it had one.",
		Heals:    "the packets pass again",
		Worlds:   everywhere,
	},
	{
		Kind: ringproof.FaultStoreOutage,
		Doc:  "every call to the store fails, reads and writes alike",
		Params: []Param{
			someone, lasts,
		},
		Targets:  union(MemberForms(), MachineForms()),
		Fairness: transient + " The ring itself needs no store: clients must notice nothing.",
		Heals:    "the store answers again",
		Worlds:   withStore,
	},
	{
		Kind: ringproof.FaultStoreStale,
		Doc:  "reads of the store answer with the past; create-if-absent still tells the truth",
		Params: []Param{
			someone, lasts,
		},
		Targets:  union(MemberForms(), MachineForms()),
		Fairness: transient + " Writes are never undone: a store that loses what it acknowledged is outside every envelope.",
		Heals:    "reads see the present again",
		Worlds:   withStore,
	},
	{
		Kind: ringproof.FaultAgentCrash,
		Doc:  "the subject's process dies at a named action of its own: before it, after it, or with the action done and its reply lost",
		Params: []Param{
			{Name: "action", Doc: "the subject's action, such as add-learner", Required: true},
			{Name: "phase", Doc: "before the call, after its reply, or between (done, and the reply lost)", Values: []string{"before", "after", "reply-lost"}, Required: true},
			{Name: "nth", Doc: "at the nth such action; 1 when absent"},
			{Name: "target", Doc: "only the agent on this machine; any agent when absent"},
			{Name: "for", Doc: "the agent is started again after this long; when absent, at the end of harm"},
		},
		Targets:  union(MemberForms(), MachineForms()),
		Fairness: transient + " Every action may be cut anywhere, any number of times.",
		Heals:    "the agent is started again with an empty memory",
		Worlds:   everywhere,
	},
	{
		Kind: ringproof.FaultVolumeLoss,
		Doc:  "the machine stops and its disk comes back empty",
		Params: []Param{
			target,
			{Name: "leave", Doc: "what is on the new disk: nothing, or etcd's directories with no files in them", Values: []string{"nothing", "directories"}},
			{Name: "for", Doc: "how long the machine is off before it starts with the new disk; at once when absent"},
		},
		Targets:  union(MemberForms(), MachineForms(), SetForms()),
		Fairness: permanent + " The old member ID on the new disk has forgotten its votes: it may never start again.",
		Heals:    "never; the machine serves again as a new member",
		Worlds:   everywhere,
	},
	{
		Kind: ringproof.FaultMachineLoss,
		Doc:  "a machine and its disk are gone for good",
		Params: []Param{
			target,
		},
		Targets:  union(MemberForms(), MachineForms(), SetForms()),
		Fairness: permanent + " As many machines as voters are wanted must remain, else nobody could converge.",
		Heals:    "never; a spare takes its place",
		Worlds:   everywhere,
	},
}

func union(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}
