// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"time"

	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/ringproof/ringproof"
)

var oneClusterIdentity = Check{
	Name:   "one-cluster-identity",
	Claim:  "Every answer, every member and every disk, discarded ones too, speaks of one cluster ID, and no log is made that of a ring of one.",
	Source: "a launcher that finds no data bootstraps a second ring beside the first (etcd-launcher, etcd-manager); etcd --force-new-cluster keeps the cluster ID",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if f, bad := forked(h); bad {
			return f
		}
		seen := identities(h)
		switch len(seen) {
		case 0:
			return unknown("no answer, member or disk tells a cluster ID")
		case 1:
			return pass("cluster ID %x throughout", seen[0].id)
		}
		f := fail(seen[1].at, "expected one cluster ID, saw %d", len(seen))
		for _, each := range seen {
			f = with(f, fmt.Sprintf("%x first by %s", each.id, each.who))
		}
		return f
	},
}

// forked finds a log from which every other member was removed and nobody had asked for it, as
// etcd --force-new-cluster does: a second ring, under the ID of the first. m1's volume is lost
// and m2 is dark as m3 is started so, and serves; then m2 comes back, with what only it and m1
// had acknowledged. What a fault left like that is nobody's doing until another has it too.
func forked(h *ringproof.History) (ringproof.Finding, bool) {
	for _, log := range h.Evidence.Logs {
		if log.Forced != 0 && !leftForked(h, log.Machine) {
			return with(fail(ringproof.Forever, "expected no log to be made that of a ring of one, saw every other member removed and nobody ask for it from entry %d on in the log of member %s",
				log.Forced, log.Member), fmt.Sprintf("on %s, disk %d: entries %d to %d", log.Machine, log.Disk, log.First, log.Last)), true
		}
	}
	return ringproof.Finding{}, false
}

// leftForked reports whether a fault may have left such a log on the machine.
func leftForked(h *ringproof.History, machine string) bool {
	for _, e := range events(h, ringproof.EventFaultLanded) {
		f, known := faultOf(h.Plan, e.Step)
		if known && f.Leave == ringproof.LeaveForced && (e.Machine == machine || len(swaps(h)) > 0) {
			return true
		}
	}
	return false
}

// identity is a cluster ID and where it was first seen.
type identity struct {
	id  uint64
	at  ringproof.Instant
	who string
}

// identities returns the cluster IDs in the order of their first sight; those
// that only a disk tells come last, as their time isn't known.
func identities(h *ringproof.History) []identity {
	first := map[uint64]identity{}
	see := func(id uint64, at ringproof.Instant, who func() string) {
		if known, ok := first[id]; id != 0 && (!ok || at < known.at) {
			first[id] = identity{id, at, who()}
		}
	}
	for i := range h.Operations {
		if o := &h.Operations[i]; o.Response != nil {
			see(o.Response.ClusterID, o.Return, func() string { return operationText(o) })
		}
	}
	for _, o := range append(slices.Clip(h.Observations), h.Evidence.Final) {
		for _, m := range o.Members {
			see(m.ClusterID, o.At, func() string { return fmt.Sprintf("member %s on %s at %s", m.ID, m.Machine, o.At) })
		}
	}
	for _, log := range h.Evidence.Logs {
		see(log.ClusterID, ringproof.Forever, func() string {
			return fmt.Sprintf("the log of member %s on %s, disk %d", log.Member, log.Machine, log.Disk)
		})
	}
	return slices.SortedFunc(maps.Values(first), func(a, b identity) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
	})
}

// noIdentityReuse: a member that starts on an empty disk under its old ID has
// forgotten votes it gave and entries it confirmed. Two of three that do so
// elect a leader without what the third alone still holds.
var noIdentityReuse = Check{
	Name:   "no-identity-reuse",
	Claim:  "A member ID lives on one disk, and never serves after its removal.",
	Source: "raft: votes and entries are promised by a disk; etcd's guide: remove a member before its machine comes back empty",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		disks, f, bad := reused(h)
		if bad {
			return f
		}
		if len(disks) == 0 {
			return unknown("no member was seen serving, and no disk was read")
		}
		if len(h.Evidence.Logs) == 0 {
			return with(unknown("no member's log was found on any disk: whose disks they are is unknown"), h.Evidence.Unknown...)
		}
		if f, bad := revenant(h); bad {
			return f
		}
		return pass("%s, each on one disk", ringproof.Counted(len(disks), "member"))
	},
}

func reused(h *ringproof.History) (map[ringproof.MemberID]home, ringproof.Finding, bool) {
	seen := map[ringproof.MemberID]home{}
	away := swaps(h)
	for _, log := range h.Evidence.Logs {
		if f, bad := sameHome(seen, log.Member, home{log.Machine, log.Disk}, ringproof.Forever); bad {
			return seen, f, true
		}
	}
	for i := range h.Observations {
		o := &h.Observations[i]
		for _, m := range o.Members {
			machine, ok := o.Machine(m.Machine)
			if !ok || !m.Serving || away.on(m.Machine, o.At, o.Until) {
				continue
			}
			if f, bad := sameHome(seen, m.ID, home{m.Machine, machine.Runs()}, o.At); bad {
				return seen, f, true
			}
		}
	}
	return seen, ringproof.Finding{}, false
}

// swap is a time in which a machine holds another's disk: a member that serves
// then is known by its address, and may run where its disk is.
type swap struct {
	machine  string
	from, to ringproof.Instant
}

type swapped []swap

// swaps lists them. Those that overlap end together: of m1's disk in m2, and
// m2's in m3, neither step alone can be undone.
func swaps(h *ringproof.History) swapped {
	var all swapped
	open := map[string]bool{} // by step
	for _, e := range events(h, ringproof.EventFaultLanded, ringproof.EventFaultHealed) {
		if e.Fault != ringproof.FaultDiskSwap {
			continue
		}
		if e.Kind == ringproof.EventFaultLanded {
			all = append(all, swap{e.Machine, e.At, ringproof.Forever})
			open[e.Step] = true
		} else if delete(open, e.Step); len(open) == 0 {
			all.end(e.At)
		}
	}
	return all
}

// end ends those that go on.
func (s swapped) end(at ringproof.Instant) {
	for i := range s {
		s[i].to = min(s[i].to, at)
	}
}

// on reports whether the machine held another's disk at any time of the look.
func (s swapped) on(machine string, from, to ringproof.Instant) bool {
	return slices.ContainsFunc(s, func(w swap) bool { return w.machine == machine && w.from <= max(from, to) && from <= w.to })
}

func sameHome(seen map[ringproof.MemberID]home, id ringproof.MemberID, at home, when ringproof.Instant) (ringproof.Finding, bool) {
	if id == 0 || at.machine == "" {
		return ringproof.Finding{}, false
	}
	if was, ok := seen[id]; ok && was != at {
		return fail(when, "expected member %s on one disk, saw it on disk %d of %s and on disk %d of %s",
			id, was.disk, was.machine, at.disk, at.machine), true
	}
	seen[id] = at
	return ringproof.Finding{}, false
}

// farewell is how long a removed member may still answer. Until it has applied
// its own removal it forwards reads and writes, and the leader takes them until
// it has closed the connection: member 2 is removed at index 90, a client asks
// it at once, and the answer comes through a leader that is about to hang up.
const farewell = 2 * time.Second

// revenant finds a member that serves after its removal. A removed member may
// answer from its own store until it stops, so only answers with quorum count.
func revenant(h *ringproof.History) (ringproof.Finding, bool) {
	removed := map[ringproof.MemberID]ringproof.Instant{}
	for _, c := range h.Evidence.Changes {
		if c.Kind == "remove" && c.At != ringproof.Forever {
			removed[c.Member] = c.At
		}
	}
	gone := func(id ringproof.MemberID, at ringproof.Instant) bool {
		since, ok := removed[id]
		since = max(since, forgot(h, id, at))
		return ok && h.Evidence.Starved.Overran(ringproof.Span{From: since, To: at}, farewell) == ringproof.Fail
	}
	for _, e := range events(h, ringproof.EventMemberStarted, ringproof.EventMemberUp) {
		if gone(e.Member, e.Span().From) {
			return with(fail(e.At, "expected member %s never to serve after its removal at %s", e.Member, removed[e.Member]), e.String()), true
		}
	}
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Response != nil && withQuorum(o.Request) && gone(o.Response.Member, o.Call) {
			return with(fail(o.Return, "expected member %s to answer nothing with quorum after its removal at %s",
				o.Response.Member, removed[o.Response.Member]), operationText(o)), true
		}
	}
	return ringproof.Finding{}, false
}

// withQuorum reports whether an answer to the request needs a quorum. Of itself a member tells
// what it knows.
func withQuorum(r ringproof.Request) bool {
	switch r.Kind {
	case ringproof.RequestStatus, ringproof.RequestHash, ringproof.RequestDefrag, ringproof.RequestSnapshot:
		return false
	}
	return !r.Serializable
}

// forgot is the last time before at when who was left may not have known that the member
// was removed: none of them served, while another's etcd ran beside it. A commit index is
// not synced: of members 1 and 2 the first is removed, and both are killed. They start as
// the two that they were, and the removal is committed, and applied, once more.
func forgot(h *ringproof.History, id ringproof.MemberID, at ringproof.Instant) (last ringproof.Instant) {
	for i := range h.Observations {
		o := &h.Observations[i]
		if o.At >= at {
			break
		}
		others := slices.ContainsFunc(o.Members, func(m ringproof.MemberView) bool { return m.Serving && m.ID != id })
		if !others && etcds(o) > 1 {
			last = stands(h, i, at)
		}
	}
	return last
}

// stands is until when, and no longer than at, the i-th look stands: till the next, as one
// that differs in nothing but progress isn't kept.
func stands(h *ringproof.History, i int, at ringproof.Instant) ringproof.Instant {
	if i+1 < len(h.Observations) {
		return min(at, h.Observations[i+1].At)
	}
	return at
}

// etcds counts the machines on which one runs.
func etcds(o *ringproof.Observation) (n int) {
	for _, m := range o.Machines {
		if m.Etcd {
			n++
		}
	}
	return n
}
