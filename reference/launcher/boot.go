// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package launcher is one machine's part in a ring: its disk, its certificates, its
// etcd, and that the ring knows it to be there. Who leads the ring, and where the
// machine learned of it, is no concern of it. Decide says how etcd starts, and is
// pure; Launcher carries out what it says.
package launcher

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// Evidence is all that a machine goes by when its etcd is down. A pointer that
// is nil means: positively not there. What could not be read is in Unknown.
type Evidence struct {
	Machine  string
	Disk     string    // this disk's ID
	Launched bool      // an etcd was started on this disk before
	Strange  bool      // no etcd was ever to be started on this disk, for all that it says: a log on it was made elsewhere
	Ran      ring.ID   // the member that ran on this disk last, or was to be started on it; 0: not known
	WAL      *host.WAL // whose log the disk holds
	Damaged  string    // the log is there, and it or its keyspace can't be read to its end: why
	Lost     string    // by which the etcd that ran on the log knew that it ends too early; "": it didn't
	Spoiled  ring.ID   // whose log on this disk may never run again, as was found before; 0: nobody's
	Accepted uint64    // a raft index up to which the log is the ring's by a person's word, whoever made it that of a ring of one; 0: none

	Listed   bool // the member list was read with a quorum
	Why      string
	Cluster  uint64 // the ID of this ring; 0: not known
	Members  []ring.Member
	LetGo    bool   // the member whose log the disk holds has left for certain, if it isn't listed
	Recorded int    // members that are listed and on record; 0: the records are missing
	Applied  uint64 // the raft index that who answers for a ring which doesn't list the log's member has come to; 0: not known

	Unnamed  string          // why whoever looks this machine up by its name doesn't find it yet; "": it is found, or has no name
	Identity *store.Identity // the ring's bootstrap record
	Formed   bool            // the ring has answered, once
	Unknown  string          // why the two above could not be read
}

// Do is what a launcher does next.
type Do string

// What a launcher does.
const (
	Start  Do = "start"
	Wait   Do = "wait"
	Clear  Do = "clear"  // remove the data of a member that has left the ring
	Disown Do = "disown" // give the disk a new ID: what it held is gone
	Halt   Do = "halt"
)

// State is etcd's --initial-cluster-state, or Resume for a disk with a log,
// where etcd ignores it.
type State string

// The states.
const (
	Resume   State = "resume"
	New      State = "new"
	Existing State = "existing"
)

// Boot is a decision.
type Boot struct {
	Do      Do
	State   State    // Start
	Cluster []string // Start: name=peer-url of every member
	Token   string   // Start: --initial-cluster-token; "" when etcd ignores it
	Member  ring.ID  // Start: whose log it will be
	Spoils  ring.ID  // Halt: the member on this disk that must be replaced, as its log may never run again
	Why     string
}

// String prints "start (existing): …".
func (b Boot) String() string {
	if b.Do == Start {
		return fmt.Sprintf("%s (%s): %s", b.Do, b.State, b.Why)
	}
	return fmt.Sprintf("%s: %s", b.Do, b.Why)
}

// Decide goes by the log on the disk and by the member list, never by
// directory names or flags.
//
// An ID whose log is gone never starts again: raft trusts a member to remember
// its votes and what it acknowledged. Leader 1 and member 2 commit X while 3
// is cut off; 2 loses its log and starts again under its ID; it votes for 3,
// and X is gone. And --initial-cluster-state=new is used only while no ring
// has ever answered: two initial members that start anew on empty disks are a quorum
// of an empty ring (etcd#12227). That the ring has answered is noted in the
// store, which may be full, so an initial member's disk on which an etcd ran never starts
// anew either: initial members 1 and 2 commit X while 3 is off and the note can't be
// written; both lose power, and 2 its log. Started as new it would be, with 3, a
// quorum that has never heard of X.
//
// An initial member on whose disk no etcd was ever to be started has promised nothing under its ID,
// and is as one that has been down since the bootstrap: it starts late, as an initial member, also
// where the ring has answered and does no more. Initial members 1 to 4 of seven make the ring, and
// 1 loses its disk: without 5 to 7 no quorum comes back, and none is there to bind them.
func Decide(e Evidence) Boot {
	switch {
	case e.Damaged != "":
		return withDamage(e)
	case e.WAL != nil:
		return withLog(e)
	case e.Listed:
		return withList(e)
	default:
		return withNothing(e)
	}
}

// withDamage has the member replaced whose log or keyspace can't be read, by what its record says,
// and sets the log aside once it has left, whoever let it go. Where the record is gone it
// is the member at this machine's address: should its log be elsewhere, it isn't on this
// disk, and its ID may run here no more either way.
func withDamage(e Evidence) Boot {
	why := "the data on this disk can't be read: " + e.Damaged
	m, in := member(e, func(m ring.Member) bool { return m.Machine == e.Machine && (m.Disk == e.Disk || m.Disk == "") })
	switch {
	case in:
		return Boot{Do: Halt, Spoils: m.ID, Why: why}
	case e.Listed && e.Spoiled != 0 && e.LetGo:
		return Boot{Do: Clear, Why: fmt.Sprintf("member %s has left the ring, and its data can't be read", e.Spoiled)}
	case e.Listed && e.LetGo && !e.Strange && boundElsewhere(e.Members):
		return Boot{Do: Clear, Why: "the data on this disk can't be read, and every member of the ring lives on another"}
	}
	return Boot{Do: Halt, Why: why}
}

// boundElsewhere reports whether each member is bound to a disk; to another than the one
// that the caller has looked for in vain.
func boundElsewhere(members []ring.Member) bool {
	return !slices.ContainsFunc(members, func(m ring.Member) bool { return m.Disk == "" })
}

// withLog starts the member whose log it is, unless the ring has let it go, or it
// lives elsewhere. Somebody copies m2's data to m6 and starts the agent there, with
// m2 running: one ID would run twice, and what the one has acknowledged the other
// has never heard of. A
// list that can't be read decides nothing: after a power loss every member
// starts like this, and there is no list before they have. Only a log that no etcd
// of this disk can have made waits for the list. One of a member that the ring began with
// before it had launchers is no such: all three get theirs, and lose their power before
// one has run; who waited for the list then would wait for himself.
func withLog(e Evidence) Boot {
	if e.Cluster != 0 && e.WAL.Cluster != e.Cluster {
		return Boot{Do: Halt, Why: fmt.Sprintf("the disk holds the log of member %x of ring %x, and this is ring %x: it may be the last copy of the other", e.WAL.Member, e.WAL.Cluster, e.Cluster)}
	}
	m, in := member(e, func(m ring.Member) bool { return uint64(m.ID) == e.WAL.Member })
	switch {
	case e.Listed && !in:
		return unlisted(e)
	case e.Listed && m.Disk != "" && (m.Disk != e.Disk || m.Machine != e.Machine):
		return Boot{Do: Halt, Why: fmt.Sprintf("the disk holds a log of member %x, which lives on disk %s of machine %s, and this is disk %s of %s: it is a copy. Remove the member first to have another take its place here, or empty this disk", e.WAL.Member, m.Disk, m.Machine, e.Disk, e.Machine)}
	case e.Listed && m.Disk == "" && m.Machine != "" && m.Machine != e.Machine:
		return Boot{Do: Wait, Why: fmt.Sprintf("the disk holds a log of member %x, whose record is missing and whose address is that of %s: it may be a copy", e.WAL.Member, m.Machine)}
	case !e.Listed && e.Strange && e.Identity == nil && e.Unknown == "":
		return Boot{Do: Halt, Why: fmt.Sprintf("the disk holds the log of member %x of ring %x, which another etcd has written, and no ring is bootstrapped here: nothing is started and nothing bootstrapped on it. To take that ring over see ringadm adopt; to give the disk to the ring of this store, move the directory %s away", e.WAL.Member, e.WAL.Cluster, DataDir)}
	case !e.Listed && e.Ran != 0 && uint64(e.Ran) != e.WAL.Member:
		return Boot{Do: Wait, Why: fmt.Sprintf("the disk holds a log of member %x, and it was %s that ran here: it may be a copy; where the member lives the list would tell, and it can't be read: %s", e.WAL.Member, e.Ran, e.Why)}
	case !e.Listed && e.Strange && !e.began():
		return Boot{Do: Wait, Why: fmt.Sprintf("the disk holds a log of member %x, and never said that one ran here: it may be a copy; where the member lives the list would tell, and it can't be read: %s", e.WAL.Member, e.Why)}
	case e.WAL.Forced > e.Accepted:
		return Boot{Do: Halt, Spoils: m.ID, Why: fmt.Sprintf("somebody made the log on this disk that of a ring of one (--force-new-cluster): member %x is alone in it from %d to %d, and what the others have acknowledged since is not there", e.WAL.Member, e.WAL.Forced, e.WAL.Last)}
	case e.Lost != "":
		return Boot{Do: Halt, Spoils: m.ID, Why: fmt.Sprintf("the log of member %x on this disk has forgotten what the member acknowledged, as the leader knows: %s", e.WAL.Member, e.Lost)}
	case e.WAL.Last < m.Log:
		return Boot{Do: Halt, Spoils: m.ID, Why: fmt.Sprintf("the log of member %x on this disk goes up to %d, and went up to %d before: the disk was put back from an older copy, and has forgotten what the member acknowledged", e.WAL.Member, e.WAL.Last, m.Log)}
	}
	return Boot{Do: Start, State: Resume, Member: ring.ID(e.WAL.Member), Why: fmt.Sprintf("the disk holds the log of member %x up to %d", e.WAL.Member, e.WAL.Last)}
}

// began reports whether the log is of the member that the ring began with here, before it
// had launchers.
func (e Evidence) began() bool {
	return e.Identity != nil && e.Identity.Began(e.Machine, e.WAL.Member)
}

// unlisted sets aside what a member left that has left for certain. A list without the
// member is not enough: a ring of one gives it with a quorum too.
func unlisted(e Evidence) Boot {
	switch {
	case e.WAL.Left || e.LetGo:
		return Boot{Do: Clear, Why: fmt.Sprintf("member %x has left the ring", e.WAL.Member)}
	case e.Recorded == 0:
		return Boot{Do: Wait, Why: fmt.Sprintf("member %x is not listed, and whether somebody let it go can't be told: the ring's records are missing", e.WAL.Member)}
	}
	return Boot{Do: Halt, Why: fmt.Sprintf("the ring that answers doesn't list member %x, whose log up to %d is on this disk, and nobody is on record to have let it go: if that ring was begun anew from one member (--force-new-cluster), this log may hold more, and %s. Nothing here is touched; if the member is to go, ringadm reset %x sets its log aside", e.WAL.Member, e.WAL.Last, e.ahead(), e.WAL.Member)}
}

// ahead says which of the two goes further, the log on the disk or the ring that doesn't list its
// member: not by how much, which changes while somebody writes.
func (e Evidence) ahead() string {
	switch {
	case e.Applied == 0:
		return "which of the two goes further is not known"
	case e.WAL.Last > e.Applied:
		return "it goes further than that ring"
	}
	return "that ring has gone further than it"
}

// withList starts a member that has never run where its peers find it by its name: etcd joins
// by asking them who the others are, and they take no connection from an address that its
// certificate's names don't lead to (listener_tls.go). Refused, it ends. A pod that was made
// just after the API server came back had no name for ten seconds, and its etcd ended again and
// again. One with a log serves its peers' connections meanwhile, and waits for nobody.
func withList(e Evidence) Boot {
	m, in := member(e, func(m ring.Member) bool { return m.Machine == e.Machine })
	switch {
	case !in && e.Launched:
		return Boot{Do: Disown, Why: "an etcd ran on this disk, its log is gone, and no member of the ring is on this machine"}
	case !in:
		return Boot{Do: Wait, Why: "no member of the ring is on this machine"}
	case m.Disk == "":
		return Boot{Do: Wait, Why: fmt.Sprintf("member %s is bound to no disk yet", m.ID)}
	case m.Disk != e.Disk:
		return Boot{Do: Wait, Why: fmt.Sprintf("member %s lives on disk %s, and this is %s: it must be replaced", m.ID, m.Disk, e.Disk)}
	case e.Launched:
		return Boot{Do: Disown, Why: fmt.Sprintf("member %s ran on this disk, and its log is gone", m.ID)}
	case m.Log > 0:
		return Boot{Do: Disown, Why: fmt.Sprintf("member %s ran on this disk up to %d, and nothing here tells of that: the disk was put back as it was before", m.ID, m.Log)}
	case e.Unnamed != "":
		return Boot{Do: Wait, Why: fmt.Sprintf("member %s has never run, and its peers would not find it by name: %s", m.ID, e.Unnamed)}
	}
	return Boot{Do: Start, State: Existing, Member: m.ID, Cluster: cluster(e.Members), Why: fmt.Sprintf("member %s is bound to this disk and has never run", m.ID)}
}

func withNothing(e Evidence) Boot {
	switch {
	case e.Unknown != "":
		return Boot{Do: Wait, Why: "empty disk, unreadable member list (" + e.Why + "), and the store can't tell whether a ring exists: " + e.Unknown}
	case e.Identity == nil:
		return Boot{Do: Wait, Why: "no ring has been bootstrapped yet"}
	case e.Formed && !e.Strange:
		return Boot{Do: Wait, Why: "empty disk, and the member list can't be read: " + e.Why}
	case e.Launched:
		return Boot{Do: Wait, Why: "an etcd ran on this disk, and its log is gone; whether its member may be replaced the member list would tell, and it can't be read: " + e.Why}
	}
	var initialMembers []string
	var ours ring.ID
	for _, f := range e.Identity.Members {
		initialMembers = append(initialMembers, f.Name+"="+f.PeerURL)
		if f.Machine == e.Machine && f.Disk == e.Disk {
			ours = ring.ID(e.Identity.MemberID(f))
		}
	}
	if ours == 0 {
		return Boot{Do: Wait, Why: "this disk is not among the initial members', and the member list can't be read: " + e.Why}
	}
	why := "the bootstrap record names this disk, and no ring has answered yet"
	if e.Formed {
		why = "the bootstrap record names this disk, and no etcd ever ran on it; the member list can't be read: " + e.Why
	}
	return Boot{Do: Start, State: New, Member: ours, Cluster: initialMembers, Token: e.Identity.Token, Why: why}
}

// unstarted reports whether a member is to run on this disk, and never has.
func (e Evidence) unstarted() bool {
	_, in := member(e, func(m ring.Member) bool { return m.Machine == e.Machine && m.Disk == e.Disk })
	return in && e.WAL == nil && e.Damaged == "" && !e.Launched
}

// unheardOf reports whether the ring that answers doesn't list the member whose log the disk holds.
func (e Evidence) unheardOf() bool {
	if !e.Listed || e.WAL == nil {
		return false
	}
	_, in := member(e, func(m ring.Member) bool { return uint64(m.ID) == e.WAL.Member })
	return !in
}

// member returns the first listed member that is such.
func member(e Evidence, is func(ring.Member) bool) (ring.Member, bool) {
	for _, m := range e.Members {
		if e.Listed && is(m) {
			return m, true
		}
	}
	return ring.Member{}, false
}

// cluster lists every member as --initial-cluster wants it: etcd compares
// number and URLs with what its peers say. A member that has not started has
// no name yet; its machine's will be its name.
func cluster(members []ring.Member) []string {
	var all []string
	for _, m := range members {
		name := m.Name
		if name == "" {
			name = m.Machine
		}
		all = append(all, named(name, strings.Split(m.PeerURL, ","))...)
	}
	return all
}
