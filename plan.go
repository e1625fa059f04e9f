// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

// Plan is a scenario with every choice made. It holds no randomness of its own
// but the seed of the world's noise, so it can be shrunk, kept, replayed, and
// carried from one world to another.
type Plan struct {
	Cell       string            `json:"cell"` // scenario[k=v,…]#seed
	Scenario   string            `json:"scenario"`
	Source     string            `json:"source,omitempty"` // the file it was read from
	Hypothesis string            `json:"hypothesis,omitempty"`
	Matrix     map[string]string `json:"matrix,omitempty"`
	Seed       uint64            `json:"seed"`
	Subject    string            `json:"subject"` // "reference", "reference+voter-first"
	World      string            `json:"world"`
	Mode       Mode              `json:"mode,omitempty"`

	Ring        RingSpec    `json:"ring"`
	Workload    Workload    `json:"workload"`
	Assumptions Assumptions `json:"assumptions"`
	Invariants  []Invariant `json:"invariants"`
	Steps       []Step      `json:"steps"`

	Expect *Expect `json:"expect,omitempty"` // a saved plan's: what it came to when it was saved
}

// Expect is what a run of a plan comes to in the simulated world.
type Expect struct {
	Verdict string `json:"verdict"`         // "pass" or "fail"
	Check   string `json:"check,omitempty"` // the check that fails it
	Hash    string `json:"hash,omitempty"`  // of the trace, in hex; only the build that saved it must repeat it
}

// Mode says what a correct subject owes under the plan's faults.
type Mode string

const (
	// ModeSafe is the envelope: every harm is one that a correct subject
	// survives, and unfair draws are downgraded.
	ModeSafe Mode = ""
	// ModeDisaster is beyond it: the subject must halt and say so, never
	// bootstrap a second identity, never delete the last good copy.
	ModeDisaster Mode = "disaster"
)

// RingSpec is the ring a plan starts from and the machines it may use.
type RingSpec struct {
	Size         int      `json:"size"`         // voters at the start
	Machines     int      `json:"machines"`     // machines in all, spares included
	Version      string   `json:"version"`      // etcd release, "v3.6.16"
	Security     string   `json:"security"`     // "tls" or "plain"
	Heartbeat    Duration `json:"heartbeat"`    // raft heartbeat; 0: etcd's default
	Election     Duration `json:"election"`     // election timeout; 0: etcd's default
	ReplaceAfter Duration `json:"replaceAfter"` // how long a machine is absent before a spare takes its place
	Volume       int64    `json:"volume"`       // bytes of each machine's data filesystem
	SnapCount    int      `json:"snapCount"`    // entries between raft snapshots; 0: etcd's default
}

// Workload is what the clients do.
type Workload struct {
	Profile string  `json:"profile"` // "kv-txn-watch", "kv", "none", …
	Clients int     `json:"clients"`
	Keys    int     `json:"keys"`
	Rate    float64 `json:"rate"` // operations a second, all clients together
}

// Assumptions tell whether the run meant anything. One unmet makes the verdict
// inconclusive, never pass.
type Assumptions struct {
	MinAcked    int  `json:"minAcked"`    // acknowledged operations
	FaultsFired bool `json:"faultsFired"` // every fault of the plan landed
}

// Invariant names a check and its parameters.
type Invariant struct {
	Check  string            `json:"check"`
	Params map[string]string `json:"params,omitempty"`
}

// Step is one action of a plan: exactly one of Op, Fault and Assert.
type Step struct {
	Name     string   `json:"name"`
	Position string   `json:"position,omitempty"` // file:line of the scenario
	After    *Trigger `json:"after,omitempty"`    // when it begins; nil: when the step before it is done
	Join     []string `json:"join,omitempty"`     // detached steps that must be done first
	Detach   bool     `json:"detach,omitempty"`   // the next step doesn't wait for this one
	Timeout  Duration `json:"timeout,omitempty"`

	Op     *Op     `json:"op,omitempty"`
	Fault  *Fault  `json:"fault,omitempty"`
	Assert *Assert `json:"assert,omitempty"`
}

// Trigger is a state to wait for, never a time to sleep.
type Trigger struct {
	Event   EventKind `json:"event"`
	Step    string    `json:"step,omitempty"`   // only events of this step
	Action  string    `json:"action,omitempty"` // only events of this action of the subject
	Nth     int       `json:"nth,omitempty"`    // the nth such event since the step before began; 0 means 1
	Delay   Duration  `json:"delay,omitempty"`  // this long after the event
	Timeout Duration  `json:"timeout,omitempty"`
}

// OpKind is something that an operator asks of the subject.
type OpKind string

// The operations.
const (
	OpScale      OpKind = "scale"       // To voters
	OpReplace    OpKind = "replace"     // move the member off machine Target, planned
	OpRestart    OpKind = "restart"     // SIGTERM the etcd on machine Target, wait until it serves again
	OpRoll       OpKind = "roll"        // restart every member, one after another, leader last
	OpMoveLeader OpKind = "move-leader" // hand leadership to Target
)

// Op is one operation.
type Op struct {
	Kind    OpKind `json:"kind"`
	To      int    `json:"to,omitempty"`
	Target  string `json:"target,omitempty"`
	Refused bool   `json:"refused,omitempty"` // the subject must refuse it
}

// FaultKind names a harm. Package faults is the catalogue.
type FaultKind string

// The faults.
const (
	FaultKill        FaultKind = "kill"         // SIGKILL a process, or cut a machine's power
	FaultPause       FaultKind = "pause"        // SIGSTOP for a time
	FaultMachineLoss FaultKind = "machine-loss" // a machine and its disk, for good
	FaultVolumeLoss  FaultKind = "volume-loss"  // a disk comes back empty
	FaultDiskFull    FaultKind = "disk-full"
	FaultPartition   FaultKind = "partition"
	FaultStoreOutage FaultKind = "store-outage" // every store call fails
	FaultStoreStale  FaultKind = "store-stale"  // store reads answer with the past
	FaultAgentCrash  FaultKind = "agent-crash"  // the subject's process dies at a named action or effect of its own
	FaultStaleView   FaultKind = "stale-view"   // the subject decides on what it saw some decisions ago
	FaultSkippedView FaultKind = "skipped-view" // the subject doesn't decide, so it never sees what was in between
	FaultReplyLoss   FaultKind = "reply-loss"   // what a machine asks of others is done, and some of the replies are lost
	FaultSlowNetwork FaultKind = "slow-network" // packets take longer
	FaultClockSkew   FaultKind = "clock-skew"   // a machine's clock is ahead or behind
	FaultDiskSwap    FaultKind = "disk-swap"    // machines' disks change places
)

// Fault is one harm. Fields that a kind doesn't use stay zero.
type Fault struct {
	Kind     FaultKind `json:"kind"`
	Target   string    `json:"target,omitempty"`   // a selector: leader, follower, learner, joining, all, m3, machine/2, …
	Scope    string    `json:"scope,omitempty"`    // kill, pause: "process" (etcd), "agent" or "machine"
	Shape    string    `json:"shape,omitempty"`    // partition: "split", "isolate", "one-way"
	Action   string    `json:"action,omitempty"`   // agent-crash: the subject's action, "add-learner"
	Effect   string    `json:"effect,omitempty"`   // agent-crash: one call at the subject's seams, "etcd member-add"; instead of Action
	Phase    string    `json:"phase,omitempty"`    // agent-crash: "before", "after", "reply-lost", "refused"
	Decision string    `json:"decision,omitempty"` // stale-view, skipped-view: "next" (about the ring) or "boot" (about a start)
	Leave    string    `json:"leave,omitempty"`    // volume-loss: "nothing" or "directories"
	Nth      int       `json:"nth,omitempty"`      // at the nth such action, effect or decision since it was set; 0 means 1
	Back     int       `json:"back,omitempty"`     // stale-view: how many decisions old the view is; 0 means 1
	Count    int       `json:"count,omitempty"`    // stale-view, skipped-view: for how many decisions; 0 means 1
	Percent  int       `json:"percent,omitempty"`  // reply-loss: how many of 100 replies
	By       Duration  `json:"by,omitempty"`       // clock-skew: ahead, or behind when negative; slow-network: the delay that is added
	For      Duration  `json:"for,omitempty"`      // heals by itself after; 0: at the end of harm, or never for a loss
	Stagger  Duration  `json:"stagger,omitempty"`  // heals one target after another, this far apart
}

// Permanent tells whether nothing ever heals f: what it took is gone.
func (f Fault) Permanent() bool {
	return f.Kind == FaultMachineLoss || f.Kind == FaultVolumeLoss
}

// Assert is a state that the ring must reach.
type Assert struct {
	Within   Duration `json:"within"`
	Voters   int      `json:"voters"`             // 0: not asked
	Learners *int     `json:"learners,omitempty"` // nil: not asked
	HashKV   string   `json:"hashKV,omitempty"`   // "equal"
	Halted   bool     `json:"halted,omitempty"`   // disaster mode: the subject says that it halts
}
