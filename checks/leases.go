// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// leasesKeepTheirTime judges when leases end. That their keys go together, and
// nothing comes under them after, the order of revisions shows (lease_ends.go).
var leasesKeepTheirTime = Check{
	Name:   "leases",
	Claim:  "A lease lives for as long as it was last granted or renewed for, unless a client revokes it, and not for long after.",
	Source: "etcd's lease API: the lease is kept for at least its TTL; etcd#15247: leases revoked by a leader of the past",
	Timed:  true,
	Params: []Param{
		{"overdue", "15s", "how long after its time, in a ring at rest, a lease may still be there"},
	},
	Judge: func(h *ringproof.History, params Values) ringproof.Finding {
		l := lifetimes{h: h, t: rebuild(h), ends: endsOf(h)}
		if len(l.ends) == 0 {
			return unknown("no client was granted a lease under which it put a key")
		}
		if f, bad := l.early(); bad {
			return f
		}
		if f, bad := l.refusedEarly(); bad {
			return f
		}
		if f, bad := l.overdue(params.Duration("overdue")); bad {
			return f
		}
		return l.told()
	},
	suits: func(p ringproof.Plan) bool { return safely(p) && p.Workload.Profile == "apiserver" },
}

// lifetimes is what clients know of when leases end.
type lifetimes struct {
	h    *ringproof.History
	t    *timeline
	ends map[int64]*tenure
}

// tenure is one lease, as those who asked about it know it.
type tenure struct {
	promises []*ringproof.Operation // grants and renewals that were answered
	asked    ringproof.Instant      // when one was last asked for, answered or not
	ttl      time.Duration
	revoked  ringproof.Instant // when that was first asked for; Forever: never, or etcd surely didn't do it
}

func endsOf(h *ringproof.History) map[int64]*tenure {
	all := map[int64]*tenure{}
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Request.Kind == ringproof.RequestGrant && o.Response != nil {
			all[o.Response.Lease] = &tenure{promises: []*ringproof.Operation{o}, asked: o.Return,
				ttl: time.Duration(o.Response.TTL) * time.Second, revoked: ringproof.Forever}
		}
	}
	for i := range h.Operations {
		o := &h.Operations[i]
		lease := all[o.Request.Lease]
		switch {
		case lease == nil:
		case o.Request.Kind == ringproof.RequestKeepAlive && !o.Refused:
			lease.asked = max(lease.asked, o.Return)
			if o.Response != nil {
				lease.promises = append(lease.promises, o)
			}
		case o.Request.Kind == ringproof.RequestRevoke && !o.Refused:
			lease.revoked = min(lease.revoked, o.Call)
		}
	}
	return all
}

// aside is how long before and after a disturbance a renewal promises nothing. It
// is the leader's word alone, and may be that of the one before: one that was
// stopped and goes on answers for a moment as if it had led all the time, and so
// does one that is cut off. A grant is in the log, whoever leads.
const aside = 3 * time.Second

// elected is how long the host must have starved the run for another to have been
// elected meanwhile.
const elected = time.Second

// until is the moment before which the lease can't have run out, by what was
// asked for before at.
func (l *lifetimes) until(lease *tenure, at ringproof.Instant) (latest ringproof.Instant, by *ringproof.Operation) {
	for _, o := range lease.promises {
		end := o.Call.Add(time.Duration(o.Response.TTL) * time.Second)
		if o.Call <= at && end > latest && (o.Request.Kind == ringproof.RequestGrant || !l.disturbed(o)) {
			latest, by = end, o
		}
	}
	return latest, by
}

// disturbed reports whether a leader of the past may have answered.
func (l *lifetimes) disturbed(o *ringproof.Operation) bool {
	around := ringproof.Span{From: o.Call.Add(-aside), To: o.Return.Add(aside)}
	return l.h.Evidence.Starved.Within(around) >= elected || slices.ContainsFunc(l.h.Events, func(e ringproof.Event) bool {
		return slices.Contains(disturbs, e.Kind) && e.At > around.From && e.At < around.To
	})
}

// early finds a lease whose keys were seen to go before its time. When they went
// is not known, but that it was before anybody saw it. A lease of which somebody
// asked to be rid, answered or not, has no time.
func (l *lifetimes) early() (ringproof.Finding, bool) {
	for _, id := range l.t.ids() {
		end, lease := l.t.leases[id], l.ends[id]
		if end.ended == 0 || end.doubtful || end.revoked != 0 {
			continue
		}
		seen := l.seen(end.ended)
		if until, by := l.until(lease, seen); seen < min(until, lease.revoked) {
			return with(fail(seen, "expected lease %x to live until %s at least, saw its keys gone at %s (revision %d)", id, until, seen, end.ended), operationText(by)), true
		}
	}
	return ringproof.Finding{}, false
}

// seen is when a watch first showed the revision.
func (l *lifetimes) seen(revision int64) ringproof.Instant {
	first := ringproof.Forever
	for i := range l.h.Watches {
		for e := range l.h.Watches[i].Events {
			if event := &l.h.Watches[i].Events[e]; event.Revision == revision && !event.Bookmark {
				first = min(first, event.At)
			}
		}
	}
	return first
}

// refusedEarly finds a request that was refused for want of a lease which must
// have been there whenever it was.
func (l *lifetimes) refusedEarly() (ringproof.Finding, bool) {
	for i := range l.h.Operations {
		o := &l.h.Operations[i]
		lease := l.ends[wants(o)]
		if lease == nil || lease.revoked < o.Return || lease.promises[0].Return > o.Call {
			continue
		}
		if until, by := l.until(lease, o.Call); o.Return < until {
			return with(fail(o.Return, "expected lease %x to live until %s at least, saw a request refused at %s for want of it", wants(o), until, o.Return),
				operationText(by), operationText(o)), true
		}
	}
	return ringproof.Finding{}, false
}

// disturbs are the events after which a leader may have to begin all leases anew,
// or nobody leads for a while.
var disturbs = []ringproof.EventKind{
	ringproof.EventFaultLanded, ringproof.EventFaultHealed, ringproof.EventLeaderChanged, ringproof.EventProcessStarted, ringproof.EventProcessExited,
	ringproof.EventMemberAdded, ringproof.EventMemberPromoted, ringproof.EventMemberRemoved, ringproof.EventRingCreated,
}

// overdue finds a key that was read under a lease which should have been over:
// nobody renewed it, and nothing disturbed the ring, for longer than it lives.
func (l *lifetimes) overdue(most time.Duration) (f ringproof.Finding, bad bool) {
	disturbed := events(l.h, disturbs...)
	for i := range l.h.Operations {
		o := &l.h.Operations[i]
		if o.Response == nil || o.Request.Serializable {
			continue
		}
		reads(&o.Request, o.Response, func(kv *ringproof.KV) {
			lease := l.ends[kv.Lease]
			if bad || lease == nil {
				return
			}
			waited := ringproof.Span{From: max(lease.asked, l.unending(o.Call)), To: o.Call}
			for _, e := range disturbed {
				if e.At < o.Call {
					waited.From = max(waited.From, e.At)
				}
			}
			if waited.From < waited.To && l.h.Evidence.Starved.Overran(waited, lease.ttl+most) == ringproof.Fail {
				f, bad = with(fail(o.Call, "expected lease %x, of %s, to be over %s after anybody renewed it or the ring was disturbed; saw %s under it",
					kv.Lease, lease.ttl, waited.Length(), kv.Key), operationText(o)), true
			}
		})
		if bad {
			return f, true
		}
	}
	return f, false
}

// unending is the last moment before at when no lease may have been ended: nobody led, who
// alone ends them, as no list was read with a quorum, or a CORRUPT alarm stood, under which
// etcd refuses that, too (applierV3Corrupt).
func (l *lifetimes) unending(at ringproof.Instant) (last ringproof.Instant) {
	corrupt := func(m ringproof.MemberView) bool {
		return slices.ContainsFunc(m.Alarms, func(alarm string) bool { return strings.Contains(alarm, string(ringproof.AlarmCorrupt)) })
	}
	for i, o := range l.h.Observations {
		if o.At < at && (!o.Fresh || slices.ContainsFunc(o.Members, corrupt)) {
			last = stands(l.h, i, at)
		}
	}
	return last
}

// reads calls visit for every key that an answer shows as of now.
func reads(r *ringproof.Request, answer *ringproof.Response, visit func(*ringproof.KV)) {
	if !r.General() {
		for i := range answer.KVs {
			if r.Revision == 0 {
				visit(&answer.KVs[i])
			}
		}
		return
	}
	for _, a := range acts(r, answer, nil) {
		if a.answer != nil {
			reads(a.request, a.answer, visit)
		}
	}
}

// told says how many leases were seen to end, and how.
func (l *lifetimes) told() ringproof.Finding {
	revoked, ran := 0, 0
	for _, lease := range l.t.leases {
		switch {
		case lease.revoked != 0:
			revoked++
		case lease.ended != 0 && !lease.doubtful:
			ran++
		}
	}
	said := fmt.Sprintf("of %d leases under which keys were put %d were revoked and %d were seen to run out", len(l.t.leases), revoked, ran)
	if revoked+ran == 0 {
		return unknown("%s: how long one lives can't be told", said)
	}
	return pass("%s, none before its time", said)
}
