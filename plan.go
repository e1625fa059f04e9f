// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

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
	Subject    string            `json:"subject"` // "reference", "reference+voter-first", or the name in SubjectFile
	World      string            `json:"world"`
	Mode       Mode              `json:"mode,omitempty"`

	Ring        RingSpec    `json:"ring"`
	Workload    Workload    `json:"workload"`
	Assumptions Assumptions `json:"assumptions"`
	Invariants  []Invariant `json:"invariants"`
	Steps       []Step      `json:"steps"`
	End         *End        `json:"end,omitempty"` // how the ring is deleted, once all that was done with it can be judged; nil: it isn't

	SubjectFile string      `json:"subjectFile,omitempty"` // the file that describes the subject; "": ringproof knows it
	Untold      []EventKind `json:"untold,omitempty"`      // what such a subject tells nobody: no check may rest on it

	Expect *Expect `json:"expect,omitempty"` // a saved plan's: what it came to when it was saved
}

// End is how a ring on Kubernetes is deleted for good. What becomes of its members from then on is
// no matter of the other checks.
type End struct {
	Within Duration `json:"within"`          // by when nothing of it may be left
	Fault  *Fault   `json:"fault,omitempty"` // in force meanwhile, from before it is deleted on
}

// Withdraws reports whether the object that asks for the ring is deleted on the way and made anew, so
// that the ring's storage is one that stays.
func (p Plan) Withdraws() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Fault != nil && s.Fault.Kind == FaultRingDeleted })
}

// Step is the fault of the end, as a step.
func (e End) Step() Step { return Step{Name: "end", Fault: e.Fault, Timeout: e.Within} }

// Expect is what a run of a plan came to in the world that saved it.
type Expect struct {
	Verdict string `json:"verdict"`         // "pass" or "fail"
	Check   string `json:"check,omitempty"` // the check that fails it
	Hash    string `json:"hash,omitempty"`  // of the trace, in hex; only the build that saved it must repeat it
}

// Mode says what a correct subject owes under the plan's faults.
type Mode string

const (
	// ModeSafe is the envelope: every fault is one that a correct subject
	// survives, and unfair draws are downgraded.
	ModeSafe Mode = ""
	// ModeDisaster is beyond it: the subject must halt and say so, never
	// bootstrap a second identity, never delete the last good copy.
	ModeDisaster Mode = "disaster"
)

// RingSpec is the ring a plan starts from and the machines it may use.
type RingSpec struct {
	Size         int      `json:"size"`                   // voters at the start
	Machines     int      `json:"machines"`               // machines in all, spares included
	Version      string   `json:"version"`                // etcd release, "v3.6.16"
	Security     string   `json:"security"`               // "tls" or "plain"
	Peers        string   `json:"peers,omitempty"`        // "plain": members speak plain text to each other at the start, though clients speak TLS; "": as Security
	Heartbeat    Duration `json:"heartbeat"`              // raft heartbeat; 0: etcd's default
	Election     Duration `json:"election"`               // election timeout; 0: etcd's default
	ReplaceAfter Duration `json:"replaceAfter"`           // how long a machine is absent before a spare takes its place
	Volume       int64    `json:"volume"`                 // bytes of each machine's data filesystem
	SnapCount    int      `json:"snapCount"`              // entries between raft snapshots; 0: etcd's default
	Certificates Duration `json:"certificates,omitempty"` // how long the machines' certificates live; 0: the subject's default
	On           string   `json:"on,omitempty"`           // "kubernetes": machines are nodes of a cluster, and members run in its pods; "": they run on the machines
	Domain       string   `json:"domain,omitempty"`       // machine m1 is called m1.Domain by the subject, and reached by that name; "": by an IP address

	Flags   map[string]string `json:"flags,omitempty"`   // of every etcd, besides those that the subject sets
	Members map[string]Own    `json:"members,omitempty"` // by machine: what differs there
}

// Upgradable reports whether etcd goes from one release to the next: up within a minor,
// or to the minor after it. Both are written as v3.6.16.
func Upgradable(from, to string) bool {
	a, b := releaseNumbers(from), releaseNumbers(to)
	return a[0] == b[0] && (a[1] == b[1] && slices.Compare(b[:], a[:]) >= 0 || b[1] == a[1]+1)
}

// releaseNumbers are major, minor and patch.
func releaseNumbers(version string) (n [3]int) {
	for i, part := range strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3) {
		n[i], _ = strconv.Atoi(part)
	}
	return n
}

// OnKubernetes is what a ring is on whose members run in pods.
const OnKubernetes = "kubernetes"

// Host is what the subject calls a machine of the plan: m1, or m1.example.org where
// the ring is in that domain.
func (r RingSpec) Host(machine string) string {
	if r.Domain == "" || machine == "" {
		return machine
	}
	return machine + "." + r.Domain
}

// Machine is the plan's name of what the subject calls host.
func (r RingSpec) Machine(host string) string {
	if r.Domain == "" {
		return host
	}
	return strings.TrimSuffix(host, "."+r.Domain)
}

// Own is what one machine's etcd has for itself.
type Own struct {
	Version string            `json:"version,omitempty"` // "": the ring's
	Flags   map[string]string `json:"flags,omitempty"`   // besides the ring's, or instead of those of the same name
	Lacks   []string          `json:"lacks,omitempty"`   // releases that the plan runs, and that this machine doesn't have
}

// Own is all that the machine's etcd has: the ring's release and flags, unless the
// machine has its own.
func (r RingSpec) Own(machine string) Own {
	member := r.Members[machine]
	own := Own{Version: cmp.Or(member.Version, r.Version), Flags: map[string]string{}}
	maps.Copy(own.Flags, r.Flags)
	maps.Copy(own.Flags, member.Flags)
	return own
}

// VersionsOn lists the etcd releases that the machine has, of those that the plan runs.
func (p Plan) VersionsOn(machine string) []string {
	return slices.DeleteFunc(p.Versions(), func(version string) bool {
		return slices.Contains(p.Ring.Members[machine].Lacks, version)
	})
}

// Versions lists the etcd releases that the plan runs, the ring's first.
func (p Plan) Versions() []string {
	all := []string{p.Ring.Version}
	add := func(version string) {
		if version != "" && !slices.Contains(all, version) {
			all = append(all, version)
		}
	}
	for _, machine := range slices.Sorted(maps.Keys(p.Ring.Members)) {
		add(p.Ring.Members[machine].Version)
	}
	for _, s := range p.Steps {
		if s.Op != nil && !s.Op.Refused {
			add(s.Op.Version)
		}
	}
	return all
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
	StepsTried  bool `json:"stepsTried"`  // every operation and assertion of the plan could be tried
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
	Event  EventKind `json:"event"`
	Step   string    `json:"step,omitempty"`   // only events of this step
	Action string    `json:"action,omitempty"` // only events of this action of the subject
	Nth    int       `json:"nth,omitempty"`    // the nth such event since the step before began; 0 means 1
	// Since is where counting begins: where the step before began; or, when it is
	// run-begins, with the run. Such a step waits for no ring: it may meet its
	// bootstrap. No other step waits for it unless it joins it.
	Since   EventKind `json:"since,omitempty"`
	Delay   Duration  `json:"delay,omitempty"` // this long after the event
	Timeout Duration  `json:"timeout,omitempty"`
}

// Early reports whether the step waits for no ring, so that it may meet its
// bootstrap.
func (s Step) Early() bool {
	return s.After != nil && (s.After.Event == EventRunBegins || s.After.Since == EventRunBegins)
}

// Awaited reports whether there is anything to wait for after the run's beginning.
func (t Trigger) Awaited() bool { return t.Event != EventRunBegins || t.Delay > 0 }

// OpKind is something that an operator asks of the subject.
type OpKind string

// The operations.
const (
	OpScale      OpKind = "scale"       // To voters
	OpUpgrade    OpKind = "upgrade"     // all members run Version
	OpPeers      OpKind = "peers"       // all members speak so to each other: "tls" or "plain"
	OpReplace    OpKind = "replace"     // move the member off machine Target, planned
	OpRestart    OpKind = "restart"     // end in good order what Scope says on machine Target, wait until it serves again
	OpRoll       OpKind = "roll"        // restart every member so, one after another, leader last
	OpMoveLeader OpKind = "move-leader" // hand leadership to Target

	OpCancelReplace OpKind = "cancel-replace" // take back what was asked to be replaced and is still there
	OpSuspend       OpKind = "suspend"        // leave the ring as it is
	OpResume        OpKind = "resume"         // go on

	OpEdit  OpKind = "edit"  // the object by which an operator is asked for the ring, or Params["object"], has Params["field"] as Params["value"], its pods made anew where they must
	OpReset OpKind = "reset" // end the subject's process on machine Target, empty its disk by the subject's own command, and start it again
	OpAsk   OpKind = "ask"   // ask the member on machine Target for Request, beside the subject

	OpSnapshot OpKind = "snapshot" // write what the ring holds into a file
)

// AskSurge is the request of an ask that many clients make at once: each writes as fast as the
// member takes it.
const AskSurge = "surge"

// Op is one operation.
type Op struct {
	Kind    OpKind `json:"kind"`
	To      int    `json:"to,omitempty"`
	Target  string `json:"target,omitempty"`
	Refused bool   `json:"refused,omitempty"` // the subject must refuse it
	Request string `json:"request,omitempty"` // ask: the kind of a request about a member, "compact", up to now, or [AskSurge]
	// Endpoint is the machine of which a reset asks what the ring's members are; "": of all.
	Endpoint string `json:"endpoint,omitempty"`
	Rival    bool   `json:"rival,omitempty"` // the next step is another operator's, who doesn't wait until this one is heard

	Version string            `json:"version,omitempty"` // restart: with this release from now on; upgrade: what all members are to run
	Peers   string            `json:"peers,omitempty"`   // peers: "tls" or "plain"
	Flags   map[string]string `json:"flags,omitempty"`   // restart: with these flags from now on; "": without

	// Scope is what a restart or roll ends with SIGTERM: "process" (or ""), etcd;
	// "agent", the subject's process, which ends its etcd or leaves it; "service",
	// both at once, as an init system ends all of a unit; "machine", the agent
	// first, and then the machine's power.
	Scope string   `json:"scope,omitempty"`
	For   Duration `json:"for,omitempty"` // restart: how long what was ended stays down; at once when 0

	Params map[string]string `json:"params,omitempty"` // of an operation from outside, those that no field is for
}

// Changes reports whether a restart is one with another release or other flags.
func (o Op) Changes() bool { return o.Kind == OpRestart && (o.Version != "" || len(o.Flags) > 0) }

// Bounces reports whether the operation ends etcds, and has them started again.
func (o Op) Bounces() bool {
	return slices.Contains([]OpKind{OpRestart, OpRoll, OpReset, OpUpgrade, OpPeers, OpEdit}, o.Kind)
}

// InTurn reports whether the subject itself may restart one member after another for the
// operation.
func (o Op) InTurn() bool { return slices.Contains([]OpKind{OpUpgrade, OpPeers, OpEdit}, o.Kind) }

// Object is what an edit is of, as KIND/NAME, where that isn't the ring's object; "" and "": it is.
func (o Op) Object() (kind, name string) {
	kind, name, _ = strings.Cut(o.Params["object"], "/")
	return kind, name
}

// MergePatch is an edit as a JSON merge patch (RFC 7386). A value that is no JSON is a string.
func (o Op) MergePatch() ([]byte, error) {
	field, text := o.Params["field"], o.Params["value"]
	var value any = text
	if json.Valid([]byte(text)) {
		value = json.RawMessage(text)
	}
	names := strings.Split(field, ".")
	for _, name := range slices.Backward(names) {
		if name == "" {
			return nil, fmt.Errorf("edit refused: %q names no field; write it as spec.resources", field)
		}
		value = map[string]any{name: value}
	}
	return json.Marshal(value)
}

// Encrypts reports whether a step has the peers of a ring speak TLS that spoke plain text.
func (p Plan) Encrypts() bool {
	return p.Ring.Peers == "plain" && slices.ContainsFunc(p.Steps, func(s Step) bool {
		return s.Op != nil && s.Op.Kind == OpPeers && s.Op.Peers == "tls" && !s.Op.Refused
	})
}

// BacksUp reports whether a step has the subject make a backup.
func (p Plan) BacksUp() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Op != nil && s.Op.Kind == OpSnapshot && !s.Op.Refused })
}

// Upgrades reports whether a step has the ring run another release.
func (p Plan) Upgrades() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Op != nil && s.Op.Kind == OpUpgrade && !s.Op.Refused })
}

// TakesTurns reports whether the subject is to restart one member after the other.
func (p Plan) TakesTurns() bool {
	edits := func(s Step) bool { return s.Op != nil && s.Op.Kind == OpEdit && !s.Op.Refused }
	return p.Upgrades() || p.Encrypts() || slices.ContainsFunc(p.Steps, edits)
}

// Stopped says what a restart ended.
func (o Op) Stopped() string {
	switch o.Scope {
	case "agent":
		return "SIGTERM to the agent"
	case "service":
		return "SIGTERM to the agent and etcd"
	case "machine":
		return "SIGTERM to the agent, and then the power"
	}
	return "SIGTERM to etcd"
}

// Ends reports whether the operation ends the subject's own process.
func (o Op) Ends() bool { return o.Kind == OpReset || o.Scope != "" && o.Scope != "process" }

// What somebody else than the subject asks of a ring.
const (
	MemberRemove = "member-remove"
	MemberAdd    = "member-add"  // of a voter, as by etcdctl member add
	LearnerAdd   = "learner-add" // of a learner, as with --learner
)

// The alarms that etcd has, by the names that etcdctl prints.
const (
	AlarmNoSpace = "NOSPACE" // no write that takes room is done
	AlarmCorrupt = "CORRUPT" // no write is done
)

// What a fault's policy denies.
const (
	DeniesCreate = "create"
	DeniesUpdate = "update"
	DeniesDelete = "delete"
)

// Adds is what somebody else adds by the fault, as the kind of a ConfChange: "add-voter" or
// "add-learner"; "": they remove.
func (f Fault) Adds() string {
	switch f.Does {
	case MemberAdd:
		return "add-voter"
	case LearnerAdd:
		return "add-learner"
	}
	return ""
}

// FaultKind names a kind of fault. Package faults is the catalogue.
type FaultKind string

// The faults.
const (
	FaultKill        FaultKind = "kill"         // SIGKILL a process, or cut a machine's power
	FaultPause       FaultKind = "pause"        // SIGSTOP for a time
	FaultMachineLoss FaultKind = "machine-loss" // a machine and its disk, for good
	FaultVolumeLoss  FaultKind = "volume-loss"  // a disk comes back empty
	FaultDiskFull    FaultKind = "disk-full"
	FaultPartition   FaultKind = "partition"
	FaultStoreOutage FaultKind = "store-outage" // store calls fail
	FaultStoreStale  FaultKind = "store-stale"  // store reads answer with the past
	FaultStoreLost   FaultKind = "store-lost"   // what the subject keeps in its store is gone
	FaultAgentCrash  FaultKind = "agent-crash"  // the subject's process dies at a named action or effect of its own
	FaultStaleView   FaultKind = "stale-view"   // the subject decides on what it saw some decisions ago
	FaultSkippedView FaultKind = "skipped-view" // the subject doesn't decide, so it never sees what was in between
	FaultReplyLoss   FaultKind = "reply-loss"   // what a machine asks of others is done, and some of the replies are lost
	FaultSlowNetwork FaultKind = "slow-network" // packets take longer
	FaultPacketLoss  FaultKind = "packet-loss"  // some packets between machines are lost
	FaultClockSkew   FaultKind = "clock-skew"   // a machine's clock is ahead or behind
	FaultDiskSwap    FaultKind = "disk-swap"    // machines' disks change places

	FaultStartFailure    FaultKind = "start-failure"    // etcd can't start, or dies soon after
	FaultVolumeUnmounted FaultKind = "volume-unmounted" // a machine restarts without its data filesystem, which is mounted later
	FaultVolumeCopy      FaultKind = "volume-copy"      // a member's data directory is copied to another machine
	FaultTimePasses      FaultKind = "time-passes"      // all clocks go on by months or years, in steps

	FaultWrongRing   FaultKind = "wrong-ring"        // an etcd of another ring answers at a machine's address
	FaultDuplicate   FaultKind = "duplicate-machine" // a second machine of the same name comes up at another address
	FaultDryRun      FaultKind = "dry-run"           // the subject's agent runs on, and is told to change nothing
	FaultKeysDamaged FaultKind = "keys-damaged"      // what the subject keeps in the ring is deleted or overwritten
	FaultAPIOutage   FaultKind = "api-outage"        // the API server of a cluster is away
	FaultForeignHand FaultKind = "foreign-hand"      // somebody else changes the membership
	FaultAlarmRaised FaultKind = "alarm-raised"      // somebody else raises an alarm, and takes it back
	FaultSlowDisk    FaultKind = "slow-disk"         // every sync of a disk takes longer
	FaultNameStale   FaultKind = "name-stale"        // a machine comes back, and its name doesn't lead to it yet
	FaultSleep       FaultKind = "machine-sleep"     // a machine is suspended: its monotonic clock stands still, and the wall clock goes on

	FaultKubeDelete       FaultKind = "kube-delete"         // an object of a member is deleted: its pod, its claim or its volume
	FaultForeignFinalizer FaultKind = "foreign-finalizer"   // an object of a member can't go: somebody else's finalizer holds it
	FaultDrain            FaultKind = "drain"               // a node is drained, as kubectl drain does
	FaultKubeKill         FaultKind = "kube-kill"           // SIGKILL the subject's controller, or a part of the control plane
	FaultKubePause        FaultKind = "kube-pause"          // SIGSTOP one of them for a time, or a kubelet
	FaultStatusEmptied    FaultKind = "status-emptied"      // the status of the ring's object is dropped
	FaultSetDeleted       FaultKind = "statefulset-deleted" // what makes the members' pods is deleted
	FaultSetScaled        FaultKind = "statefulset-scaled"  // what makes the members' pods is told by hand to keep another number
	FaultObjectsDeleted   FaultKind = "objects-deleted"     // what the ring's pods need beside their claims is deleted: services, secrets, …
	FaultObjectsEmptied   FaultKind = "objects-emptied"     // what they say is taken out of them
	FaultRecordsDeleted   FaultKind = "records-deleted"     // what the subject keeps of its ring in the cluster is deleted
	FaultRingDeleted      FaultKind = "ring-deleted"        // what asks for the ring is deleted, and made anew
	FaultUpgraded         FaultKind = "controller-upgraded" // the subject's controller gets another image
	FaultAdmissionDenied  FaultKind = "admission-denied"    // a policy lets nobody create, update or delete one kind of objects
)

// Fault is one thing that a world breaks. Fields that a kind doesn't use stay zero.
type Fault struct {
	Kind     FaultKind `json:"kind"`
	Target   string    `json:"target,omitempty"`   // a selector: leader, follower, learner, joining, all, m3, machine/2, …
	Scope    string    `json:"scope,omitempty"`    // kill, pause: "process" (etcd), "agent" or "machine"; kube-kill, kube-pause: "controller", "kubelet", "kube-apiserver", …
	Object   string    `json:"object,omitempty"`   // kube-delete, foreign-finalizer: the member's "pod", "claim" or "volume"; objects-deleted, objects-emptied, admission-denied: "services", "secrets", …
	How      string    `json:"how,omitempty"`      // kube-delete: "graceful", "forced" or "evicted"; statefulset-deleted, ring-deleted: "background", "foreground" or "orphan"; statefulset-scaled: "none", "minority", "fewer" or "more"; store-outage: "fails" or "hangs"; volume-loss: "removed", or "" with the machine off
	Shape    string    `json:"shape,omitempty"`    // partition: "split", "isolate", "one-way", "pair"
	Port     string    `json:"port,omitempty"`     // partition: "all", or only "peer" or "client"
	Action   string    `json:"action,omitempty"`   // agent-crash: the subject's action, "add-learner"
	Effect   string    `json:"effect,omitempty"`   // agent-crash: one call at the subject's seams, "etcd member-add"; instead of Action
	Phase    string    `json:"phase,omitempty"`    // agent-crash: "before", "after", "reply-lost", "refused", "late", "unseen"
	Decision string    `json:"decision,omitempty"` // stale-view, skipped-view: "next" (about the ring) or "boot" (about a start)
	Leave    string    `json:"leave,omitempty"`    // volume-loss: "nothing", "directories", "identity", "copy-of-before", "damaged-log", "holed-log", "damaged-keyspace" or "ring-of-one"; keys-damaged: "nothing" or "nonsense"; store-lost: "nothing", "as-made" or "made-anew"
	At       string    `json:"at,omitempty"`       // start-failure: "before-log", "after-log" or "unreadable-log"
	Remount  string    `json:"remount,omitempty"`  // volume-unmounted: "live" or "reboot"
	Does     string    `json:"does,omitempty"`     // foreign-hand: "member-remove", "member-add" or "learner-add"; admission-denied: "create", "update" or "delete"
	Alarm    string    `json:"alarm,omitempty"`    // alarm-raised: "NOSPACE" or "CORRUPT"
	Answers  string    `json:"answers,omitempty"`  // name-stale: "old-address", "nothing" or "other-machine"
	From     string    `json:"from,omitempty"`     // volume-copy: a selector of whose data are copied; partition of a pair: of the other one
	Calls    string    `json:"calls,omitempty"`    // store-outage: "all" or "writes"
	Records  string    `json:"records,omitempty"`  // store-outage: only calls about these records; "": about any
	Nth      int       `json:"nth,omitempty"`      // at the nth such action, effect or decision since it was set; 0 means 1
	Back     int       `json:"back,omitempty"`     // stale-view: how many decisions old the view is; 0 means 1
	Count    int       `json:"count,omitempty"`    // stale-view, skipped-view: for how many decisions; 0 means 1
	Percent  int       `json:"percent,omitempty"`  // reply-loss, packet-loss: how many of 100
	By       Duration  `json:"by,omitempty"`       // clock-skew: ahead, or behind when negative; slow-network, slow-disk: the delay that is added; time-passes: how much; volume-loss: how old the copy is
	For      Duration  `json:"for,omitempty"`      // heals by itself after; 0: at the end of all faults, or never for a loss; time-passes: in how much of the run
	Stagger  Duration  `json:"stagger,omitempty"`  // heals one target after another, this far apart

	Params map[string]string `json:"params,omitempty"` // of a fault from outside, those that no field is for
}

// Seams is what one step does at the subject's own seams on one machine, in every world.
type Seams struct {
	Step        string
	StoreOutage *Fault // which calls to the store fail; nil: none
	StoreStale  bool
	Fault       *Fault // at an action, effect or decision of the subject, which its decorators carry out; nil: none
}

// At is the step's fault as a subject is told of it. A step without a fault takes its fault
// away.
func (s Step) At() Seams {
	at := Seams{Step: s.Name}
	switch {
	case s.Fault == nil:
	case s.Fault.Kind == FaultStoreOutage:
		at.StoreOutage = s.Fault
	case s.Fault.Kind == FaultStoreStale:
		at.StoreStale = true
	default:
		at.Fault = s.Fault
	}
	return at
}

// The logs that a volume-loss may leave where it leaves one: none of them may run again
// under its ID.
const (
	LeaveCopy    = "copy-of-before"   // the disk as it was By ago
	LeaveDamaged = "damaged-log"      // the log has a wrong checksum in the middle
	LeaveHoled   = "holed-log"        // a block in the middle of the log reads as zeros
	LeaveGarbled = "damaged-keyspace" // the log is whole, and etcd can't open the keyspace beside it
	LeaveMade    = "as-made"          // the store is as it was when it was made
	LeaveAnew    = "made-anew"        // somebody has made the store again
	LeaveForced  = "ring-of-one"      // somebody has started etcd on it with --force-new-cluster
)

// EndsUnread is when an etcd ends that can't read its log, as a disk answers with an error for a
// while. Nobody else can read it either, and it is whole once that is over.
const EndsUnread = "unreadable-log"

// The ports whose connections a partition drops, whoever of the two machines dialled.
const (
	PortAll    = "all"
	PortPeer   = "peer"   // all but the clients' port: members don't hear each other, and their clients hear them
	PortClient = "client" // the clients' port alone: who asks members on other machines has no answer
)

// How a store is out that doesn't simply refuse: whoever asks it waits for as long as that is so,
// or until he gives up.
const StoreHangs = "hangs"

// NameKept is for how long at most whoever has looked a name up goes by what it was told:
// Go's resolver reads /etc/hosts anew after five seconds. So long takes the restart of a
// machine whose name becomes stale, and one second more: nobody finds it by an old answer.
const NameKept = 5 * time.Second

// What the name of a machine resolves to while it is stale.
const (
	AnswersOldAddress = "old-address"   // one at which nobody is any more
	AnswersNothing    = "nothing"       // no such host
	AnswersOther      = "other-machine" // another machine of the plan
)

// Removed is how a volume is lost whose files go while they are in use, as by rm -rf: who has them
// open goes on with them, and no name leads to them any more.
const Removed = "removed"

// Age is how old the copy is that a copy-of-before puts back; 0 for all other faults.
func (f Fault) Age() time.Duration {
	if f.Kind != FaultVolumeLoss || f.Leave != LeaveCopy {
		return 0
	}
	return cmp.Or(f.By.Std(), 10*time.Second)
}

// Leaps is how time passes: in so many leaps, each so long, and so far apart. None is
// longer than ten days, so that whoever looks at a clock now and then sees a time before
// each end that is near.
func (f Fault) Leaps() (n int, by, every time.Duration) {
	const most = 10 * 24 * time.Hour
	n = int(f.By.Std()/most) + 1
	return n, f.By.Std() / time.Duration(n), f.For.Std() / time.Duration(n)
}

// Lateness is how long what an agent asks for is on its way by an agent-crash with Phase
// "late"; 0: the fault delays nothing.
func (f Fault) Lateness() time.Duration {
	if f.Kind != FaultAgentCrash || f.Phase != "late" {
		return 0
	}
	return cmp.Or(f.For.Std(), 10*time.Second)
}

// Aftermath is how long what the fault has done goes on once it is healed; 0: it is over. A connection of which
// packets were lost waits to send them again, for longer each time; etcd gives it up once nothing has come for five
// seconds (rafthttp's ConnReadTimeout and ConnWriteTimeout), and dials anew.
func (f Fault) Aftermath() time.Duration {
	if f.Kind != FaultPacketLoss {
		return 0
	}
	return 10 * time.Second
}

// OfPort reports whether a partition is of one port alone.
func (f Fault) OfPort() bool { return f.Port == PortPeer || f.Port == PortClient }

// LeavesLog reports whether the fault leaves a log on the disk that it takes.
func (f Fault) LeavesLog() bool {
	return f.Kind == FaultVolumeLoss && slices.Contains([]string{LeaveCopy, LeaveDamaged, LeaveHoled, LeaveGarbled, LeaveForced}, f.Leave)
}

// Permanent reports whether nothing ever heals f: what it took is gone. A claim that was
// deleted takes its volume with it once the pod that uses it ends.
func (f Fault) Permanent() bool {
	return f.Kind == FaultMachineLoss || f.Kind == FaultVolumeLoss || f.Kind == FaultKubeDelete && f.Object != ObjectPod
}

// What becomes of what an object owns that is deleted, a StatefulSet's pods: it stays, or the object
// waits for it to go. Else it goes once the object has gone.
const (
	Orphan     = "orphan"
	Foreground = "foreground"
)

// How many pods a StatefulSet is told by hand to keep: none, the largest minority of those that it
// keeps, or one fewer or more.
const (
	ScaledToNone     = "none"
	ScaledToMinority = "minority"
	ScaledFewer      = "fewer"
	ScaledMore       = "more"
)

// The objects of a member on Kubernetes.
const (
	ObjectPod    = "pod"
	ObjectClaim  = "claim"
	ObjectVolume = "volume"
)

// How a pod is deleted but in good order.
const (
	Forced  = "forced"  // it gets no grace
	Evicted = "evicted" // its kubelet ends it for good, and who made it deletes it
)

// ScopeKubelet is what a kube-pause stops that is on one node, and not in the cluster once.
const ScopeKubelet = "kubelet"

// ScopeController is what a fault hits that is aimed at the subject's controller, and at no
// machine.
const ScopeController = "controller"
