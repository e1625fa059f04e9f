// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// ledger is the harness's own truth of members and machines: where each member
// lives, since when it runs, and what its machine lost and when.
type ledger struct {
	h              *ringproof.History
	machines       map[string]bool
	homes          map[ringproof.MemberID]home
	began          map[ringproof.MemberID]ringproof.Instant // first seen serving, or counted by others as one that does
	served         map[ringproof.MemberID]ringproof.Instant // first seen serving
	added          map[ringproof.MemberID]ringproof.Instant // from when it may have been there; the initial members from the first
	initialMembers map[ringproof.MemberID]bool
	cuts           []ringproof.Event // of a machine's power
	losses         []ringproof.Event // machines and disks that faults took, or moved
	starts         []ringproof.Event // what tells which etcd can't start; none if each can
}

// home is the machine and the disk that a member was started on; disk 0 is
// unknown.
type home struct {
	machine string
	disk    int
}

func newLedger(h *ringproof.History) *ledger {
	l := &ledger{h: h, machines: map[string]bool{}, initialMembers: map[ringproof.MemberID]bool{}, homes: map[ringproof.MemberID]home{}, cuts: powerCuts(h), starts: failedStarts(h)}
	l.began, l.served, l.added = map[ringproof.MemberID]ringproof.Instant{}, map[ringproof.MemberID]ringproof.Instant{}, map[ringproof.MemberID]ringproof.Instant{}
	for _, e := range events(h, ringproof.EventFaultLanded) {
		if e.Fault == ringproof.FaultMachineLoss || e.Fault == ringproof.FaultDiskSwap || tookDisk(h, e) {
			l.losses = append(l.losses, e)
		}
	}
	l.losses = append(l.losses, swappedBack(h)...)
	if l.swapped("") {
		l.readObservations() // the disk that a log is found on may have been in another machine when it was written
	}
	l.readLogs()
	l.readObservations()
	l.readChanges()
	for _, e := range events(h, ringproof.EventMemberStarted, ringproof.EventMemberUp, ringproof.EventMemberPromoted) {
		l.begin(e.Member, e.At)
		if e.Kind != ringproof.EventMemberPromoted {
			l.serve(e.Member, e.At)
		}
	}
	return l
}

// swappedBack are the ends of swaps, machine by machine: each takes the disk that the machine had
// meanwhile, and whoever was put on it.
func swappedBack(h *ringproof.History) (all []ringproof.Event) {
	for _, e := range events(h, ringproof.EventFaultHealed) {
		if e.Fault != ringproof.FaultDiskSwap {
			continue
		}
		for machine := range strings.SplitSeq(e.Machine, ",") {
			e.Machine = machine
			all = append(all, e)
		}
	}
	return all
}

// tookDisk reports whether the fault took the machine's disk from its member: at once, or, a
// claim's or a volume's deletion, whenever the member's pod ends. Nobody can count on it from
// then on.
func tookDisk(h *ringproof.History, landed ringproof.Event) bool {
	if landed.Fault != ringproof.FaultKubeDelete {
		return landed.Fault == ringproof.FaultVolumeLoss
	}
	f, known := faultOf(h.Plan, landed.Step)
	return known && f.Permanent()
}

// powerCuts are the faults that cut the power of the machine they hit. A loss that the
// ring could not bear was made one.
func powerCuts(h *ringproof.History) (cuts []ringproof.Event) {
	machines := map[string]bool{}
	for _, s := range h.Plan.Steps {
		machines[s.Name] = s.Fault != nil && (s.Fault.Kind == ringproof.FaultKill && s.Fault.Scope == "machine" || s.Fault.Permanent())
	}
	for _, e := range events(h, ringproof.EventFaultLanded) {
		if e.Fault == ringproof.FaultVolumeUnmounted || e.Fault == ringproof.FaultVolumeCopy || e.Fault == ringproof.FaultKill && machines[e.Step] {
			cuts = append(cuts, e)
		}
	}
	return cuts
}

func (l *ledger) readLogs() {
	for _, log := range l.h.Evidence.Logs {
		l.machines[log.Machine] = true
		if log.Member != 0 {
			l.settle(log.Member, home{log.Machine, log.Disk})
		}
	}
}

func (l *ledger) readObservations() {
	for i := range l.h.Observations {
		o := &l.h.Observations[i]
		for _, m := range o.Machines {
			l.machines[m.Name] = true
		}
		for _, m := range o.Members {
			machine, ok := o.Machine(m.Machine)
			switch {
			case m.Serving && ok:
				l.settle(m.ID, home{m.Machine, machine.Runs()})
				l.begin(m.ID, o.At)
				l.serve(m.ID, o.At)
			case m.Machine != "":
				l.settle(m.ID, home{machine: m.Machine})
			}
		}
	}
}

// readChanges finds the machines of members that nobody ever saw, by address.
func (l *ledger) readChanges() {
	for _, c := range l.h.Evidence.Changes {
		switch {
		case strings.HasPrefix(c.Kind, "add-") && !c.Initial:
			l.added[c.Member] = l.made(c).From
		case c.Initial:
			l.initialMembers[c.Member] = true
			l.begin(c.Member, 0)
		case c.Kind == "promote": // etcd promotes none that hasn't caught up
			l.begin(c.Member, l.seen(c))
		}
		if machine := l.addressed(c.PeerURLs); machine != "" {
			l.settle(c.Member, home{machine: machine})
		}
		if c.Initial && l.homes[c.Member].disk == 0 && l.homes[c.Member].machine != "" {
			l.settle(c.Member, home{l.homes[c.Member].machine, 1})
		}
	}
}

// seen returns when the change was first observed; one that no observation
// shows was made by the end at the latest.
func (l *ledger) seen(c ringproof.ConfChange) ringproof.Instant {
	if c.At == ringproof.Forever {
		return l.h.Evidence.Final.At
	}
	return c.At
}

// made is when the change was: after the last list read with a quorum that is
// without it began to be read, and by the time it was seen.
func (l *ledger) made(c ringproof.ConfChange) ringproof.Span {
	at := l.seen(c)
	since := l.before(at)
	for _, o := range slices.Backward(l.h.Observations[:l.observed(at)]) {
		if o.Fresh && without(&o, c) {
			since = min(since, o.At)
			break
		}
	}
	return ringproof.Span{From: since, To: at}
}

// without reports whether the list shows the member as it was before the change.
func without(o *ringproof.Observation, c ringproof.ConfChange) bool {
	m, listed := o.Member(c.Member)
	switch c.Kind {
	case "remove":
		return listed
	case "promote":
		return listed && m.Learner
	}
	return !listed
}

// starvedBefore is how much longer a subject may take to hear what it should have
// heard in d before at: as long as the host kept it waiting.
func (l *ledger) starvedBefore(at ringproof.Instant, d time.Duration) time.Duration {
	return l.h.Evidence.Starved.Within(ringproof.Span{From: max(at.Add(-2*d), 0), To: at})
}

func (l *ledger) addressed(urls []string) string {
	if len(urls) == 0 || len(l.h.Observations) == 0 {
		return ""
	}
	parsed, err := url.Parse(urls[0])
	if err != nil {
		return ""
	}
	for _, m := range l.h.Observations[0].Machines {
		host, _, found := strings.Cut(m.Address, ":")
		if m.Address == parsed.Host || m.Is(parsed.Hostname()) || found && host == parsed.Hostname() {
			return m.Name
		}
	}
	return ""
}

// settle keeps the first home that names a disk; logs are read first, unless disks
// were swapped, as a data directory says for itself whose it is.
func (l *ledger) settle(member ringproof.MemberID, at home) {
	if known, ok := l.homes[member]; !ok || known.disk == 0 && at.disk != 0 {
		l.homes[member] = at
	}
}

func (l *ledger) begin(member ringproof.MemberID, at ringproof.Instant) {
	if known, ok := l.began[member]; member != 0 && (!ok || at < known) {
		l.began[member] = at
	}
}

func (l *ledger) serve(member ringproof.MemberID, at ringproof.Instant) {
	if known, ok := l.served[member]; member != 0 && (!ok || at < known) {
		l.served[member] = at
	}
}

// unsynced reports whether the machine lost its power before the member was ever
// seen to serve, and the member was not seen since: what an etcd has not synced by
// then is gone, and its disk only says that one ran there. Of one that was added since
// nothing was there to lose.
func (l *ledger) unsynced(member ringproof.MemberID, machine string, at ringproof.Instant) bool {
	served, ever := l.served[member]
	if ever && served <= at {
		return false
	}
	return slices.ContainsFunc(l.cuts, func(e ringproof.Event) bool {
		return e.Machine == machine && e.At <= at && e.At >= l.added[member]
	})
}

// started reports whether the member has had a log by the moment. A ring is bootstrapped with
// a list of members of whom a quorum has run: one of the others has none until it serves.
func (l *ledger) started(member ringproof.MemberID, at ringproof.Instant) bool {
	began, ok := l.began[member]
	if served, ever := l.served[member]; l.initialMembers[member] && (!ever || served > at) {
		return false
	}
	return ok && began <= at
}

// lost reports whether the machine is gone for good at the moment.
func (l *ledger) lost(machine string, at ringproof.Instant) bool {
	for _, e := range l.losses {
		if e.Fault == ringproof.FaultMachineLoss && e.Machine == machine && e.At <= at {
			return true
		}
	}
	view, ok := l.view(machine, at)
	return ok && view.Lost
}

// view returns the machine as last observed at or before the moment.
func (l *ledger) view(machine string, at ringproof.Instant) (ringproof.MachineView, bool) {
	for i := l.observed(at) - 1; i >= 0; i-- {
		if m, ok := l.h.Observations[i].Machine(machine); ok {
			return m, true
		}
	}
	return ringproof.MachineView{}, false
}

// observed counts the observations at or before the moment.
func (l *ledger) observed(at ringproof.Instant) int {
	n, _ := slices.BinarySearchFunc(l.h.Observations, at+1, func(o ringproof.Observation, at ringproof.Instant) int {
		return int(min(max(o.At-at, -1), 1))
	})
	return n
}

// before returns the last observation's moment ahead of at.
func (l *ledger) before(at ringproof.Instant) ringproof.Instant {
	if n := l.observed(at - 1); n > 0 {
		return l.h.Observations[n-1].At
	}
	return 0
}

// disk counts the disks that the machine has had at the moment. A lost volume
// counts from when it was taken, before any new disk is seen.
func (l *ledger) disk(machine string, at ringproof.Instant) int {
	disk := 1
	if view, ok := l.view(machine, at); ok {
		disk = view.Disk
	}
	for _, e := range l.losses {
		if !tookDisk(l.h, e) || e.Machine != machine || e.At > at {
			continue
		}
		old := 1
		if view, ok := l.view(machine, e.At.Add(-landing)); ok {
			old = view.Disk
		}
		disk = max(disk, old+1)
	}
	return disk
}

// intact reports whether the member, once started, still has its machine and the
// disk it was started on: only then can it vote with all that it promised.
func (l *ledger) intact(member ringproof.MemberID, at ringproof.Instant) bool {
	return l.started(member, at) && !l.ruined(member, at)
}

// ruined reports whether the member's machine or disk is gone.
func (l *ledger) ruined(member ringproof.MemberID, at ringproof.Instant) bool {
	where, ok := l.homes[member]
	if !ok {
		return false
	}
	return l.lost(where.machine, at) || where.disk != 0 && l.another(where, at) || l.unsynced(member, where.machine, at)
}

// another reports whether the machine has another disk than that one at the moment:
// a later one, or, where disks were swapped, any.
func (l *ledger) another(than home, at ringproof.Instant) bool {
	disk := l.disk(than.machine, at)
	return disk > than.disk || disk != than.disk && l.swapped(than.machine)
}

// swapped reports whether the machine had another's disk for a while; "": whether any had.
func (l *ledger) swapped(machine string) bool {
	return slices.ContainsFunc(l.losses, func(e ringproof.Event) bool {
		return e.Fault == ringproof.FaultDiskSwap && (machine == "" || e.Machine == machine)
	})
}

// hearsay is how long a subject may believe what a machine said of itself last:
// that it has another disk, though the right one is back.
const hearsay = 5 * time.Second

// lately lists the moments of the looks in the time before at.
func (l *ledger) lately(at ringproof.Instant, d time.Duration) []ringproof.Instant {
	var moments []ringproof.Instant
	for _, o := range l.h.Observations[l.observed(max(at.Add(-d), 0)):l.observed(at)] {
		moments = append(moments, o.At)
	}
	return moments
}

// faultTook reports whether a fault explains that the machine has another disk than this at the
// moment. One that had landed as the disk was seen first is why that was there, and explains no
// loss of it: a disk that was lost and replaced may be emptied by the subject a minute later.
func (l *ledger) faultTook(disk home, at ringproof.Instant) bool {
	since, made, after := l.firstSeen(disk), 0, 0
	for _, e := range l.losses {
		switch {
		case e.Machine != disk.machine && e.Machine != "" || e.At > at:
		case disk.disk > 1 && e.At <= since.Add(landing) && !l.emptied(disk.machine, since, e.At):
			if e.At >= since.Add(-landing) {
				made++ // which of several within so little time is why the disk came isn't known
			}
		default:
			after++
		}
	}
	return after > 0 || made > 1
}

// emptied reports whether the subject had told by a moment that the machine's disk is new, which was
// seen first about then: it has cleared that of who had left, and no fault is why the disk came.
func (l *ledger) emptied(machine string, seen, by ringproof.Instant) bool {
	return slices.ContainsFunc(events(l.h, ringproof.EventDiskReplaced), func(e ringproof.Event) bool {
		return e.Machine == machine && e.At >= seen.Add(-landing) && e.At < by
	})
}

// firstSeen is when the machine was first seen with the disk; 0: never.
func (l *ledger) firstSeen(disk home) ringproof.Instant {
	for _, o := range l.h.Observations {
		if m, ok := o.Machine(disk.machine); ok && m.Disk >= disk.disk {
			return o.At
		}
	}
	return 0
}

// config is a membership: each member, and whether it votes.
type config struct {
	members map[ringproof.MemberID]bool // true: voter
	removed map[ringproof.MemberID]bool
	urls    map[string]ringproof.MemberID // of peers
}

func newConfig() config {
	return config{members: map[ringproof.MemberID]bool{}, removed: map[ringproof.MemberID]bool{}, urls: map[string]ringproof.MemberID{}}
}

func (c config) clone() config {
	return config{maps.Clone(c.members), maps.Clone(c.removed), maps.Clone(c.urls)}
}

// apply carries out a change as etcd does, and reports whether it had an effect: etcd
// turns an impossible change into an empty one when it comes to apply it. A second request
// to add m4 is in the log like the first, and adds nobody.
func (c config) apply(change ringproof.ConfChange) bool {
	voter, member := c.members[change.Member]
	switch change.Kind {
	case "add-voter", "add-learner":
		if member || c.removed[change.Member] || c.others(change) {
			return false
		}
		c.members[change.Member] = change.Kind == "add-voter"
		c.reach(change)
	case "promote":
		if !member || voter {
			return false
		}
		c.members[change.Member] = true
	case "remove":
		if !member {
			return false
		}
		delete(c.members, change.Member)
		c.removed[change.Member] = true
		c.unreach(change.Member)
	case "update":
		if !member || c.others(change) {
			return false
		}
		c.unreach(change.Member)
		c.reach(change)
	default:
		return false
	}
	return true
}

// others reports whether another member is reached by one of the change's peer URLs.
func (c config) others(change ringproof.ConfChange) bool {
	return slices.ContainsFunc(change.PeerURLs, func(u string) bool {
		of, taken := c.urls[u]
		return taken && of != change.Member
	})
}

func (c config) reach(change ringproof.ConfChange) {
	for _, u := range change.PeerURLs {
		c.urls[u] = change.Member
	}
}

func (c config) unreach(member ringproof.MemberID) {
	maps.DeleteFunc(c.urls, func(_ string, of ringproof.MemberID) bool { return of == member })
}

// voters is how many members vote.
func (c config) voters() (n int) {
	for _, voter := range c.members {
		if voter {
			n++
		}
	}
	return n
}

// margin is how many more voters the ring can lose: those that ok accepts,
// less the quorum of all.
func (c config) margin(ok func(ringproof.MemberID) bool) int {
	voters, intact := 0, 0
	for member, voter := range c.members {
		if voter {
			voters++
			if ok(member) {
				intact++
			}
		}
	}
	return intact - ringproof.Quorum(voters)
}
