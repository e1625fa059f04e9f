// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"

	"github.com/ringproof/ringproof"
)

// upgradeInOrder: a ring whose members are upgraded all at once may come back, and
// clients may notice next to nothing. What it stood on meanwhile is luck: that every
// one of them starts, and nothing else happens.
var upgradeInOrder = Check{
	Name:   "upgrade-in-order",
	Claim:  "An upgrade restarts one voter at a time, while all others serve, the leader after all others; and no voter goes down, or leaves a minor out.",
	Source: "etcd's upgrade guides: one by one, each healthy before the next; versions of one ring are no more than a minor apart",
	Timed:  true,
	Params: []Param{{"least", "1", "how many members must have been seen to run another release than before"}},
	Judge: func(h *ringproof.History, params Values) ringproof.Finding {
		all := upgradesOf(h)
		for _, u := range all {
			if wrong := u.wrong(h); wrong != "" {
				return with(fail(u.at, "%s", wrong), u.String())
			}
		}
		if len(all) < params.Int("least") {
			return unknown("no member was seen to run another release than before")
		}
		return pass("%s upgraded, one after the other", ringproof.Counted(len(all), "member"))
	},
	suits: ringproof.Plan.Upgrades,
}

// passage is a member that was seen with one release and then with another.
type passage struct {
	member  ringproof.MemberView // as it was last, with the release before
	to      string
	at      ringproof.Instant // its etcd was ended
	last    int               // the last look before; there is one after it
	asked   int               // the last look before the subject asked for it
	led     bool              // by that look
	excused bool              // a fault on its machine was not over, or an operator was restarting members
}

func (r passage) String() string {
	return fmt.Sprintf("%s went from %s to %s; its etcd was ended at %s", r.member.Machine, r.member.Version, r.to, r.at)
}

// upgradesOf lists the members that came to run another release, by when their etcd was
// ended: the first end on their machine between the two.
func upgradesOf(h *ringproof.History) (all []passage) {
	latest := map[ringproof.MemberID]ringproof.MemberView{}
	for _, o := range h.Observations {
		for _, m := range o.Members {
			if !m.Serving || m.Version == "" {
				continue
			}
			was, known := latest[m.ID]
			if known && was.Version != m.Version {
				if u, ended := endOf(h, was, o.At); ended {
					u.to, u.excused = m.Version, byFault(h, m.Machine, u.at) || restarting(h, u.at)
					u.asked, u.led = whenAsked(h, u)
					all = append(all, u)
				}
			}
			latest[m.ID] = m
		}
	}
	return all
}

// restarting reports whether an operator was having members restarted then, as what they
// run: one whose turn had not come gets the release that it is to run all the same.
func restarting(h *ringproof.History, at ringproof.Instant) bool {
	return operating(h, ringproof.Span{From: at, To: at + 1}, ringproof.OpRestart, ringproof.OpRoll, ringproof.OpReset)
}

// operating reports whether an operator's step of such a kind, or where none is named of any, was
// under way in the span.
func operating(h *ringproof.History, during ringproof.Span, kinds ...ringproof.OpKind) bool {
	open := map[string]bool{}
	for _, e := range events(h, ringproof.EventStepBegun, ringproof.EventStepDone, ringproof.EventStepFailed, ringproof.EventStepMissed) {
		switch {
		case e.Kind == ringproof.EventStepBegun && e.At < during.To:
			open[e.Step] = true
		case e.Kind != ringproof.EventStepBegun && e.At <= during.From:
			delete(open, e.Step)
		}
	}
	return slices.ContainsFunc(h.Plan.Steps, func(s ringproof.Step) bool {
		return open[s.Name] && s.Op != nil && (len(kinds) == 0 || slices.Contains(kinds, s.Op.Kind))
	})
}

// endOf finds the first end of the member's etcd since it was last seen to run the
// release before, up to the look that saw it run another: in a world of processes that
// look is the first to notice.
func endOf(h *ringproof.History, was ringproof.MemberView, before ringproof.Instant) (u passage, found bool) {
	u.member = was
	u.last = -1
	for i, o := range h.Observations {
		if m, on := o.Member(was.ID); on && m.Serving && m.Version == was.Version && o.At < before {
			u.last = i
		}
	}
	for _, e := range events(h, ringproof.EventProcessExited) {
		if u.last >= 0 && e.Machine == was.Machine && e.At >= max(h.Observations[u.last].At, h.Observations[u.last].Until) && e.At <= before {
			u.at = e.At
			return u, u.last+1 < len(h.Observations)
		}
	}
	return u, false
}

// whenAsked is the last look before the subject asked for the member's upgrade, and whether it led the
// ring then; if nobody heard it ask, the last look before its etcd ended. An agent that
// hands leadership over before it ends its etcd doesn't make of a leader a follower whose
// turn it was.
func whenAsked(h *ringproof.History, u passage) (look int, led bool) {
	look, asked := u.last, u.at
	for _, e := range events(h, ringproof.EventActionBegun) {
		if e.Member == u.member.ID && e.Action == string(ringproof.OpUpgrade) && e.At <= u.at {
			look, asked = max(0, slices.IndexFunc(h.Observations, func(o ringproof.Observation) bool { return o.At >= e.At })-1), e.At
		}
	}
	m, _ := h.Observations[look].Member(u.member.ID)
	return look, m.Leader && !movedLeader(h, ringproof.Span{From: h.Observations[look].At, To: asked})
}

// leftFor reports whether the member was asked to upgrade, as it led, before another voter was.
// Who has come to vote since had no turn then: the only voter of a ring was asked, a second was
// promoted, and the first took the release.
func (r passage) leftFor(h *ringproof.History, other ringproof.MemberID) bool {
	m, on := h.Observations[r.asked].Member(other)
	return r.led && on && !m.Learner
}

// movedLeader reports whether the subject began to move leadership then, or an operator was
// moving it.
func movedLeader(h *ringproof.History, during ringproof.Span) bool {
	return operating(h, during, ringproof.OpMoveLeader) || slices.ContainsFunc(events(h, ringproof.EventActionBegun), func(e ringproof.Event) bool {
		return e.Action == string(ringproof.OpMoveLeader) && e.At >= during.From && e.At < during.To
	})
}

// endedWithout reports whether another was away by the last look before the etcd was ended, and by the
// next, too. The member may have answered nobody for long before that: without a quorum it doesn't
// serve, and its restart waits until the others are back.
func (r passage) endedWithout(h *ringproof.History, other ringproof.MemberID) bool {
	last := r.last
	for last+2 < len(h.Observations) && max(h.Observations[last+1].At, h.Observations[last+1].Until) <= r.at {
		last++
	}
	before, was := h.Observations[last].Member(other)
	after, still := h.Observations[last+1].Member(other)
	return was && still && !before.Serving && !after.Serving && !backWithin(h, other, last+1, r.at)
}

// wrong says what an upgrade's restart should have waited for. A restart that a fault may
// have caused is judged by its release alone. Who was seen not to serve before
// and after was away when it was made.
func (r passage) wrong(h *ringproof.History) string {
	from, to := "v"+r.member.Version, "v"+r.to
	if !ringproof.Upgradable(from, to) {
		return fmt.Sprintf("expected %s to go up by no more than a minor, saw it go from %s to %s", r.member.Machine, from, to)
	}
	if r.excused {
		return ""
	}
	before, after := h.Observations[r.last], h.Observations[r.last+1]
	for _, v := range before.Voters() {
		if v.ID == r.member.ID {
			continue
		}
		now, still := after.Member(v.ID)
		switch {
		case still && !v.Serving && !now.Serving && r.endedWithout(h, v.ID):
			return fmt.Sprintf("expected %s to be upgraded while all other voters serve, saw %s away", r.member.Machine, v.Machine)
		case still && r.leftFor(h, v.ID) && v.Serving && now.Serving && v.Version == r.member.Version && now.Version == r.member.Version:
			return fmt.Sprintf("expected the leader to be upgraded last, saw %s lead and %s still run %s", r.member.Machine, v.Machine, from)
		}
	}
	return ""
}
