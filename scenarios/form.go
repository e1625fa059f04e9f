// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import "github.com/ringproof/ringproof"

// APIVersion and Kind open every scenario file.
const (
	APIVersion = "ringproof.dev/v1alpha1"
	Kind       = "Scenario"
)

// Form is a scenario file as it is written, with the matrix substituted. Zero
// fields were absent.
type Form struct {
	APIVersion string   `json:"apiVersion" jsonschema:"required,enum=ringproof.dev/v1alpha1" jsonschema_description:"the version of this form"`
	Kind       string   `json:"kind" jsonschema:"required,enum=Scenario" jsonschema_description:"what the file holds"`
	Metadata   Metadata `json:"metadata" jsonschema:"required" jsonschema_description:"the scenario's name and labels"`
	Spec       Spec     `json:"spec" jsonschema:"required" jsonschema_description:"the scenario"`
}

// Metadata names a scenario.
type Metadata struct {
	Name   string            `json:"name" jsonschema:"required" jsonschema_description:"letters, digits, dots, dashes and underscores, as grow-volume-lost; it begins the name of every cell"`
	Labels map[string]string `json:"labels,omitempty" jsonschema_description:"free words to select scenarios by"`
}

// Spec is the scenario itself.
type Spec struct {
	Description string      `json:"description,omitempty" jsonschema_description:"what happens, in one sentence"`
	Hypothesis  string      `json:"hypothesis" jsonschema:"required" jsonschema_description:"what is claimed to hold; the run tries to refute it"`
	Mode        string      `json:"mode,omitempty" jsonschema:"enum=safe,enum=disaster" jsonschema_description:"safe (default): every fault is one that a correct subject survives. disaster: beyond that; the subject must halt and say so"`
	Worlds      []WorldName `json:"worlds,omitempty" jsonschema_description:"where it can run; everywhere when absent"`
	Matrix      Matrix      `json:"matrix,omitempty" jsonschema_description:"axes and their values; every combination is a cell; ${matrix.axis} stands for the value"`
	Ring        Ring        `json:"ring" jsonschema:"required" jsonschema_description:"the ring at the start, and its machines"`
	Workload    *Workload   `json:"workload,omitempty" jsonschema_description:"what the clients do meanwhile"`
	Assumptions Assumptions `json:"assumptions,omitempty" jsonschema_description:"what must be true for the run to mean anything; unmet makes it inconclusive"`
	KnownBug    *KnownBug   `json:"knownBug,omitempty" was:"canary" jsonschema_description:"a known bug of etcd that the scenario must show; ringproof mutate --known-bugs runs it"`
	Invariants  []Invariant `json:"invariants,omitempty" jsonschema_description:"the checks that judge the history; all that fit the mode when absent"`
	Steps       []Step      `json:"steps,omitempty" jsonschema_description:"what is done, in order; without steps the ring is created and judged"`
	End         *End        `json:"end,omitempty" jsonschema_description:"on Kubernetes: the ring is deleted once all else can be judged, and nothing of it may be left"`
}

// Ring is the ring at the start.
type Ring struct {
	Size         int                `json:"size" jsonschema:"required,minimum=1,maximum=9" jsonschema_description:"voters at the start: 1, 3, 5, 7 or 9"`
	Machines     int                `json:"machines,omitempty" jsonschema:"minimum=1,maximum=32" jsonschema_description:"machines in all, spares included; when absent the largest size asked for, and spares where a step needs one"`
	Version      Release            `json:"version,omitempty" jsonschema_description:"etcd release; v3.6.16 when absent"`
	Security     string             `json:"security,omitempty" jsonschema:"enum=tls,enum=plain" jsonschema_description:"how members and clients talk; tls when absent"`
	Peers        string             `json:"peers,omitempty" jsonschema:"enum=tls,enum=plain" jsonschema_description:"how members talk to each other at the start; as security when absent. plain beside security tls is a ring to be moved to TLS; on Kubernetes it is one without launchers"`
	Heartbeat    ringproof.Duration `json:"heartbeat,omitempty" jsonschema_description:"raft heartbeat; etcd's default (100ms) when absent"`
	Election     ringproof.Duration `json:"election,omitempty" jsonschema_description:"election timeout; etcd's default (1s) when absent"`
	ReplaceAfter ringproof.Duration `json:"replaceAfter,omitempty" jsonschema_description:"how long a machine is absent before a spare takes its place; 10s when absent"`
	Volume       Bytes              `json:"volume,omitempty" jsonschema_description:"size of each machine's data filesystem; 512Mi when absent"`
	SnapCount    int                `json:"snapCount,omitempty" jsonschema:"minimum=1,maximum=1000000" jsonschema_description:"entries between raft snapshots; etcd's default when absent"`
	Certificates ringproof.Duration `json:"certificates,omitempty" jsonschema_description:"how long the machines' certificates live; the subject's default (a year) when absent"`
	On           string             `json:"on,omitempty" jsonschema:"enum=machines,enum=kubernetes" jsonschema_description:"what members run on. machines (default): a process each, and an agent beside it. kubernetes: pods; machines are nodes of a cluster, which also runs the subject's controller"`
	Domain       Domain             `json:"domain,omitempty" jsonschema_description:"of the machines' names: the subject is given m1.DOMAIN as the name and as the address of m1, and every machine resolves it; when absent m1, at an IP address"`
	Flags        map[string]Text    `json:"flags,omitempty" jsonschema_description:"more flags of every etcd, by name without dashes: {quota-backend-bytes: 16777216}. Not those that the subject sets"`
	Members      map[string]Own     `json:"members,omitempty" jsonschema_description:"what single machines have for themselves, by name: {m2: {version: v3.5.21, flags: {…}}}"`
}

// Own is what one machine's etcd has for itself.
type Own struct {
	Version Release         `json:"version,omitempty" jsonschema_description:"its etcd release; the ring's when absent"`
	Flags   map[string]Text `json:"flags,omitempty" jsonschema_description:"flags besides the ring's, or instead of those of the same name"`
	Lacks   []Release       `json:"lacks,omitempty" jsonschema_description:"releases that members run, at first or later, and that this machine doesn't have"`
}

// Workload is what the clients do.
type Workload struct {
	Profile string `json:"profile,omitempty" jsonschema:"enum=kv-txn-watch,enum=kv,enum=tombstone-watch,enum=progress-watch,enum=patient-watch,enum=future-watch,enum=future-read,enum=operator,enum=apiserver,enum=none" jsonschema_description:"kv-txn-watch when absent. tombstone-watch, progress-watch, patient-watch, future-watch and future-read add one odd client to it: it compacts at a deletion and watches from there; asks for bookmarks before it has caught up; keeps a stream on each member while that has no leader; does so from a revision far ahead; writes beside a read of one. operator adds one on each member that asks for status, hashes, alarms and backups, and defragments; apiserver does what Kubernetes does: optimistic writes, transactions of several requests, keys under leases, lists by pages, compactions"`
	Clients int    `json:"clients,omitempty" jsonschema:"minimum=1,maximum=100" jsonschema_description:"5 when absent"`
	Keys    int    `json:"keys,omitempty" jsonschema:"minimum=1,maximum=10000" jsonschema_description:"8 when absent; few keys make conflicts"`
	Rate    Rate   `json:"rate,omitempty" jsonschema_description:"operations, all clients together; 60/s when absent"`
}

// Assumptions are what a run must have had to mean anything.
type Assumptions struct {
	MinAcked    *int   `json:"minAcked,omitempty" jsonschema:"minimum=0,maximum=10000000" jsonschema_description:"acknowledged operations; 100 when absent, 0 without a workload"`
	FaultsFired string `json:"faultsFired,omitempty" jsonschema:"enum=all,enum=any" jsonschema_description:"all (default): every fault must have landed"`
	StepsTried  string `json:"stepsTried,omitempty" jsonschema:"enum=all,enum=any" jsonschema_description:"all (default): every operation and assertion must have been tried; any: one that nobody could carry out is left out, and nothing that rests on it is judged"`
}

// Step is one action. Exactly one of op, fault and assert is set.
type Step struct {
	Name    string             `json:"name" jsonschema:"required" jsonschema_description:"unique in the scenario"`
	After   *After             `json:"after,omitempty" jsonschema_description:"begin at this event; when absent, once the step before is done"`
	Join    []string           `json:"join,omitempty" jsonschema_description:"detached steps to wait for first"`
	Detach  bool               `json:"detach,omitempty" jsonschema_description:"the next step doesn't wait for this one"`
	Timeout ringproof.Duration `json:"timeout,omitempty" jsonschema_description:"for the action, from its begin; 60s when absent"`
	Op      *Op                `json:"op,omitempty" jsonschema_description:"an operation that is asked of the subject"`
	Fault   *Fault             `json:"fault,omitempty" jsonschema_description:"what is broken"`
	Times   int                `json:"times,omitempty" jsonschema:"minimum=1,maximum=100" jsonschema_description:"how often the fault comes, each time on whoever its target is by then; once when absent"`
	Every   ringproof.Duration `json:"every,omitempty" jsonschema_description:"how long after the fault began it comes again; a second after its own end when absent"`
	Assert  *Assert            `json:"assert,omitempty" jsonschema_description:"a state that the ring must reach"`
}

// End is how the ring is deleted.
type End struct {
	Within ringproof.Duration `json:"within,omitempty" jsonschema_description:"by when nothing of it may be left; 120s when absent"`
	Fault  *Fault             `json:"fault,omitempty" jsonschema_description:"a fault that is in force from before the deletion on"`
}

// After is a state to wait for.
type After struct {
	Event   Event              `json:"event" jsonschema:"required" jsonschema_description:"what to wait for"`
	Nth     int                `json:"nth,omitempty" jsonschema:"minimum=1,maximum=1000" jsonschema_description:"the nth such event since the step before began; 1 when absent"`
	Since   Event              `json:"since,omitempty" jsonschema:"enum=run-begins" jsonschema_description:"run-begins: count from the beginning of the run, so that the step may meet the ring's bootstrap; no other step waits for it"`
	Action  Action             `json:"action,omitempty" jsonschema_description:"only events of this action of the subject"`
	Step    string             `json:"step,omitempty" jsonschema_description:"only events of this step"`
	Delay   ringproof.Duration `json:"delay,omitempty" jsonschema_description:"this long after the event"`
	Timeout ringproof.Duration `json:"timeout,omitempty" jsonschema_description:"how long to wait for the event; 60s when absent"`
}

// Op is one operation: exactly one of its kinds is set. Which parameters a kind takes is
// in the catalogue of package faults.
type Op struct{ ringproof.Op }

// Fault is one fault: exactly one of its kinds is set, with parameters as the catalogue
// says.
type Fault struct{ ringproof.Fault }

// Assert is a state that the ring must reach.
type Assert struct {
	Within  ringproof.Duration `json:"within,omitempty" jsonschema_description:"how long it may take; 60s when absent"`
	Ring    *RingState         `json:"ring,omitempty" jsonschema_description:"the membership and its data"`
	Halted  bool               `json:"halted,omitempty" jsonschema_description:"the subject says that it halts; mode disaster only"`
	Subject *SubjectState      `json:"subject,omitempty" jsonschema_description:"what the subject has said and done"`
}

// SubjectState is what a subject is asserted to have said and done.
type SubjectState struct {
	Said    string `json:"said,omitempty" jsonschema_description:"a regular expression of Go, which matches what it said last when it waited or halted"`
	Changes *int   `json:"changes,omitempty" jsonschema:"minimum=0,maximum=1000" jsonschema_description:"how often it has added, promoted or removed a member since the run began"`
}

// RingState is what a ring is asserted to be.
type RingState struct {
	Voters   int       `json:"voters,omitempty" jsonschema:"minimum=1,maximum=9" jsonschema_description:"voters that serve"`
	Learners *int      `json:"learners,omitempty" jsonschema:"minimum=0,maximum=9" jsonschema_description:"entries that don't vote"`
	HashKV   string    `json:"hashKV,omitempty" jsonschema:"enum=equal" jsonschema_description:"every member holds the same data"`
	Left     *[]string `json:"left,omitempty" jsonschema_description:"machines that had a member and have none; no others have lost theirs. m3, a step before for those that its fault hit or its operation was about, or initial members; [] is nobody"`
	Stayed   *[]string `json:"stayed,omitempty" jsonschema_description:"machines with the member that they had first, named alike; []: none of the first members is left"`
	Leader   string    `json:"leader,omitempty" jsonschema_description:"the machine whose member leads, named alike"`
	Release  Release   `json:"release,omitempty" jsonschema_description:"what every member runs"`
	Alarms   *[]string `json:"alarms,omitempty" jsonschema_description:"etcd's alarms that stand, such as NOSPACE, and no others; [] is none"`
}
