// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package ring decides what a ring should do next. It is pure: values in, one
// Decision out, no clock, no client, no log. The Kubernetes controller and
// ringadm auto run the same Next, so it speaks of machines, disks and members
// and never of how a machine is hosted.
package ring

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// ID is etcd's member ID; it prints in hex, as etcdctl prints it.
type ID uint64

// String prints 8e9e05c52164694d.
func (id ID) String() string { return fmt.Sprintf("%x", uint64(id)) }

// Member is one entry of the ring's membership, with what is known of it.
type Member struct {
	ID      ID
	Name    string // "" until it has started
	Machine string // whose peer URL it has; "" when it is no machine of ours
	Disk    string // the disk it was started on, and the only one it may start on; "" when nobody bound it yet
	PeerURL string
	Learner bool
	Serving bool          // it answers, and knows a leader
	Silent  time.Duration // how long it hasn't answered the observer; 0 when Serving
	Ready   bool          // a learner that is caught up with the leader
	Leader  bool
}

// Started tells whether the member has ever joined: etcd learns a member's
// name from the member itself.
func (m Member) Started() bool { return m.Name != "" }

// String prints m2 (8e9e05c52164694d).
func (m Member) String() string {
	if m.Machine == "" {
		return m.ID.String()
	}
	return fmt.Sprintf("%s (%s)", m.Machine, m.ID)
}

// Machine is what one member runs on: an address and a disk.
type Machine struct {
	Name    string
	PeerURL string
	Disk    string        // the disk that is in it now
	Present bool          // its agent holds its lease in the ring
	Absent  time.Duration // how long the observer has not seen it; 0 when Present
	Able    bool          // it can run the ring's etcd release
}

// Spec is what was asked for.
type Spec struct {
	Nodes        int           // voters
	Retire       []string      // machines that must lose their member
	Paused       bool          // leave everything as it is
	ReplaceAfter time.Duration // how long a machine may be absent before a spare takes its place
	// AddWhileSilent says that etcd lets a member be added while a voter doesn't
	// answer, as long as the others are a quorum of one more. Releases before
	// v3.5.31, v3.6.12 and v3.7.0 refuse it (etcd#21640).
	AddWhileSilent bool
}

// Observed is what the one who decides could see. Listed is false when the
// member list could not be read with a quorum: then nothing is known, which is
// never the same as nothing being there.
type Observed struct {
	Listed   bool
	Why      string // when not Listed
	Members  []Member
	Machines []Machine
}

// Quorum is the majority of n voters.
func Quorum(n int) int { return n/2 + 1 }

// Voters returns the members that vote.
func (o Observed) Voters() []Member {
	return where(o.Members, func(m Member) bool { return !m.Learner })
}

// serving counts the voters that answer.
func (o Observed) serving() int {
	return len(where(o.Voters(), func(m Member) bool { return m.Serving }))
}

// machine returns the machine of that name.
func (o Observed) machine(name string) (Machine, bool) {
	i := slices.IndexFunc(o.Machines, func(m Machine) bool { return m.Name == name })
	if i < 0 {
		return Machine{}, false
	}
	return o.Machines[i], true
}

// lostDisk tells whether another disk is known to be in the member's machine
// than the one the member lives on. An absent machine's disk is unknown, and so
// is one that its machine doesn't name.
func (o Observed) lostDisk(m Member) bool {
	machine, ok := o.machine(m.Machine)
	return ok && machine.Present && m.Disk != "" && machine.Disk != "" && machine.Disk != m.Disk
}

// gone tells whether the member's machine has been absent for so long that a
// spare should take its place.
func (o Observed) gone(m Member, spec Spec) bool {
	machine, ok := o.machine(m.Machine)
	return ok && !machine.Present && machine.Absent > spec.ReplaceAfter && !m.Serving && m.Silent > spec.ReplaceAfter
}

// spare returns the first machine, by name, that a member could be added on.
func (o Observed) spare(spec Spec) (Machine, bool) {
	used := map[string]bool{}
	for _, m := range o.Members {
		used[m.Machine] = true
	}
	for _, m := range o.Machines {
		if m.Present && m.Able && m.Disk != "" && !used[m.Name] && !slices.Contains(spec.Retire, m.Name) {
			return m, true
		}
	}
	return Machine{}, false
}

func where(members []Member, keep func(Member) bool) []Member {
	var kept []Member
	for _, m := range members {
		if keep(m) {
			kept = append(kept, m)
		}
	}
	return kept
}

// Role is a member and whether it votes.
type Role struct {
	ID      ID
	Learner bool
}

// Roles lists the members' roles by ID. A removal that was decided on for a
// learner is another's when it votes.
func Roles(members []Member) []Role {
	roles := []Role{}
	for _, m := range members {
		roles = append(roles, Role{m.ID, m.Learner})
	}
	slices.SortFunc(roles, func(a, b Role) int { return cmp.Compare(a.ID, b.ID) })
	return roles
}
