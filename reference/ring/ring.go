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
	"strings"
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
	Log     uint64 // a raft index up to which its log was on that disk; 0: nobody has said
	PeerURL string
	Learner bool
	Serving bool          // it answers, and knows a leader
	Silent  time.Duration // how long it hasn't answered the observer; 0 when Serving
	Ready   bool          // a learner that is caught up with the leader
	Leader  bool
	Version Version  // the release that it runs, by its own last word; "" when it is not known
	Release Version  // the release that it is to run, by its record; "" when none says so
	Peers   Security // how its etcd listens for peers, by the flags of the one that served last; "" when it is not known
	Listen  Security // how it is to listen for them, by its record; "" when none says so
	Schema  string   // the minor that its files are of, by its own word, "v3.6"; "" before v3.6, and until it is known
	Applied uint64   // the raft index of the last entry that it has applied; 0 until it is known
	Lag     uint64   // entries that others have and it has not applied yet
}

// Started reports whether the member has ever joined: etcd learns a member's
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
	Absent  time.Duration // how long the observer has not seen it, or seen only another of its name than its member lives on; else 0
	// Static: its member runs without a launcher, by flags of its own, on a disk that
	// nobody has named: it is to be made anew with one.
	Static bool
	// Unsteady: an etcd that was started there ended by itself, and none has run for long
	// since. One that is seen to serve may have ended by the time it is counted on.
	Unsteady bool
	// Ending: who hosts it is ending its member in good order, which may serve until then.
	Ending bool
	// Lost: no disk that was ever in it comes back, which is known and not guessed: the
	// volume was deleted, or the node that held it. Nothing is added here until another
	// is in it.
	Lost bool
	// Used: an etcd has run on the disk that is in it. Once its member has left it is emptied,
	// and is another disk, before the next is added: until then the old etcd may run on, and
	// a leader that it refuses for the new one takes itself for removed, and ends.
	Used     bool
	Failing  string    // why no etcd starts on it, by its own word; "" when one does, for all that is known
	Versions []Version // the releases of etcd that it has

	Spoiled ID // the member whose log there may never run again; 0: none

	// ToldV2: it has told whether the log of its member has requests of etcd's v2 API in it
	// since the last snapshot, which it does once the ring is of v3.6. V2 is the raft index
	// of the last; 0: there is none.
	ToldV2 bool
	V2     uint64

	Told       bool // it was asked whose log its disk holds, as a record is missing, and has told
	Holds      ID   // whose; 0: none
	Registered bool // the store knows it, at this address, as one of the ring's
}

// Spec is what was asked for.
type Spec struct {
	Nodes         int                // voters
	Version       Version            // what members run, once it was their turn
	From          Version            // what they ran when Version was asked for; "": no other was ever
	Then          Version            // what is asked for after Version, which is on the way there; "": Version is all
	Own           map[string]Version // what members run on single machines, instead
	Encrypt       bool               // peers spoke plain text, and are to speak TLS
	SnapshotCount uint64             // entries from one raft snapshot to the next; 0: etcd's default
	Restart       map[string]string  // machines that are to restart their member in its turn, and why
	Pending       string             // what the machines' keeper waits for, though the ring is as asked for; "": nothing
	Decommission  []string           // machines that must lose their member, for good
	Paused        bool               // leave everything as it is
	ReplaceAfter  time.Duration      // how long a machine may be absent before a spare takes its place
}

// VersionOf returns the release that a member on the machine runs in the end.
func (s Spec) VersionOf(machine string) Version { return cmp.Or(s.Own[machine], s.Version) }

// before returns the release that a member on the machine runs before its turn to be
// upgraded.
func (s Spec) before(machine string) Version {
	return cmp.Or(s.Own[machine], s.From, s.Version)
}

// joins is the release that a member begins with which is added on the machine now: where
// an upgrade is under way, the newest of those that serve. It has proved itself, and who
// comes with an older one may be let in no more.
func (o Observed) joins(spec Spec, machine string) Version {
	newest := spec.From
	for _, m := range o.Voters() {
		if m.Serving && spec.Own[m.Machine] == "" && m.Version.Compare(newest) > 0 {
			newest = m.Version
		}
	}
	if spec.From == "" {
		newest = spec.Version
	}
	return cmp.Or(spec.Own[machine], newest)
}

// Observed is what the one who decides could see. Listed is false when the
// member list could not be read with a quorum: then nothing is known, which is
// never the same as nothing being there.
type Observed struct {
	Listed   bool
	Why      string        // when not Listed
	Unread   time.Duration // how long it could not be, as far as the observer knows
	Members  []Member
	Machines []Machine
	Recorded int  // members that are on record, and listed
	Missing  []ID // members that are on record and not listed, and that nobody let go
	Alarms   []Alarm
	Bytes    int64 // of the keyspace file of whoever has the largest, which a new member is sent; 0: not known
}

// Alarm is one that stands in etcd. It outlives its member.
type Alarm struct {
	Kind   string // NoSpace or Corrupt
	Member ID     // 0: etcd names none
}

// The alarms of etcd. Neither lets it write: not what takes room, and not anything.
const (
	NoSpace = "NOSPACE"
	Corrupt = "CORRUPT"
)

// Whole reports whether a list names enough of the members on record to be their ring's:
// a majority of them agreed to whatever made it.
func Whole(listed int, missing []ID) bool {
	return listed > 0 && listed >= Quorum(listed+len(missing))
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

// lostDisk reports whether the disk that the member lives on is known to be lost, or
// another to be in its machine, or its log to be one that may never run again. An absent machine's disk is unknown, and so
// is one that its machine doesn't name, or that is at another address.
func (o Observed) lostDisk(m Member) bool {
	machine, ok := o.machine(m.Machine)
	switch {
	case !ok || !machine.at(m):
		return false
	case machine.Lost:
		return true
	case !machine.Present:
		return false
	case machine.Spoiled == m.ID:
		return true
	case m.Disk == "":
		return m.Started() && machine.Told && machine.Holds != m.ID && !m.Serving
	}
	return machine.Disk != "" && machine.Disk != m.Disk
}

// DisplacedBy reports whether x, which has the name of the member's machine, is
// another: at another address, with another disk. It may be the machine that takes
// the other's place, or a clone: it says nothing of the member's own machine, but
// that it isn't heard of. m2 is cloned, and goes off for a while: who took the
// clone's word for m2's removed a voter whose log was whole, and beside a learner at
// that, as is right for a voter that can never vote again.
func (m Member) DisplacedBy(x Machine) bool {
	return x.Present && m.Disk != "" && x.Disk != "" && x.Disk != m.Disk && !x.at(m)
}

func (o Observed) displaced(m Member) bool {
	machine, ok := o.machine(m.Machine)
	return ok && m.DisplacedBy(machine)
}

// at reports whether the machine has the member's address.
func (x Machine) at(m Member) bool { return SameAddress(m.PeerURL, x.PeerURL) }

// own returns the machine that the member lives on, unless another has its name.
func (o Observed) own(m Member) (Machine, bool) {
	machine, ok := o.machine(m.Machine)
	if !ok || o.displaced(m) {
		return Machine{}, false
	}
	return machine, true
}

// begins is the release that a member's record says when it is bound: what it runs, or, if
// it never has, what a new member begins with. Where no other was ever asked for the
// record says nothing.
func (o Observed) begins(spec Spec, m Member) Version {
	switch {
	case spec.From == "" || spec.Own[m.Machine] != "":
		return ""
	case m.Started():
		return m.Version
	}
	return o.joins(spec, m.Machine)
}

// addsWhileSilent reports whether etcd adds a member now that a voter is silent:
// whichever of the others is asked, by the release that it runs.
func (o Observed) addsWhileSilent(spec Spec) bool {
	return !slices.ContainsFunc(o.Members, func(m Member) bool {
		return m.Serving && !cmp.Or(m.Version, spec.before(m.Machine)).addsWhileSilent()
	})
}

// heir reports whether another machine has the name of the member's and could have
// its member: it is no spare before that one has left.
func (o Observed) heir(m Member, spec Spec) bool {
	machine, _ := o.machine(m.Machine)
	return o.displaced(m) && o.takes(machine, spec)
}

// gone reports whether the member's machine has been absent for so long that a
// spare should take its place. One without a launcher says nothing, absent or not.
func (o Observed) gone(m Member, spec Spec) bool {
	machine, ok := o.machine(m.Machine)
	away := !machine.Present && !machine.Static || o.displaced(m)
	return ok && away && machine.Absent > spec.ReplaceAfter && !m.Serving && m.Silent > spec.ReplaceAfter
}

// unfit reports whether the member's machine is here and says that no etcd starts
// on it, for longer than a machine that is away would be waited for: whoever is
// there can mend it. Its word is needed: by a clock that runs away every voter that
// is restarted has been silent for long. Of what it was told the machine is not to blame.
func (o Observed) unfit(m Member, spec Spec) bool {
	machine, ok := o.own(m)
	return ok && machine.Present && machine.Failing != "" && !o.toldWrong(m) && !m.Serving && m.Silent > 3*spec.ReplaceAfter
}

// spare returns the first machine, by name, that a member could be added on.
func (o Observed) spare(spec Spec) (Machine, bool) {
	for _, m := range o.free(spec) {
		if o.takes(m, spec) {
			return m, true
		}
	}
	return Machine{}, false
}

// free lists the machines that are there for a member and have none.
func (o Observed) free(spec Spec) []Machine {
	used := map[string]bool{}
	for _, m := range o.Members {
		used[m.Machine] = true
	}
	var free []Machine
	for _, m := range o.Machines {
		if m.offers(spec) && !used[m.Name] {
			free = append(free, m)
		}
	}
	return free
}

// lacking says which machines are free and are no spares: "; m4 has no etcd v3.6.16".
func (o Observed) lacking(spec Spec) string {
	var text strings.Builder
	for _, m := range o.free(spec) {
		if v := o.joins(spec, m.Name); !m.has(v) {
			fmt.Fprintf(&text, "; %s has no etcd %s", m.Name, v)
		}
	}
	return text.String()
}

// takes reports whether a member could be added on the machine.
func (o Observed) takes(x Machine, spec Spec) bool {
	return x.offers(spec) && x.has(o.joins(spec, x.Name))
}

// offers reports whether the machine is there for a member, of whatever release.
func (x Machine) offers(spec Spec) bool {
	return x.Present && !x.Lost && x.Failing == "" && x.Disk != "" && !x.Used && !slices.Contains(spec.Decommission, x.Name)
}

func (x Machine) has(v Version) bool { return slices.Contains(x.Versions, v) }

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
