// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ringproof/ringproof"
)

// upkeep judges what operators are told. Nothing in it is about time: an answer
// that is late, or none, is for others to judge.
var upkeep = Check{
	Name:   "upkeep",
	Claim:  "What members say of themselves agrees with their flags and with each other, and a full one still reads and deletes.",
	Source: "etcd's maintenance guide: status, alarms, hashes, backups; etcd#14884 for who is refused when space is short",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		asked := 0
		hashes := hashesBy{}
		for i := range h.Operations {
			o := &h.Operations[i]
			if refusedForSpace(o) {
				return with(fail(o.Return, "expected a request that writes nothing to be done though space is short, saw it refused"), operationText(o))
			}
			if !o.Request.Kind.Operates() || o.Response == nil || o.Response.Upkeep == nil {
				continue
			}
			asked++
			if f, bad := judgeUpkeep(h, o, hashes); bad {
				return with(f, operationText(o))
			}
		}
		if f, bad := statusGoesBack(h); bad {
			return f
		}
		if asked == 0 {
			return unknown("no client asked a member of itself")
		}
		return pass("%s of members about themselves", ringproof.Counted(asked, "answer"))
	},
	suits: func(p ringproof.Plan) bool { return p.Workload.Profile == "operator" },
}

// refusedForSpace reports whether etcd refused for want of space what needs none.
func refusedForSpace(o *ringproof.Operation) bool {
	if o.Response != nil || !strings.Contains(o.Err, "database space exceeded") {
		return false
	}
	return !o.Request.Kind.Operates() && o.Request.Kind != ringproof.RequestGrant && !asksTo(&o.Request, func(r *ringproof.Request) bool { return r.Kind != ringproof.RequestDelete })
}

func judgeUpkeep(h *ringproof.History, o *ringproof.Operation, hashes hashesBy) (ringproof.Finding, bool) {
	u := o.Response.Upkeep
	switch o.Request.Kind {
	case ringproof.RequestStatus:
		return judgeStatus(h, o, u)
	case ringproof.RequestHash:
		return hashes.judge(h, o)
	case ringproof.RequestAlarms:
		if n := slices.IndexFunc(u.Alarms, func(a ringproof.Alarm) bool { return a.Kind == ringproof.AlarmCorrupt && !raisedByHand(h, a) }); n >= 0 {
			return fail(o.Return, "expected no member to find its data corrupt, saw the alarm of %s", u.Alarms[n].Member), true
		}
	case ringproof.RequestSnapshot:
		if !u.Whole {
			return fail(o.Return, "expected a backup that ends in the hash of what is before, saw %d bytes that don't", u.Size), true
		}
	}
	return ringproof.Finding{}, false
}

// raisedByHand reports whether a fault raised the alarm, or may have: of one that was missed the
// request may be done though no reply came.
func raisedByHand(h *ringproof.History, a ringproof.Alarm) bool {
	evidence := fmt.Sprintf("the alarm %s of member %s was raised", a.Kind, a.Member)
	return slices.ContainsFunc(events(h, ringproof.EventFaultLanded, ringproof.EventFaultMissed), func(e ringproof.Event) bool {
		return e.Fault == ringproof.FaultAlarmRaised && (e.Kind == ringproof.EventFaultMissed || strings.HasPrefix(e.Text, evidence))
	})
}

const defaultQuota = 2 << 30

func judgeStatus(h *ringproof.History, o *ringproof.Operation, u *ringproof.UpkeepAnswer) (ringproof.Finding, bool) {
	if !slices.Contains(h.Plan.Versions(), "v"+u.Version) {
		return fail(o.Return, "expected release %s, saw %s", strings.Join(h.Plan.Versions(), " or "), u.Version), true
	}
	if want, known := quotaOf(&h.Plan, o.Endpoint); known && minorOf(u.Version) >= 6 && u.Quota != want {
		return fail(o.Return, "expected %s to tell of the quota that it was given, %d bytes; saw %d", o.Endpoint, want, u.Quota), true
	}
	return ringproof.Finding{}, false
}

// quotaOf returns the quota that the machine's etcd was given; not known once a
// step changes it.
func quotaOf(p *ringproof.Plan, machine string) (bytes int64, known bool) {
	const flag = "quota-backend-bytes"
	for _, s := range p.Steps {
		if s.Op != nil && s.Op.Flags[flag] != "" {
			return 0, false
		}
	}
	text := p.Ring.Own(machine).Flags[flag]
	if text == "" {
		return defaultQuota, true
	}
	bytes, err := strconv.ParseInt(text, 0, 64)
	return bytes, err == nil && bytes > 0
}

func minorOf(version string) int {
	var major, minor int
	fmt.Sscanf(version, "%d.%d", &major, &minor)
	return minor
}

// hashesBy are the first answers by what must agree before two compare.
type hashesBy map[sameHash]*ringproof.Operation

// judge compares the hash with an earlier one. In a ring of releases that don't
// hash alike it can't be told whose is whose.
func (all hashesBy) judge(h *ringproof.History, o *ringproof.Operation) (ringproof.Finding, bool) {
	u := o.Response.Upkeep
	class := hashClass(h.Plan.Versions()[0])
	alike := !slices.ContainsFunc(h.Plan.Versions(), func(v string) bool { return hashClass(v) != class })
	if u.At == 0 || !alike {
		return ringproof.Finding{}, false
	}
	at := sameHash{class, u.At, u.Compacted}
	if other := all[at]; other != nil && other.Response.Upkeep.Hash != u.Hash {
		return with(fail(o.Return, "expected equal hashes at revision %d, saw %08x of %s and %08x of %s",
			u.At, other.Response.Upkeep.Hash, other.Endpoint, u.Hash, o.Endpoint), operationText(other)), true
	}
	all[at] = o
	return ringproof.Finding{}, false
}

// statusGoesBack compares what each member said of its term, and of its
// revision while it wasn't restarted, with what it had said before it was asked.
func statusGoesBack(h *ringproof.History) (ringproof.Finding, bool) {
	last := map[ringproof.MemberID]*ringproof.Operation{}
	for _, i := range byReturn(h.Operations) {
		o := &h.Operations[i]
		if o.Request.Kind != ringproof.RequestStatus || o.Response == nil || o.Response.Upkeep == nil {
			continue
		}
		was := last[o.Response.Member]
		if was == nil || was.Return >= o.Call {
			last[o.Response.Member] = o
			continue
		}
		switch {
		case o.Response.Upkeep.Term < was.Response.Upkeep.Term:
			return with(fail(o.Return, "expected member %s in term %d or later, saw %d", o.Response.Member, was.Response.Upkeep.Term, o.Response.Upkeep.Term),
				operationText(was), operationText(o)), true
		case o.Response.Revision < was.Response.Revision && !restarted(h, o.Endpoint, was.Call, o.Return):
			return with(fail(o.Return, "expected member %s at revision %d or later, saw %d without a restart", o.Response.Member, was.Response.Revision, o.Response.Revision),
				operationText(was), operationText(o)), true
		}
		last[o.Response.Member] = o
	}
	return ringproof.Finding{}, false
}
