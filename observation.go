// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Observation is what the world could see of the ring at one moment, and what
// it could not.
type Observation struct {
	At       Instant       `json:"at"`              // when the look began: nothing in it is older
	Until    Instant       `json:"until,omitempty"` // when it ended: nothing in it is newer
	Machines []MachineView `json:"machines"`
	// Members is the membership as the most advanced reachable member knows
	// it, sorted by ID. Fresh tells that the list was read with quorum.
	Members []MemberView `json:"members"`
	Fresh   bool         `json:"fresh"`
	Unknown []string     `json:"unknown,omitempty"` // what could not be observed, and why
	// Amiss are the objects of the ring that a fault deleted or emptied, and that aren't yet seen
	// to be there again and to say something, as "services/etcd".
	Amiss []string `json:"amiss,omitempty"`
}

// MachineView is the harness's own truth of one machine.
type MachineView struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Up      bool   `json:"up"`              // powered and not paused
	Lost    bool   `json:"lost,omitempty"`  // gone for good
	Disk    int    `json:"disk"`            // counts the disks it has had: 1, 2, …
	Open    int    `json:"open,omitempty"`  // the disk whose files its etcd has open, which no name leads to any more; 0: it is Disk
	Etcd    bool   `json:"etcd"`            // an etcd process runs
	Clear   Answer `json:"clear,omitempty"` // whether it listens for peers without TLS; looked at where peers began in plain text beside clients that speak TLS
	Agent   bool   `json:"agent"`           // the subject's process runs
}

// Runs is the disk that the machine's etcd runs on.
func (m MachineView) Runs() int { return cmp.Or(m.Open, m.Disk) }

// Forgets reports whether the machine's etcd runs on files that were removed: all that it holds
// is gone as it ends.
func (m MachineView) Forgets() bool { return m.Etcd && m.Open != 0 }

// Answer is what is known of something: that it is so, that it isn't, or, as "", nothing.
type Answer string

// What is known.
const (
	Yes Answer = "yes"
	No  Answer = "no"
)

// Is reports whether the host of a URL is the machine: its address, or of a pod's DNS name
// a shorter form, or the whole with the cluster's domain.
func (m MachineView) Is(host string) bool {
	host = strings.TrimSuffix(strings.TrimSuffix(host, "."), ".cluster.local")
	return host == m.Address || strings.HasSuffix(m.Address, ".svc") && host+".svc" == m.Address
}

// MemberView is one entry of the membership, with what the member said of
// itself when it was reached.
type MemberView struct {
	ID        MemberID   `json:"id"`
	Name      string     `json:"name,omitempty"` // "" until it has started
	Machine   string     `json:"machine"`        // by its peer URL's address
	PeerURLs  []string   `json:"peerURLs"`
	Learner   bool       `json:"learner,omitempty"`
	Serving   bool       `json:"serving"`           // answered a status request, and knows a leader
	Silent    bool       `json:"silent,omitempty"`  // it took the question and gave no answer in time
	Leader    bool       `json:"leader,omitempty"`  // it leads, by its own word
	ClusterID uint64     `json:"cluster,omitempty"` // by its own word, as are those below
	Version   string     `json:"version,omitempty"` // of the server
	Term      uint64     `json:"term,omitempty"`
	Index     uint64     `json:"index,omitempty"`    // raft index committed
	Applied   uint64     `json:"applied,omitempty"`  // raft index applied
	Revision  int64      `json:"revision,omitempty"` // of its store
	DBSize    int64      `json:"dbSize,omitempty"`   // bytes
	Alarms    []string   `json:"alarms,omitempty"`
	Peers     []MemberID `json:"peers,omitempty"` // the membership as this member itself lists it, sorted
}

// Plain reports whether others are told to speak plain text to it as its peers.
func (m MemberView) Plain() bool {
	return slices.ContainsFunc(m.PeerURLs, func(u string) bool { return strings.HasPrefix(u, "http:") })
}

// Member returns the entry with that ID.
func (o Observation) Member(id MemberID) (MemberView, bool) {
	for _, m := range o.Members {
		if m.ID == id {
			return m, true
		}
	}
	return MemberView{}, false
}

// On returns the entry that runs on the machine.
func (o Observation) On(machine string) (MemberView, bool) {
	for _, m := range o.Members {
		if m.Machine == machine {
			return m, true
		}
	}
	return MemberView{}, false
}

// Machine returns the machine with that name.
func (o Observation) Machine(name string) (MachineView, bool) {
	for _, m := range o.Machines {
		if m.Name == name {
			return m, true
		}
	}
	return MachineView{}, false
}

// Overdue are the machines that still hold a member and were to be vacated, while there are
// machines enough for a ring of so many voters: with nowhere to go a member stays.
func (o Observation) Overdue(vacant []string, voters int) []string {
	var still []string
	for _, machine := range vacant {
		if _, on := o.On(machine); on {
			still = append(still, machine)
		}
	}
	free := 0
	for _, m := range o.Machines {
		if !m.Lost && !slices.Contains(vacant, m.Name) {
			free++
		}
	}
	if len(still) <= max(0, voters-free) {
		return nil
	}
	return still
}

// Leader returns the entry that leads; when two say so, the one with the
// higher term (a deposed leader learns of it late).
func (o Observation) Leader() (MemberView, bool) {
	var leader MemberView
	for _, m := range o.Members {
		if m.Leader && m.Term >= leader.Term {
			leader = m
		}
	}
	return leader, leader.ID != 0
}

// Voters returns the voting entries, Learners the others.
func (o Observation) Voters() []MemberView {
	return o.where(func(m MemberView) bool { return !m.Learner })
}

// Learners returns the entries that don't vote.
func (o Observation) Learners() []MemberView {
	return o.where(func(m MemberView) bool { return m.Learner })
}

func (o Observation) where(keep func(MemberView) bool) []MemberView {
	kept := make([]MemberView, 0, len(o.Members))
	for _, m := range o.Members {
		if keep(m) {
			kept = append(kept, m)
		}
	}
	return kept
}

// String says what the ring is and on which machines: "3 voters on m1, m2,
// m4, 0 learners, all serving".
func (o Observation) String() string {
	if len(o.Members) == 0 {
		return "no members"
	}
	var idle []string
	for _, m := range o.Members {
		if !m.Serving {
			idle = append(idle, placed([]MemberView{m}))
		}
	}
	text := fmt.Sprintf("%s on %s, %s", Counted(len(o.Voters()), "voter"), placed(o.Voters()), Counted(len(o.Learners()), "learner"))
	if len(o.Learners()) > 0 {
		text += " on " + placed(o.Learners())
	}
	if len(idle) == 0 {
		return text + ", all serving"
	}
	return text + ", not serving: " + strings.Join(idle, ", ")
}

// placed names the members' machines, and those elsewhere by their IDs.
func placed(members []MemberView) string {
	var where []string
	for _, m := range members {
		where = append(where, cmp.Or(m.Machine, m.ID.String()))
	}
	slices.Sort(where)
	return strings.Join(where, ", ")
}

// Status is what the subject says of its ring where people and alerts read it: in the status
// of the ring's object on Kubernetes.
type Status struct {
	At        Instant `json:"at"`
	Available string  `json:"available,omitempty"` // whether the ring serves: True, False or Unknown, as conditions have it; "": it doesn't say
	Current   bool    `json:"current"`             // it is said of what the spec asks for now
	Voters    int     `json:"voters"`              // -1: it doesn't say
	// Degraded is whether something of the ring is not as it was asked to be, and Halted whether a
	// person has to decide: as Available.
	Degraded string `json:"degraded,omitempty"`
	Halted   string `json:"halted,omitempty"`
	// Members are those that it lists, sorted; none: it doesn't say.
	Members []MemberID `json:"members,omitempty"`
	Object  string     `json:"object,omitempty"` // the version of the object that it was read in: another after each write; "": not known
	// Alive is when whoever writes it showed last that he lives, by a clock of his own:
	// another text each time; "": nobody does.
	Alive string `json:"alive,omitempty"`
}

// String writes it as "Available=True, 3 voters".
func (s Status) String() string {
	var all []string
	if s.Available != "" {
		all = append(all, "Available="+s.Available)
	}
	if s.Voters >= 0 {
		all = append(all, Counted(s.Voters, "voter"))
	}
	if s.Degraded == "True" {
		all = append(all, "degraded")
	}
	if s.Halted == "True" {
		all = append(all, "halted")
	}
	if !s.Current {
		all = append(all, "of an earlier spec")
	}
	return strings.Join(all, ", ")
}

// Quorum is the majority of n voters.
func Quorum(n int) int { return n/2 + 1 }

// ConfChange is one membership change as the ring's own log holds it: the
// truth that polling can miss. Read from the members' WALs.
type ConfChange struct {
	Index    uint64   `json:"index"` // raft index
	Term     uint64   `json:"term"`
	Kind     string   `json:"kind"` // "add-voter", "add-learner", "promote", "remove", "update"
	Member   MemberID `json:"member"`
	PeerURLs []string `json:"peerURLs,omitempty"`
	At       Instant  `json:"at"`                // first observation at which a member had applied it; Forever: none
	Initial  bool     `json:"founder,omitempty"` // written at bootstrap
	Foreign  bool     `json:"foreign,omitempty"` // somebody else asked for it, and not the subject
}

// Rejection is a change of the membership that was asked of a member and refused by it,
// as etcd's guard against unsafe changes does (--strict-reconfig-check). No log has it.
type Rejection struct {
	At      Instant  `json:"at"`
	Machine string   `json:"machine"` // of the member that was asked
	Kind    string   `json:"kind"`    // as of a ConfChange: "add-voter", "add-learner", "remove"
	Member  MemberID `json:"member"`
	Why     string   `json:"why"`
}

// MemberLog is what one data directory holds: whose it is, and how far it goes.
type MemberLog struct {
	Machine   string   `json:"machine"`
	Disk      int      `json:"disk"` // the machine's nth disk
	Member    MemberID `json:"member"`
	ClusterID uint64   `json:"cluster"`
	First     uint64   `json:"first"` // lowest raft index in the WAL
	Last      uint64   `json:"last"`
	Term      uint64   `json:"term"`
	Forced    uint64   `json:"forced,omitempty"` // the entry from which it is that of a ring of one, as --force-new-cluster makes it; 0: it isn't
	Err       string   `json:"err,omitempty"`
}

// Hash is a member's HashKV at a revision.
type Hash struct {
	Machine  string   `json:"machine"`
	Member   MemberID `json:"member"`
	Version  string   `json:"version"` // hashes compare only within the releases that hash alike
	Revision int64    `json:"revision"`
	Compact  int64    `json:"compact"`
	Hash     uint32   `json:"hash"`
	Err      string   `json:"err,omitempty"`
}

// Budget is one line of the fairness ledger's timeline: a loss that was charged
// or refused, or what gave budget back. Used and Left are of the configuration,
// among those that could still commit, that is worst off.
type Budget struct {
	At   Instant `json:"at"`
	What string  `json:"what"`
	Used int     `json:"used"` // voters whose log is lost
	Left int     `json:"left"` // how many more may be lost; negative: the quorum is gone
}

// String prints one line.
func (b Budget) String() string {
	return fmt.Sprintf("%9.3fs  used %d, left %d  %s", b.At.Seconds(), b.Used, b.Left, b.What)
}

// Port is what a member's port does with somebody who has no right to it.
type Port struct {
	Machine string `json:"machine"`
	Admits  bool   `json:"admits,omitempty"` // it takes a client's certificate for a peer's, or answers who shows none
	Plain   bool   `json:"plain,omitempty"`  // it answers who speaks plain text
	Err     string `json:"err,omitempty"`    // why that is not known
}

// Talk is when the etcd of one machine has last spoken to that of another as its peer, in
// each way; 0: it never did.
type Talk struct {
	From  string  `json:"from"`
	To    string  `json:"to"`
	Plain Instant `json:"plain,omitempty"`
	TLS   Instant `json:"tls,omitempty"`
}

// Claim is what holds the data of a machine's member on Kubernetes.
type Claim struct {
	Machine string   `json:"machine"`
	Name    string   `json:"name,omitempty"`   // as kubectl has it: "pvc default/data-r-0"
	Ending  []Object `json:"ending,omitempty"` // the claim, its volume: what is being deleted, and goes when nobody uses it
	Err     string   `json:"err,omitempty"`    // why that is not known
}

// Object is one of Kubernetes', and not whatever has its name next.
type Object struct {
	Name string `json:"name"` // as kubectl has it
	UID  string `json:"uid"`
}

// EtcdProcess is an etcd, and how it was started.
type EtcdProcess struct {
	Machine  string            `json:"machine"`
	Releases []string          `json:"releases"`      // those of the plan whose program it runs; none: not known
	Flags    map[string]string `json:"flags"`         // by name, without dashes; one without a value is "true"
	Err      string            `json:"err,omitempty"` // why they are not known
}

// Ending is what came of a ring that was deleted.
type Ending struct {
	Took  Duration `json:"took"`            // from the deletion until nothing was left, or until nobody waited any more
	Left  []string `json:"left,omitempty"`  // objects that were left then, as kubectl names them
	Fault string   `json:"fault,omitempty"` // the evidence of the fault that was in force; "": none was
	Err   string   `json:"err,omitempty"`   // why it is not known what was left
}

// Output is what was heard of what the subject and its etcds print on a machine.
type Output struct {
	Machine string `json:"machine"`
	Lines   int    `json:"lines"`         // that were looked through
	Key     string `json:"key,omitempty"` // how the first of them begins that has a private key in it, up to that; "": none has
	Err     string `json:"err,omitempty"` // why it could not be looked through
}

// Objects is what was seen of a cluster's objects that are no Secrets: who may not read those reads
// these.
type Objects struct {
	Seen int      `json:"seen"`           // that were looked through
	Keys []string `json:"keys,omitempty"` // those with a private key, as kubectl names them
	Err  string   `json:"err,omitempty"`  // why they could not be looked through, or not all of them
}

// Backup is what a file holds in which the subject has written what the ring held.
type Backup struct {
	Asked    Instant `json:"asked"`    // when the subject was asked for it
	Made     Instant `json:"made"`     // when it said that it was done
	Revision int64   `json:"revision"` // up to which the file goes
	Keys     []KV    `json:"keys"`
	Err      string  `json:"err,omitempty"` // why nothing can be made of the file
}

// String prints a backup: "revision 42, 12 keys", or why there is none.
func (b Backup) String() string {
	if b.Err != "" {
		return "a file that holds no backup: " + b.Err
	}
	return fmt.Sprintf("revision %d, %s", b.Revision, Counted(len(b.Keys), "key"))
}

// Evidence is what is read once, at the end of a run.
type Evidence struct {
	Final       Observation    `json:"final"`
	Spec        int            `json:"spec"`               // voters last asked for and not refused
	Vacant      []string       `json:"vacant,omitempty"`   // machines that were last asked to hold no member
	Changes     []ConfChange   `json:"changes"`            // in raft order
	Gap         string         `json:"gap,omitempty"`      // why Changes ends before the ring's log does; "": it doesn't
	Rejected    []Rejection    `json:"rejected,omitempty"` // in the order of time
	Logs        []MemberLog    `json:"logs"`
	Hashes      []Hash         `json:"hashes"`
	Dump        []KV           `json:"dump"`                  // the whole keyspace by a linearizable range
	Revision    int64          `json:"revision"`              // of Dump
	Surviving   []string       `json:"surviving,omitempty"`   // disaster mode: values found on the disks that are left
	PeerPorts   []Port         `json:"peerPorts,omitempty"`   // of a ring with certificates, tried with a client's
	ClientPorts []Port         `json:"clientPorts,omitempty"` // of a ring with certificates, tried with none
	Talks       []Talk         `json:"talks,omitempty"`       // of members to their peers, where these moved to TLS, as the network has seen them
	Statuses    []Status       `json:"statuses,omitempty"`    // of the ring's object on Kubernetes, as read every few seconds
	Claims      []Claim        `json:"claims,omitempty"`      // of machines that run an etcd on Kubernetes
	Etcds       []EtcdProcess  `json:"etcds,omitempty"`       // that run at the end
	Asked       map[string]Own `json:"asked,omitempty"`       // by machine: the release and the flags that its etcd was last asked to have; no entry: not known
	Unlike      []string       `json:"unlike,omitempty"`      // what of the ring's objects on Kubernetes is otherwise than was asked for
	Leftovers   []string       `json:"leftovers"`             // processes or mounts that outlived Close
	Backups     []Backup       `json:"backups,omitempty"`     // that the subject was asked for and said to have made
	End         *Ending        `json:"end,omitempty"`         // of the ring, where the plan has it deleted
	Budget      []Budget       `json:"budget,omitempty"`      // the fairness ledger's timeline
	Unknown     []string       `json:"unknown,omitempty"`     // what could not be read, and why
	Mute        []string       `json:"mute,omitempty"`        // machines whose etcd printed nothing that was found: nobody knows how it ended
	Outputs     []Output       `json:"outputs,omitempty"`     // of machines whose agent or etcd ran
	Objects     *Objects       `json:"objects,omitempty"`     // of a cluster; nil: there is none
	Starved     Starved        `json:"starved,omitempty"`     // when the host kept the run waiting
	Pressure    Pressure       `json:"pressure,omitempty"`    // how long somebody on the host waited, by what for
}
