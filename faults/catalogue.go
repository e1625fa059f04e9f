// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ringproof/ringproof"
)

// Entry describes one fault.
type Entry struct {
	Kind     ringproof.FaultKind `json:"kind"`
	Doc      string              `json:"doc"`
	Params   Params              `json:"params"`
	OneOf    []string            `json:"oneOf,omitempty"`   // exactly one of these parameters is given
	Targets  []string            `json:"targets,omitempty"` // forms of selectors; empty: it takes no target
	Fairness string              `json:"fairness"`          // what a correct subject must survive, and why the rest is excluded
	Heals    string              `json:"heals"`
	Worlds   []string            `json:"worlds"` // where it can be applied
	// Seam says that the subject's own program does it, told by the harness: a program
	// that isn't linked with it can't be hit so.
	Seam bool `json:"seam,omitempty"`

	// Causes are events that it may cause besides those of every fault; see the function of
	// that name. Unfelt says that no member ends for it, and none is replaced.
	Causes []ringproof.EventKind `json:"-"`
	Unfelt bool                  `json:"-"`
	// Sentence says what is done, for a person; nil: as the fault prints itself. TellsFor says
	// that it tells what For is; else that is how long the fault lasts.
	Sentence func(ringproof.Fault) string `json:"-"`
	TellsFor bool                         `json:"-"`
}

// AtSeam reports whether the step hits the subject at its own seams.
func AtSeam(s ringproof.Step) bool {
	if s.Fault == nil {
		return false
	}
	e, _ := Lookup(s.Fault.Kind)
	return e.Seam
}

// AnyAtSeam reports whether the plan hits the subject at its own seams, before its ring is deleted or
// meanwhile.
func AnyAtSeam(p ringproof.Plan) bool {
	return slices.ContainsFunc(p.Steps, AtSeam) || p.End != nil && AtSeam(p.End.Step())
}

// Param returns the parameter with that name.
func (e Entry) Param(name string) (Param, bool) { return e.Params.Find(name) }

// ParamNames lists what may be written under the fault.
func (e Entry) ParamNames() []string { return e.Params.Names() }

// All returns the catalogue: transient faults first, losses after.
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
	everywhere = []string{"sim", "virtual", "local", "kind"}
	// Only auto mode meets in a store; on Kubernetes the API server is its place.
	withStore = []string{"sim", "virtual", "local"}
	// Of what runs on machines none has an API server.
	onNodes = []string{"virtual", "kind"}
	// The brain is decorated, and only one that is linked with the harness can be.
	withSeams = []string{"sim", "virtual", "local"}
	// What Kubernetes mounts, copies and starts is its own to do.
	withProcesses = []string{"sim", "virtual", "local"}
	// One host has one clock, of each kind, and disks that are not the harness's to slow; and what real processes
	// say to each other nobody else reads.
	unreal = []string{"sim", "virtual"}

	// The parts of it; etcd is the API server's own, which keeps its disk. Who answers for names runs beside it.
	controlPlane = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "coredns"}

	target  = Param{Name: "target", Type: TypeTarget, Doc: "which machines it hits", Required: true}
	someone = Param{Name: "target", Type: TypeTarget, Doc: "whose calls it hits; all when absent"}
	whose   = Param{Name: "target", Type: TypeTarget, Doc: "only the agent on this machine, which counts for itself; when absent any agent, and all count together"}
	// Whose calls they are, where not all that is on trial is on machines of the plan.
	ofWhom  = Param{Name: "scope", Doc: "on Kubernetes: only the calls of the controller, whichever acts; when absent those of the pods' launchers, too", Values: []string{ringproof.ScopeController}, Bare: true}
	asked   = Param{Name: "decision", Doc: "which decisions are counted and hit: what the ring should do next, or how etcd is started", Values: []string{"next", "boot"}}
	turn    = Param{Name: "nth", Type: TypeNumber, Least: 1, Doc: "from the nth such decision on; 1 when absent"}
	turns   = Param{Name: "count", Type: TypeNumber, Least: 1, Doc: "for how many decisions; 1 when absent", Most: 1000}
	lasts   = Param{Name: "for", Type: TypeDuration, Doc: "heals by itself after this long; when absent, at the end of all faults"}
	stagger = Param{Name: "stagger", Type: TypeDuration, Doc: "heals one target after another, this far apart"}
	scope   = Param{Name: "scope", Doc: "whom it hits: etcd's process (when absent), the subject's agent, or the machine with both", Values: []string{"process", "agent", "machine"}}
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
		Params: Params{
			target, scope, lasts, stagger,
		},
		Targets:  union(MemberForms(), MachineForms(), SetForms()),
		Fairness: transient + " A process that is killed is started again by whoever supervises it, not by the harness.",
		Heals:    "the machine gets power, or the agent is started again; with stagger, one target after another",
		Worlds:   everywhere,
		Sentence: func(f ringproof.Fault) string {
			return worded(f.Scope, "kill etcd on ", "agent", "kill the agent on ", "machine", "cut the power of ") + whom(f)
		},
	},
	{
		Kind: ringproof.FaultPause,
		Doc:  "SIGSTOP for a time, then SIGCONT: to the others it is dead, to itself no time has passed",
		Params: Params{
			target, scope,
			{Name: "for", Type: TypeDuration, Doc: "how long it is stopped", Required: true},
		},
		Targets:  union(MemberForms(), MachineForms(), SetForms()),
		Fairness: transient + " A paused leader wakes up believing that it leads; so does a paused agent.",
		Heals:    "SIGCONT",
		Worlds:   everywhere,
		Sentence: func(f ringproof.Fault) string {
			return fmt.Sprintf("stop the %s on %s for %s", cmp.Or(f.Scope, "process"), whom(f), span(f.For))
		},
		TellsFor: true,
	},
	{
		Kind: ringproof.FaultSleep,
		Doc: "the machine is suspended for a time, as a virtual machine is or a laptop: nothing runs on it, and its monotonic clock stands still (CLOCK_MONOTONIC of Linux), " +
			"by which timers go. Its wall clock is right when it wakes up",
		Params: Params{
			target,
			{Name: "for", Type: TypeDuration, Doc: "how long it is suspended", Required: true},
		},
		Targets: union(MemberForms(), MachineForms(), SetForms()),
		Fairness: transient + " What has a deadline has lived longer than by the monotonic clock: who led as the machine was suspended has no lease any more, " +
			"though no timer of that has run out.",
		Heals:    "the machine wakes up",
		Worlds:   unreal,
		Sentence: func(f ringproof.Fault) string { return fmt.Sprintf("suspend %s for %s", whom(f), span(f.For)) },
		TellsFor: true,
	},
	{
		Kind: ringproof.FaultDiskFull,
		Doc:  "the target's data filesystem is filled: every write of etcd fails with ENOSPC",
		Params: Params{
			target, lasts,
		},
		Targets:  union(MemberForms(), MachineForms()),
		Fairness: transient + " etcd ends on a failed WAL write; the subject must not mistake that for a lost disk.",
		Heals:    "the filler file is deleted",
		Worlds:   everywhere,
		Sentence: to("fill the disk of "),
	},
	{
		Kind: ringproof.FaultPartition,
		Doc:  "packets between machines are dropped; clients on a machine stay with it",
		Params: Params{
			target,
			{Name: "shape", Doc: "split: the targets on one side, all others on the other; isolate: each target alone; one-way: the others don't hear the targets, the targets hear them; pair: the target and one other machine don't hear each other, all others hear both", Values: []string{"split", "isolate", "one-way", "pair"}},
			{Name: "from", Type: TypeTarget, Doc: "pair: the other one"},
			{Name: "port", Doc: "all; peer: members don't hear each other, and clients on other machines hear them, as by a firewall that knows one port alone; client: members hear each other, and nobody on another machine gets an answer", Values: []string{ringproof.PortAll, ringproof.PortPeer, ringproof.PortClient}},
			lasts,
		},
		Targets:  union(MemberForms(), MachineForms(), []string{"minority", "leader-minority", "majority"}),
		Fairness: transient + " The side without a quorum must not act as if it had one.",
		Heals:    "the packets pass again",
		Worlds:   everywhere,
		Sentence: part,
	},
	{
		Kind: ringproof.FaultStoreOutage,
		Seam: true,
		Doc:  "calls to the store fail, or have no answer",
		Params: Params{
			{Name: "how", Doc: "at once, with an error; or they hang, as those of a mounted file system do whose server is away: who asked waits until he gives up, or the store is back, which then does what was asked", Values: []string{"fails", ringproof.StoreHangs}},
			{Name: "calls", Doc: "which fail: reads and writes alike, or writes alone, as in a store that is full or may only be read", Values: []string{"all", "writes"}},
			{Name: "records", Doc: "only calls about the records of this prefix, such as formed; about any when absent"},
			someone, lasts,
		},
		Targets: union(MemberForms(), MachineForms()),
		Fairness: transient + " The ring itself needs no store: clients must notice nothing. " +
			"Who can't write down that something happened may not act as if it hadn't. " +
			"Who has no answer may not wait for one while there is something else to do.",
		Heals:    "the store answers again",
		Worlds:   withStore,
		Unfelt:   true,
		Sentence: failCalls,
	},
	{
		Kind: ringproof.FaultStoreStale,
		Seam: true,
		Doc:  "reads of the store answer with the past; create-if-absent still tells the truth",
		Params: Params{
			someone, lasts,
		},
		Targets:  union(MemberForms(), MachineForms()),
		Fairness: transient + " Writes are never undone: a store that loses what it acknowledged is outside every envelope.",
		Heals:    "reads see the present again",
		Worlds:   withStore,
		Unfelt:   true,
		Sentence: func(f ringproof.Fault) string { return "answer the store reads of " + whom(f) + " with the past" },
	},
	{
		Kind: ringproof.FaultStoreLost,
		Doc:  "what the subject keeps in its store is gone, as where a file system isn't mounted, or a bucket was restored from a backup, or deleted and made again",
		Params: Params{
			{Name: "leave", Doc: "what is in it then: nothing, until it is given back; for good, what was in it when it was made, which is what was asked for then, and nothing that machines have written since; " +
				"for good, what is in one that an operator makes, with all that is secret made anew", Values: []string{"nothing", ringproof.LeaveMade, ringproof.LeaveAnew}},
			lasts,
		},
		Fairness: transient + " The members, their logs and the keys of the ring are as they were, and they say what is true. " +
			"What the store doesn't know any more has happened all the same: no ring is bootstrapped beside the one that there is. " +
			"A ring under TLS can certify nobody new with a store that was made anew, and no plan is drawn with that.",
		Heals:  "what was taken away is there again; what was made is as it was left",
		Worlds: withStore,
		Unfelt: true,
		Sentence: func(f ringproof.Fault) string {
			return worded(f.Leave, "empty the store", ringproof.LeaveMade, "put the store back as it was made", ringproof.LeaveAnew, "make the store anew")
		},
	},
	{
		Kind: ringproof.FaultAgentCrash,
		Seam: true,
		Doc: "the subject is cut at a named action or effect of its own: its process dies before or after it, or lives on with the reply lost or the request refused. " +
			"An action is a change as the subject tells of it; an effect is one call by which it changes anything at all",
		Params: Params{
			{Name: "action", Type: TypeAction, Doc: "the subject's action, such as add-learner"},
			{Name: "effect", Type: TypeEffect, Doc: "one call at its seams, such as \"etcd put\", \"write disk.json\", \"create machines\", start"},
			{Name: "phase", Doc: "before the call, after its reply, between (done, and the reply lost), refused (not done, and an error), late (a request to etcd, the store or the API server is on its way: the subject is told that time ran out, and it is done after that, 10s when for is absent), or unseen (a write to the API server is done, and not shown by the subject's cache for a while, 5s when for is absent)", Values: []string{"before", "after", "reply-lost", "refused", "late", "unseen"}, Required: true},
			{Name: "nth", Type: TypeNumber, Least: 1, Doc: "at the nth such action or effect since the step began; 1 when absent. What fails by itself is not counted in the phases that need it done"},
			whose, ofWhom,
			{Name: "for", Type: TypeDuration, Doc: "the agent is started again after this long; when absent, at once"},
		},
		OneOf:    []string{"action", "effect"},
		Targets:  union(MemberForms(), MachineForms()),
		Fairness: transient + " Every action and every effect may be cut anywhere, any number of times.",
		Heals:    "the agent is started again with an empty memory; where it lives on, it tries again",
		Worlds:   everywhere,
		Unfelt:   true,
		Sentence: crash,
		TellsFor: true,
	},
	{
		Kind: ringproof.FaultStaleView,
		Seam: true,
		Doc:  "the subject decides on what it was shown some decisions ago, as behind a cache that lags, or after a pause between looking and deciding",
		Params: Params{
			asked, turn,
			{Name: "back", Type: TypeNumber, Least: 1, Doc: "how many decisions old the view is; 1 when absent. An agent that has not decided so often since it started is shown its first view", Most: MostBack},
			turns, whose, ofWhom,
		},
		Targets: union(MemberForms(), MachineForms()),
		Fairness: transient + " Any view is old by the time it is acted on, so a correct subject looks again before each change, or has etcd refuse what no longer holds. " +
			"A decision about a start (boot) is stale in what comes from elsewhere only: the member list, the bootstrap record, whether the ring was formed. " +
			"What the machine reads of its own disk is of now, and no view is from before its last start of etcd: nobody else starts an etcd there, so no delay can show " +
			"a list without a member beside the log which that member has written since. No launcher could tell that from a removal.",
		Heals:  "it ends after so many decisions, or with the fault",
		Worlds: withSeams,
		Sentence: func(f ringproof.Fault) string {
			return fmt.Sprintf("show %s a view %s old at %s", agent(f), ringproof.Counted(max(f.Back, 1), "decision"), decisions(f))
		},
	},
	{
		Kind: ringproof.FaultSkippedView,
		Seam: true,
		Doc:  "the subject is kept from deciding, and waits: states that last shorter are never seen by it",
		Params: Params{
			asked, turn, turns, whose, ofWhom,
		},
		Targets:  union(MemberForms(), MachineForms()),
		Fairness: transient + " What is to be done must follow from what is there, not from having seen it come about.",
		Heals:    "it ends after so many decisions, or with the fault",
		Worlds:   withSeams,
		Unfelt:   true,
		Sentence: func(f ringproof.Fault) string { return fmt.Sprintf("keep %s from %s", agent(f), decisions(f)) },
	},
	{
		Kind: ringproof.FaultReplyLoss,
		Doc:  "what clients and agents on a machine ask of etcd is done, and some of the replies never come: they wait until they give up. On a real connection nothing comes after one that is missing, and it ends some seconds later",
		Params: Params{
			{Name: "percent", Type: TypeNumber, Least: 1, Doc: "how many of 100 replies are lost", Required: true, Most: 100},
			someone, lasts,
		},
		Targets:  union(MemberForms(), MachineForms()),
		Fairness: transient + " A request without a reply is neither done nor not done: whoever asked must look.",
		Heals:    "replies come again; those that were lost stay lost",
		Worlds:   unreal,
		Sentence: func(f ringproof.Fault) string {
			return fmt.Sprintf("lose %d of 100 replies to %s", f.Percent, whom(f))
		},
	},
	{
		Kind: ringproof.FaultSlowNetwork,
		Doc:  "every packet from and to the target takes longer",
		Params: Params{
			target,
			{Name: "by", Type: TypeShift, Doc: "the time that each packet takes on top", Required: true},
			lasts,
		},
		Targets:  union(MemberForms(), MachineForms(), SetForms()),
		Fairness: transient + " A member that is slower than the election timeout may lose its lead for as long, and may not be taken for lost.",
		Heals:    "packets take as long as before",
		Worlds:   unreal,
		Sentence: func(f ringproof.Fault) string {
			return fmt.Sprintf("delay every packet from and to %s by %s", whom(f), span(f.By))
		},
	},
	{
		Kind: ringproof.FaultPacketLoss,
		Doc:  "some packets between the target and other machines are lost, each way: TCP sends them again, what comes after them waits, and who waits for too long dials anew. Clients are reached as before",
		Params: Params{
			target,
			{Name: "percent", Type: TypeNumber, Least: 1, Doc: "how many of 100 packets are lost; of more than half a connection is none: that is a partition", Required: true, Most: 50},
			lasts,
		},
		Targets:  union(MemberForms(), MachineForms(), SetForms()),
		Fairness: transient + " A leader whose heartbeats come late may lose its lead, again and again, and nobody may be taken for lost for it.",
		Heals:    "no packet is lost any more; what was sent again is on its way",
		Worlds:   everywhere,
		Sentence: func(f ringproof.Fault) string {
			return fmt.Sprintf("lose %d of 100 packets from and to %s", f.Percent, whom(f))
		},
	},
	{
		Kind: ringproof.FaultSlowDisk,
		Doc:  "every sync of the target's disk takes longer: etcd's raft waits for it, and sends no heartbeat meanwhile",
		Params: Params{
			target,
			{Name: "by", Type: TypeShift, Doc: "the time that each sync takes on top, such as 3s", Required: true},
			lasts,
		},
		Targets:  union(MemberForms(), MachineForms(), SetForms()),
		Fairness: transient + " Who is slow is not lost, and nobody may be replaced for it sooner than for being away.",
		Heals:    "syncs take as long as before",
		Worlds:   unreal,
		Sentence: func(f ringproof.Fault) string {
			return fmt.Sprintf("delay every sync of the disk of %s by %s", whom(f), span(f.By))
		},
	},
	{
		Kind: ringproof.FaultNameStale,
		Doc: "the target restarts with another address, and for a while its name doesn't resolve to that: DNS lags. It takes a ring in a domain; clients of the workload know addresses. " +
			"The machine is off for six seconds, so that nobody finds it by what it was told before",
		Params: Params{
			target,
			{Name: "answers", Doc: "what every machine is told of the name: the address of before, where nobody is; that there is no such host; or the address of the next machine", Values: []string{ringproof.AnswersOldAddress, ringproof.AnswersNothing, ringproof.AnswersOther}},
			lasts,
		},
		Targets: union(MemberForms(), MachineForms()),
		Fairness: transient + " The machine hears others, and nobody reaches it: peers refuse it too, whose certificate names a host that doesn't resolve to where it comes from. " +
			"It is as one that is away, and whoever answers in its place is not it. A ring without TLS may not have another machine answer: " +
			"whoever sends a message to a member that it isn't for is answered 403, takes that as the word that it has been removed itself, and ends.",
		Heals:  "the name resolves to the machine",
		Worlds: withProcesses,
		Sentence: func(f ringproof.Fault) string {
			return "restart " + whom(f) + " at another address, while its name resolves to " +
				worded(f.Answers, "the one of before", ringproof.AnswersNothing, "nothing", ringproof.AnswersOther, "another machine")
		},
	},
	{
		Kind: ringproof.FaultForeignHand,
		Doc:  "somebody else changes the membership, as with etcdctl: a person, or another tool",
		Params: Params{
			target,
			{Name: "does", Doc: "what is asked of etcd: that the target's member is removed; that one is added at the target, which has none: a voter, or a learner",
				Values: []string{ringproof.MemberRemove, ringproof.MemberAdd, ringproof.LearnerAdd}},
		},
		Targets: union(MemberForms(), []string{"mN", "machine/N", "spare", "step/NAME"}),
		Fairness: "Fair where etcd itself does it: it refuses what would leave too few that are connected. What the hand did is no change of the subject's. " +
			"The ring must become what was asked for again, or the subject must halt and say who is missing.",
		Heals:  "never: who was removed comes back as another member, and who was added is the subject's to start or to remove",
		Worlds: withProcesses,
		Sentence: func(f ringproof.Fault) string {
			return "have somebody else " + worded(f.Does, "remove the member of ", ringproof.MemberAdd, "add a voter at ", ringproof.LearnerAdd, "add a learner at ") + whom(f)
		},
	},
	{
		Kind: ringproof.FaultAlarmRaised,
		Doc:  "somebody else raises an alarm for the target's member, as another tool may that looks at disks or compares data: etcd itself finds nothing wrong",
		Params: Params{
			target,
			{Name: "alarm", Doc: "NOSPACE: etcd does no write that takes room; CORRUPT: it does none", Values: []string{ringproof.AlarmNoSpace, ringproof.AlarmCorrupt}},
			lasts,
		},
		Targets:  union(MemberForms(), []string{"mN", "machine/N"}),
		Fairness: transient + " Nobody writes while an alarm stands, whoever it is of; that its member is removed doesn't end it.",
		Causes:   []ringproof.EventKind{ringproof.EventAlarm, ringproof.EventHalted},
		Unfelt:   true,
		Heals:    "they take it back, as soon as the ring answers",
		Worlds:   withProcesses,
		Sentence: func(f ringproof.Fault) string {
			return fmt.Sprintf("have somebody else raise the alarm %s for %s", cmp.Or(f.Alarm, ringproof.AlarmNoSpace), whom(f))
		},
	},
	{
		Kind: ringproof.FaultClockSkew,
		Doc:  "the target's clock jumps, and stays as far ahead or behind until it jumps back",
		Params: Params{
			target,
			{Name: "by", Type: TypeShift, Doc: "ahead by 5m, or behind by -5m", Required: true, Signed: true},
			lasts,
		},
		Targets: union(MemberForms(), MachineForms()),
		Fairness: transient + " No two machines agree on the time, and a clock may go back: safety may rest on no clock. " +
			"Certificates are made to bear five minutes; while clocks are further apart members may refuse each other, and must not once they are set right.",
		Heals:    "the clock jumps back",
		Worlds:   unreal,
		Sentence: skew,
	},
	{
		Kind: ringproof.FaultTimePasses,
		Doc:  "all clocks go on by months or years, in steps of ten days at most: what has an hour at which it ends comes to its end",
		Params: Params{
			{Name: "by", Type: TypeShift, Doc: "how much time passes, such as 400d", Required: true},
			{Name: "for", Type: TypeDuration, Doc: "in how much of the run, a second at least for each thirty days", Required: true},
		},
		Fairness: transient + " What expires does so in the sight of whoever looks at a clock every few seconds, and is to be made anew before. " +
			"Whatever waits for a time to pass by a clock has waited for it: a machine that is away meanwhile is away for months. " +
			"The authority of ten years is not outlived.",
		Heals:    "never: time doesn't go back",
		Worlds:   unreal,
		Sentence: func(f ringproof.Fault) string { return "let " + span(f.By) + " pass by all clocks" },
	},
	{
		Kind: ringproof.FaultDiskSwap,
		Doc:  "the targets lose power, each disk comes into the next target's machine, and they get power again",
		Params: Params{
			{Name: "target", Type: TypeTarget, Doc: "which machines: two at least", Required: true}, lasts,
		},
		Targets: append([]string{"mN,mN", "all"}, SetForms()...),
		Fairness: transient + " Every disk keeps its log, so nothing is forgotten, and the disks come back to where they were. Meanwhile a correct subject may run a member where its disk is now, " +
			"wait for the disk, or replace the members one after another; it may start none on another's log, nor clear a log while no quorum keeps what that one promised. " +
			"No loss is admitted while disks are swapped: what a machine would lose is not its own.",
		Heals:    "the targets lose power, the disks go back, and they get power again",
		Worlds:   withProcesses,
		Causes:   []ringproof.EventKind{ringproof.EventDiskReplaced},
		Sentence: to("swap the disks of "),
	},
	{
		Kind: ringproof.FaultStartFailure,
		Doc:  "etcd ends, and whenever it is started it ends again at once with an error: a port that is in use, a binary that can't run",
		Params: Params{
			target,
			{Name: "at", Doc: "when it ends: before it has written anything, as soon as it has a log, or, in sim, as it reads the one that is there: the disk answers with an error for now, also to whoever else reads it", Values: []string{"before-log", "after-log", ringproof.EndsUnread}},
			lasts,
		},
		Targets:  union(MemberForms(), MachineForms()),
		Fairness: transient + " An etcd that ends by itself has lost nothing: its member may be replaced after some patience, and one that never wrote a log is no member that lost it.",
		Heals:    "etcd starts again when it is started",
		Worlds:   withProcesses,
		Sentence: func(f ringproof.Fault) string {
			return worded(f.At, "have etcd end before it writes a log, whenever it starts, on ", "after-log", "have etcd end once it has a log, whenever it starts, on ",
				ringproof.EndsUnread, "have etcd end, and let nobody read its log, on ") + whom(f)
		},
	},
	{
		Kind: ringproof.FaultVolumeUnmounted,
		Doc:  "the machine restarts and its data filesystem isn't mounted: an empty directory of the root filesystem is in its place. It is mounted later, with all that was on it",
		Params: Params{
			target,
			{Name: "remount", Doc: "how it comes back: while the machine runs, or with another restart", Values: []string{"live", "reboot"}},
			lasts,
		},
		Targets: union(MemberForms(), MachineForms()),
		Fairness: transient + " Nothing is lost, so to a correct subject it is a machine that is away; the empty directory is no new disk. " +
			"No loss is admitted while a filesystem isn't mounted: what a machine would lose is not its own.",
		Heals:  "the filesystem is mounted",
		Worlds: withProcesses,
		Sentence: func(f ringproof.Fault) string {
			return "restart " + whom(f) + " without its data filesystem, mounted again " + worded(f.Remount, "while it runs", "reboot", "with another restart")
		},
	},
	{
		Kind: ringproof.FaultVolumeCopy,
		Doc:  "a member's data directory is copied to another machine, which loses power for it; nothing else of its disk is",
		Params: Params{
			{Name: "target", Type: TypeTarget, Doc: "the machine that gets the copy; one without data of its own", Required: true},
			{Name: "from", Type: TypeTarget, Doc: "whose data are copied", Required: true},
		},
		Targets: []string{"spare", "mN", "machine/N"},
		Fairness: "Fair while the ring has machines enough without that one: the member goes on where it lives. A copy has forgotten whatever the member promised since: it may never start. " +
			"Nobody but a person can know what the copy is for, so the machine that holds it need not serve while the member is in the ring.",
		Heals:    "never; the copy stays until the member has left, or a person removes it",
		Worlds:   withProcesses,
		Sentence: func(f ringproof.Fault) string { return "copy the data of " + f.From + " to " + whom(f) },
	},
	{
		Kind: ringproof.FaultWrongRing,
		Doc: "the machine is off, and an etcd of another ring, a plain one of a single member, answers at its address: " +
			"as when an address is given to another machine, or a record names the wrong one",
		Params: Params{
			target, lasts,
		},
		Targets: union(MemberForms(), MachineForms()),
		Fairness: transient + " To the ring the machine is off, no more. Whoever reads a list at that address must see that it isn't its own ring's: " +
			"nothing that is changed in the other ring is forgiven. A ring with TLS is spared by its certificates. The clients of the workload reach nobody there.",
		Heals:    "the other etcd is gone from the address, and the machine gets power",
		Worlds:   withSeams,
		Sentence: to("let another ring answer at the address of "),
	},
	{
		Kind: ringproof.FaultDuplicate,
		Doc:  "a second machine of the same name comes up at another address, as a clone does: the subject's agent runs on it, its disk is empty, and no etcd of the ring's release is installed on it",
		Params: Params{
			target, lasts,
		},
		Targets: union(MemberForms(), MachineForms()),
		Fairness: transient + " Nothing was taken from the first machine: its member must neither be removed nor its disk be cleared because another has its name. " +
			"While the first is off the second is heard of in its name; when it is back with its member's disk at its member's address it is who it was. " +
			"Only one that is off for as long as a machine is waited for may be replaced, by the second or by any other. " +
			"The clone can't run an etcd, so that a member which is given to it is the subject's own loss.",
		Heals:    "the clone is gone, and its disk",
		Worlds:   withSeams,
		Sentence: to("bring up a second machine with the name of "),
	},
	{
		Kind: ringproof.FaultDryRun,
		Seam: true,
		Doc:  "the subject's agent dies and is started again in a dry run, in which it says what it would do and changes nothing",
		Params: Params{
			target, lasts,
		},
		Targets: union(MemberForms(), MachineForms()),
		Fairness: transient + " Whatever that agent changes is a finding: a file, a record in the store, a key or a lease in the ring. " +
			"The others do what is to be done as if it weren't there; what only that machine can do waits.",
		Heals:    "the agent dies and is started again as before",
		Worlds:   withSeams,
		Sentence: func(f ringproof.Fault) string { return "run the agent on " + whom(f) + " dry" },
	},
	{
		Kind: ringproof.FaultKeysDamaged,
		Doc:  "every key of the ring that is not the clients' is deleted or overwritten, as by `etcdctl del \"\" --prefix`: what the subject keeps there lies beside what its users keep",
		Params: Params{
			{Name: "leave", Doc: "what is left of them: nothing, or the keys with nonsense in them, which no lease ends, and others beside them", Values: []string{"nothing", "nonsense"}},
		},
		Fairness: transient + " The members, their logs and the store are as they were, and they say what is true: the subject must go on from them. " +
			"What it can't know any more it may not guess: a member may be started on no disk but the one that holds its log.",
		Heals:  "never by the harness: the subject makes its keys anew",
		Worlds: withSeams,
		Sentence: func(f ringproof.Fault) string {
			return worded(f.Leave, "delete every key that is not the clients'", "nonsense", "overwrite every key that is not the clients'")
		},
	},
	{
		Kind:   ringproof.FaultAPIOutage,
		Doc:    "on Kubernetes: the API server ends and stays away; the kubelets' pods run on",
		Params: Params{lasts},
		Fairness: transient + " The ring itself needs no API server, and nor does a member that starts again: clients must notice nothing. " +
			"What can't be read meanwhile is unknown, and not absent.",
		Heals:    "the API server is started again",
		Worlds:   onNodes,
		Sentence: func(ringproof.Fault) string { return "take the cluster's API server away" },
	},
	{
		Kind: ringproof.FaultKubeDelete,
		Doc: "on Kubernetes: an object of the target's member is deleted, as with kubectl delete. A pod ends and is made anew. " +
			"A claim that a pod uses is Terminating until that pod ends. A volume's protection is taken off first: its object is gone at once, its claim is Lost, and whoever has its files open runs on",
		Params: Params{
			target,
			{Name: "object", Doc: "what is deleted: the member's pod, the claim of its disk, or the volume that the claim is bound to", Values: []string{ringproof.ObjectPod, ringproof.ObjectClaim, ringproof.ObjectVolume}},
			{Name: "how", Doc: "in good order, or by force: a pod without any grace, its object at once, as with --force; or evicted: the pod's kubelet ends it for good, as under pressure on its node, and it is Failed until who made it deletes it", Values: []string{"graceful", ringproof.Forced, ringproof.Evicted}},
		},
		Targets: union(MemberForms(), MachineForms(), SetForms()),
		Fairness: "Of a pod always fair: nothing is lost with it. A deleted volume, or claim, is a loss like volume-loss, charged to that member alone: no other pod need be restarted for it. " +
			permanent,
		Heals:  "never; the cluster makes a pod anew, and the subject replaces the member of a claim or a volume",
		Worlds: onNodes,
		Causes: emptied,
		Sentence: func(f ringproof.Fault) string {
			if f.How == ringproof.Evicted {
				return "have its kubelet evict the pod of " + whom(f)
			}
			return fmt.Sprintf("delete the %s of %s%s", f.Object, whom(f), worded(f.How, "", ringproof.Forced, " by force"))
		},
	},
	{
		Kind: ringproof.FaultForeignFinalizer,
		Doc:  "on Kubernetes: an object of the target's member has a finalizer of somebody else's, as a backup's or a storage driver's: once it is deleted it stays Terminating until that is taken off",
		Params: Params{
			target,
			{Name: "object", Doc: "what can't go: the claim of the member's disk, its pod, or its volume", Values: []string{ringproof.ObjectClaim, ringproof.ObjectPod, ringproof.ObjectVolume}},
			lasts,
		},
		Targets:  union(MemberForms(), MachineForms()),
		Fairness: transient + " Who waits for an object to go may not wait without end for what wakes nobody, and may take no finalizer off that isn't its own.",
		Heals:    "the finalizer is taken off",
		Worlds:   onNodes,
		Sentence: func(f ringproof.Fault) string {
			return fmt.Sprintf("hold the %s of %s by somebody else's finalizer", f.Object, whom(f))
		},
	},
	{
		Kind: ringproof.FaultDrain,
		Doc: "on Kubernetes: the target's node is cordoned and its pods are evicted, as with kubectl drain: an eviction that a disruption budget refuses is tried again every five seconds, " +
			"until the step's time is over",
		Params:   Params{target, lasts},
		Targets:  union(MemberForms(), MachineForms()),
		Fairness: transient + " A pod whose volume only that node reaches waits until the node takes pods again. The subject's budget must let no quorum be evicted.",
		Heals:    "the node is uncordoned",
		Worlds:   onNodes,
		Sentence: to("drain the node of "),
	},
	{
		Kind: ringproof.FaultKubeKill,
		Doc:  "on Kubernetes: SIGKILL to the subject's controller, to the pod of it that acts, to a part of the control plane, or to who answers for names",
		Params: Params{
			{Name: "scope", Doc: "what dies", Values: slices.Concat([]string{"controller"}, controlPlane)},
		},
		Fairness: transient + " Whatever it was about is taken up again by another, or by itself once it is back: kubelets and the control plane's supervisor start again what ends.",
		Heals:    "it is started again by whoever supervises it, not by the harness",
		Worlds:   onNodes,
		Sentence: func(f ringproof.Fault) string { return "kill the cluster's " + f.Scope },
	},
	{
		Kind: ringproof.FaultKubePause,
		Doc: "on Kubernetes: SIGSTOP for a time to the subject's controller, to a part of the control plane, to who answers for names, or to a kubelet: " +
			"its node is not ready after a while, and the containers on it run on",
		Params: Params{
			{Name: "target", Type: TypeTarget, Doc: "kubelet: on whose nodes"},
			{Name: "scope", Doc: "what is stopped", Values: slices.Concat([]string{"controller", ringproof.ScopeKubelet}, controlPlane)},
			{Name: "for", Type: TypeDuration, Doc: "how long it is stopped", Required: true},
		},
		Targets:  union(MemberForms(), MachineForms()),
		Fairness: transient + " A controller that was stopped wakes up believing that it leads; what it was about to write may no longer be so.",
		Heals:    "SIGCONT",
		Worlds:   onNodes,
		Sentence: func(f ringproof.Fault) string {
			if f.Target == "" {
				return "stop the cluster's " + f.Scope
			}
			return "stop the " + f.Scope + " of " + f.Target
		},
	},
	{
		Kind:   ringproof.FaultStatusEmptied,
		Doc:    "on Kubernetes: the status of the ring's object is emptied, as it is where the object is made anew from what a backup or a GitOps tool holds of it",
		Params: Params{},
		Fairness: transient + " A status is written by the subject for those who read it: whatever it has to know it can see in the cluster and the ring, " +
			"as Kubernetes' API conventions ask for. A ring that is as it was needs nothing but the status written again.",
		Heals:    "never by the harness: the subject writes what it sees",
		Worlds:   onNodes,
		Sentence: func(ringproof.Fault) string { return "empty the status of the ring's object" },
	},
	{
		Kind: ringproof.FaultSetDeleted,
		Doc: "on Kubernetes: the StatefulSet that makes the members' pods is deleted, as by whoever wants to change a field of it that can't be changed. " +
			"Its pods go with it, all at once, or stay as they are",
		Params: Params{
			{Name: "how", Doc: "what becomes of its pods, in the words of kubectl delete --cascade", Values: []string{"background", ringproof.Foreground, ringproof.Orphan}},
		},
		Fairness: transient + " A StatefulSet holds nothing: the claims are there, and with them every log. Whoever has the claims go with it loses the ring.",
		Heals:    "never by the harness: the subject makes it anew",
		Worlds:   onNodes,
		Sentence: func(f ringproof.Fault) string {
			return "delete the members' StatefulSet" + worded(f.How, " and its pods with it", ringproof.Orphan, " and leave its pods")
		},
	},
	{
		Kind: ringproof.FaultSetScaled,
		Doc: "on Kubernetes: somebody has the StatefulSet that makes the members' pods keep another number, as kubectl scale does. " +
			"Pods that it is not to keep end, whatever their members are to the ring, and their claims stay",
		Params: Params{
			{Name: "how", Doc: "how many: none, the largest minority of those that it keeps (three of seven), one fewer, or one more", Values: []string{ringproof.ScaledToNone, ringproof.ScaledToMinority, ringproof.ScaledFewer, ringproof.ScaledMore}},
		},
		Fairness: transient + " Pods are made anew on their claims, with every log. Whoever takes the number for what is asked of the ring removes members, or adds some, that nobody asked for.",
		Heals:    "never by the harness: the subject has it keep its own number again",
		Worlds:   onNodes,
		Sentence: func(f ringproof.Fault) string {
			return "have the members' StatefulSet keep " + worded(f.How, "no pods", ringproof.ScaledToMinority, "a minority of its pods", ringproof.ScaledFewer, "one pod fewer", ringproof.ScaledMore, "one pod more")
		},
	},
	{
		Kind: ringproof.FaultObjectsDeleted,
		Doc: "on Kubernetes: all objects of one kind are deleted that the ring's own object owns, as by whoever clears up after another tool. " +
			"No pod ends for it: what is mounted stays mounted, and what was resolved may be forgotten",
		Params: Params{
			{Name: "object", Doc: "of which kind", Values: []string{"services", "secrets", "poddisruptionbudgets", "serviceaccounts", "roles", "rolebindings"}, Required: true},
		},
		Fairness: transient + " They say what the spec says, and are made again of it. Members that hear each other need none of them; what a pod that starts then needs is there again, or waited for.",
		Heals:    "never by the harness: the subject makes them anew",
		Worlds:   onNodes,
		Sentence: func(f ringproof.Fault) string { return "delete all " + f.Object + " of the ring" },
	},
	{
		Kind: ringproof.FaultObjectsEmptied,
		Doc: "on Kubernetes: all objects of one kind that the ring's own object owns say nothing any more, as after an edit by hand: services choose no pods, " +
			"secrets hold nothing, budgets let every pod go, roles allow nothing, and bindings bind nobody",
		Params: Params{
			{Name: "object", Doc: "of which kind", Values: []string{"services", "secrets", "poddisruptionbudgets", "roles", "rolebindings"}, Required: true},
		},
		Fairness: transient + " They say what the spec says, and can be made to say it again. An object that is there is not one that is right.",
		Heals:    "never by the harness: the subject has them say it again",
		Worlds:   onNodes,
		Sentence: func(f ringproof.Fault) string { return "take out of all " + f.Object + " of the ring what they say" },
	},
	{
		Kind: ringproof.FaultRecordsDeleted,
		Doc: "on Kubernetes: what the subject keeps of its ring in the cluster, and can't make again of the spec, is deleted, as by its label: " +
			"which ring it is, and the keys that its certificates are signed with",
		Params: Params{},
		Fairness: transient + " A controller that acts has read it, and can write it again; nobody else can. So it is given a minute or two before it is hit, " +
			"and no plan is drawn with this.",
		Heals:    "never by the harness",
		Worlds:   onNodes,
		Sentence: func(ringproof.Fault) string { return "delete what is kept of the ring in the cluster" },
	},
	{
		Kind: ringproof.FaultRingDeleted,
		Doc: "on Kubernetes: the object that asks for the ring is deleted, and made anew as it was, as by a tool that applies a directory and prunes what it misses. " +
			"What it owns goes with it, pods and all, or is left. The ring's storage is one that stays",
		Params: Params{
			{Name: "how", Doc: "what becomes of what it owns, in the words of kubectl delete --cascade", Values: []string{"background", ringproof.Foreground, ringproof.Orphan}},
			{Name: "for", Type: TypeDuration, Doc: "how long nobody asks for the ring", Required: true},
		},
		Fairness: transient + " The claims are there, and with them every log and who each is. The object that is made is another by its UID, and the ring is the same.",
		Heals:    "it is made anew, of what it asked for",
		Worlds:   onNodes,
		Sentence: func(f ringproof.Fault) string {
			return "delete what asks for the ring" + worded(f.How, " and all that it owns", ringproof.Orphan, " and leave what it owns")
		},
	},
	{
		Kind: ringproof.FaultUpgraded,
		Doc: "on Kubernetes: the subject's controller is upgraded: its Deployment gets an image of another name, with the same programs in it. " +
			"Two of them run beside each other for a while, and one hands over",
		Params:   Params{},
		Fairness: transient + " What the one has begun the other goes on with, by what it sees. No pod of a ring is made anew for it.",
		Heals:    "never: the later one stays. At the end of all faults it is waited for, a minute at most",
		Worlds:   onNodes,
		Sentence: func(ringproof.Fault) string { return "give the controller another image" },
	},
	{
		Kind: ringproof.FaultAdmissionDenied,
		Doc: "on Kubernetes: a policy of the cluster's lets nobody create, update or delete objects of one kind in the namespaces of rings, as a policy engine does, a quota that is used up, " +
			"or a webhook that is away. What is asked for is refused with Forbidden, and what there is runs on",
		Params: Params{
			{Name: "object", Doc: "of which kind", Values: []string{"pods", "persistentvolumeclaims", "statefulsets", "services", "secrets", "configmaps", "poddisruptionbudgets"}},
			{Name: "does", Doc: "what nobody may do with them", Values: []string{ringproof.DeniesCreate, ringproof.DeniesUpdate, ringproof.DeniesDelete}},
			lasts,
		},
		Fairness: transient + " A ring that serves needs no write to the API server. Who is refused one write goes on with what doesn't rest on it, says what was refused, and asks again: " +
			"the StatefulSet's controller does so ever later, up to 1000 s.",
		Heals:    "the policy is taken away",
		Worlds:   onNodes,
		Sentence: func(f ringproof.Fault) string { return "let nobody " + f.Does + " " + f.Object },
	},
	{
		Kind: ringproof.FaultVolumeLoss,
		Doc:  "the machine stops and its disk comes back empty, without etcd's data, or with a log that may never run again; or what is on it is removed while etcd and the agent run on",
		Params: Params{
			target,
			{Name: "leave", Doc: "what is on the disk after: nothing; etcd's directories with no files in them; all but etcd's data, so that the disk says it is the one it was; " +
				"all that was on it some time ago, as from a snapshot of the volume; all, with a wrong checksum in the middle of the log, " +
				"with a block of zeros there, which is for etcd its end, or with a keyspace that can't be opened; " +
				"or all, and in the log what etcd --force-new-cluster writes: every other member is removed", Values: []string{"nothing", "directories", "identity", ringproof.LeaveCopy, ringproof.LeaveDamaged, ringproof.LeaveHoled, ringproof.LeaveGarbled, ringproof.LeaveForced}},
			{Name: "how", Doc: "removed: nothing stops, as with rm -rf in the wrong place. etcd goes on with the files that it has open, until it needs one by its name, or ends. " +
				"It takes leave nothing or identity, and no time; when absent the machine stops", Values: []string{ringproof.Removed}, Bare: true},
			{Name: "by", Type: TypeShift, Doc: "copy-of-before: how old the copy is; 10s when absent. It is made first, and put back then"},
			{Name: "for", Type: TypeDuration, Doc: "how long the machine is off before it starts with the new disk; at once when absent"},
		},
		Targets:  union(MemberForms(), MachineForms(), SetForms()),
		Fairness: permanent + " The old member ID on the new disk has forgotten its votes, or is of a ring that nobody else is in: it may never start again. Whatever log is left, nobody may lose it.",
		Heals:    "never; the machine serves again as a new member",
		Worlds:   everywhere,
		Causes:   emptied,
		Sentence: loseVolume,
		TellsFor: true,
	},
	{
		Kind: ringproof.FaultMachineLoss,
		Doc:  "a machine and its disk are gone for good",
		Params: Params{
			target,
		},
		Targets:  union(MemberForms(), MachineForms(), SetForms()),
		Fairness: permanent + " As many machines as voters are wanted must remain, else nobody could converge.",
		Heals:    "never; a spare takes its place",
		Worlds:   everywhere,
		Causes:   emptied,
		Sentence: func(f ringproof.Fault) string { return "lose the machine of " + whom(f) + " and its disk, for good" },
	},
}

// MostBack is the oldest view that is kept for a stale-view, in decisions.
const MostBack = 100

// OfCluster reports whether it is done to a Kubernetes cluster, and to no machine.
func (e Entry) OfCluster() bool { return slices.Equal(e.Worlds, onNodes) }

func union(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}
