// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// Attend keeps this machine present in the ring that was seen. An etcd whose member is
// no longer in it is stopped.
func (l *Launcher) Attend(ctx context.Context, look *Look) error {
	if err := l.leave(ctx, look.View, look.running); err != nil {
		return err
	}
	l.accept(*look)
	l.Known.Members, l.Known.Answered = look.View.ClientURLs(), true
	l.remember()
	if l.log.DryRun {
		return nil
	}
	if err := l.Lease.Keep(ctx, l.Ring); err != nil {
		return err
	}
	if err := l.Ring.Present(ctx, l.presence(look.View), look.View, l.Lease.ID); err != nil {
		return err
	}
	return l.tellLog(ctx, look)
}

// accept notes on the disk that its log is the ring's by a person's word, if the member here
// itself has answered that: of two rings that were made of one each has its own. Whether its
// etcd is one that this launcher started is no matter; a person may have.
func (l *Launcher) accept(look Look) {
	id, _, lives := recordOf(look.View, l.Machine, l.disk.ID)
	if !lives || look.View.Answered != id || look.View.Accepted <= l.disk.Accepted {
		return
	}
	d := l.disk
	if d.Accepted = look.View.Accepted; d.Spoiled == id {
		d.Spoiled = 0
	}
	if err := d.write(l.host); err != nil {
		l.log.Say(host.EventTrouble, fmt.Sprintf("noting on the disk that this ring is the ring by a person's word: %v; without it no etcd starts here while nobody answers", err))
		return
	}
	l.disk = d
}

// How often the ring is told how far the log on a disk goes, and by how much it must have
// grown: a ring in which nothing is written must not be kept busy by it.
const (
	tellPace  = 5 * time.Second
	tellEvery = 16 // more than a ring of nine writes by telling this
)

// tellLog tells the ring that the member here votes, and how far its log goes, so that an
// older copy of the disk is known by it. What isn't known to be on the disk is not told: an
// import and a slow disk, and etcd had applied six thousand entries that it had not synced
// yet; the power went, and a log that was whole was given up.
func (l *Launcher) tellLog(ctx context.Context, look *Look) error {
	members := look.View.RingMembers()
	i := slices.IndexFunc(members, func(m ring.Member) bool { return m.Machine == l.Machine && m.Disk == l.disk.ID })
	if i < 0 || !look.running {
		return nil
	}
	m, b := members[i], look.View.Bindings[members[i].ID]
	since := l.host.Now().Sub(l.told)
	promoted, due := b.Learner && !m.Learner, since < 0 || since >= tellPace
	if !promoted && !due {
		return nil
	}
	l.told = l.host.Now()
	applied, schema, err := l.Ring.Applied(ctx, l.clientURL(), m.ID)
	if err != nil {
		return nil // it is asked again
	}
	l.lookForV2(schema, applied)
	if l.Ring.Settled(ctx, l.clientURL()) == nil {
		l.reached = reached{l.disk.ID, applied}
	}
	last := l.reachedHere()
	if !promoted && last < b.Log+tellEvery {
		return nil
	}
	b.Learner, b.Log = m.Learner, max(b.Log, last)
	return l.Ring.Rebind(ctx, m.ID, b, look.View)
}

// reached is how far the log on a disk has come, at least.
type reached struct {
	disk string
	last uint64 // the raft index of its last entry
}

// reachedHere is how far the log on the disk that is here has come, at least.
func (l *Launcher) reachedHere() uint64 {
	if l.reached.disk != l.disk.ID {
		return 0
	}
	return l.reached.last
}

// v2 is what is known of requests of etcd's v2 API in the log on a disk.
type v2 struct {
	disk string
	told string // as a presence tells it; "": nothing is known
	last uint64 // the raft index of the last; 0: none
}

// lookForV2 looks for requests of the v2 API in the log here, which a later release can't
// read. Once the files are of [ring.ReadsV2] all members are, and nobody writes such a request
// any more: a log without one stays so, and one with them until the next snapshot.
func (l *Launcher) lookForV2(schema string, applied uint64) {
	if schema != ring.ReadsV2 || l.v2.disk != l.disk.ID {
		l.v2 = v2{disk: l.disk.ID}
	}
	every := cmp.Or(l.Known.Spec.Wanted().SnapshotCount, ring.SnapshotCount)
	if schema != ring.ReadsV2 || l.v2.told == admin.NoV2 || l.v2.told != "" && applied <= l.v2.last+every {
		return
	}
	log, err := l.host.Disk().WAL(DataDir)
	switch {
	case err != nil:
		l.log.Say(host.EventTrouble, "whether a later etcd can read the log is not known: "+err.Error())
	case log.V2 == 0:
		l.v2.told = admin.NoV2
	default:
		l.v2.told, l.v2.last = strconv.FormatUint(log.V2, 10), log.V2
	}
}

// presence says that the machine is there, and which disk is in it.
func (l *Launcher) presence(view admin.View) admin.Presence {
	p := admin.Presence{Machine: l.Machine, PeerURL: l.peerURL(), ClientURL: l.clientURL(), Disk: l.disk.ID,
		Failing: cmp.Or(l.halted, l.starts.failing(l.host.Monotonic())), Unsteady: l.starts.vain > 0, Used: l.disk.Launched, Versions: l.versions}
	if l.v2.disk == l.disk.ID {
		p.V2 = l.v2.told
	}
	if l.disk.Spoiled != 0 {
		p.Spoiled = l.disk.Spoiled.String()
	}
	if l.Issued != nil {
		p.Trusts = l.trusts
		p.Shows, _ = l.Issued.shows() // what can't be read nobody goes by
	}
	if l.Known.Spec.PeersFrom != "" { // else nobody goes by it
		p.Peers = l.listens
	}
	if l.Known.Formed && view.Unrecorded() { // before, the bootstrap record says it
		p.Log = l.holds(view.ClusterID)
	}
	return p
}

// holds tells whose log of this ring is on the disk; "" when it can't be read.
func (l *Launcher) holds(cluster uint64) string {
	if l.held.disk == l.disk.ID {
		return l.held.log
	}
	var e Evidence
	ReadLog(l.host, &e)
	switch {
	case e.Damaged != "":
		return ""
	case e.WAL == nil || e.WAL.Cluster != cluster:
		return admin.NoLog
	}
	l.held = held{l.disk.ID, ring.ID(e.WAL.Member).String()}
	return l.held.log
}

// held is whose log was found on a disk: it is read whole to know.
type held struct{ disk, log string }

// namesake reports whether another machine of this one's name is there, and says
// so. Whoever comes second does nothing: it could be a clone, whose disk holds
// nothing or the copy of a log, and the first is known to be what its member's
// record says. Only who is what that record says goes on, first or second. The
// lease of an earlier life, with another disk or at another address, is waited for.
func (l *Launcher) namesake(view admin.View) bool {
	other, there := view.Namesake(l.presence(admin.View{}), l.Lease.ID)
	if !there {
		l.second = absence{}
		return false
	}
	now := l.host.Monotonic()
	if !l.second.is {
		l.second = absence{is: true, since: now}
	}
	why := fmt.Sprintf("another machine is called %s: it is at %s with disk %s, and this one at %s with disk %s", l.Machine, other.PeerURL, other.Disk, l.peerURL(), l.disk.ID)
	if now-l.second.since < 2*admin.LeaseTTL {
		l.log.Say(host.EventWaiting, why)
	} else {
		l.log.Say(host.EventHalted, why+": give each a name of its own, or stop one of the two")
	}
	return true
}

// leave stops an etcd whose member is not in the ring any more. etcd stops by
// itself when it hears of its removal; one that was cut off then never hears. The list of
// a ring of one says nothing of who has left.
func (l *Launcher) leave(ctx context.Context, view admin.View, running bool) error {
	for _, m := range view.RingMembers() {
		if m.Machine == l.Machine {
			l.absent = time.Time{}
			l.tellMoved(m)
			return nil
		}
	}
	if !running || !view.Whole() {
		return nil
	}
	now := l.host.Now()
	if l.absent.IsZero() || l.absent.After(now) {
		l.absent = now
	}
	if now.Sub(l.absent) < 2*time.Second {
		return nil
	}
	return l.act("stop", "", "", func() error { return l.end(ctx, stopGrace) })
}

// tellMoved says that the ring knows the member here by another address. Its etcd
// reaches the others, and none of them reaches it: it lives on what it asks for.
func (l *Launcher) tellMoved(m ring.Member) {
	if here := l.peerURL(); !ring.SameAddress(m.PeerURL, here) {
		l.log.Say(host.EventTrouble, fmt.Sprintf("the ring knows the member here at %s, and this machine is at %s: give it its address back, or run etcdctl member update %s --peer-urls=%s", m.PeerURL, here, m.ID, here))
	}
}
