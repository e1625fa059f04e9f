// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

// statusHonest: who is paged for a ring, and who waits for one, reads its status. A status
// that is written only while the ring can be reached says for the whole of an outage that
// all is well.
var statusHonest = Check{
	Name:   "status-honest",
	Claim:  "What the status of the ring's object says was so a short time ago: whether the ring serves, who is in it and how many vote, whether it is as asked or needs a person, and that it is of what is asked for now.",
	Source: "Kubernetes' API conventions: a status is the state last observed, and observedGeneration is that of which spec; cozystack's etcd-operator#367 returned before the status while etcd couldn't be reached",
	Timed:  true,
	Params: []Param{
		{"within", "60s", "how long it may say what is no longer so, while whoever writes it is alive"},
		{"least", "2", "how many times what it said must have been seen to be so, the last time at the end"},
	},
	Judge: func(h *ringproof.History, params Values) ringproof.Finding {
		told := h.Evidence.Statuses
		if len(told) < 2 {
			return unknown("the status of the ring's object was read %s", ringproof.Counted(len(told), "time"))
		}
		judged := 0
		for i := range told[1:] {
			if said := told[i+1]; written(told, i+1) && (said.Available != "" || said.Voters >= 0) {
				judged++
			}
		}
		if judged == 0 {
			return unknown("the status was read %s, and never while it said how the ring fares and whoever writes it was seen alive", ringproof.Counted(len(told), "time"))
		}
		within := params.Duration("within")
		for _, c := range claims {
			span, said := longestLie(h, c)
			switch h.Evidence.Starved.Overran(span, within) {
			case ringproof.Fail:
				return with(fail(span.To, "expected the status to be no older than %s, saw it say for %s %s", within, span.Length().Round(time.Second), c.says(said)), said.String())
			case ringproof.Inconclusive:
				return starved(h, span, "the status said for %s %s, and %s are allowed", span.Length().Round(time.Second), c.says(said), within)
			}
		}
		// A status that has been wrong for less than it may be when the run ends is no honest one
		// yet, and of one that nobody compared with the ring nobody knows.
		if times, last := borneOut(h); times < params.Int("least") || watchEnds(h).Sub(last) > unread {
			return unknown("what the status said was seen to be so %s, at last at %s; expected at least %d, and one at the end", ringproof.Counted(times, "time"), last, params.Int("least"))
		}
		return pass("of %s of the status, %d of them while whoever writes it was alive, none was wrong for more than %s", ringproof.Counted(len(told), "reading"), judged, within)
	},
	hears: []ringproof.EventKind{ringproof.EventStatus},
	suits: func(p ringproof.Plan) bool { return safely(p) && p.Ring.On == ringproof.OnKubernetes },
}

// claim is one thing that a status says. It is wrong of a span where what was seen in the
// whole of it contradicts it; what nobody saw contradicts nothing.
type claim struct {
	says  func(ringproof.Status) string
	wrong func(h *ringproof.History, s ringproof.Status, over ringproof.Span) bool
}

var claims = []claim{
	{
		says: func(ringproof.Status) string { return "that the ring serves, which it did not" },
		wrong: func(h *ringproof.History, s ringproof.Status, over ringproof.Span) bool {
			return s.Available == "True" && unserved(h, over)
		},
	},
	{
		says: func(ringproof.Status) string { return "that the ring does not serve, which it did" },
		wrong: func(h *ringproof.History, s ringproof.Status, over ringproof.Span) bool {
			return s.Available == "False" && faultless(h, over) && seenAs(h, over, func(o ringproof.Observation) bool { return o.Fresh })
		},
	},
	{
		says:  func(ringproof.Status) string { return "nothing of what is asked for now" },
		wrong: func(_ *ringproof.History, s ringproof.Status, _ ringproof.Span) bool { return !s.Current },
	},
	{
		says: func(s ringproof.Status) string {
			return fmt.Sprintf("that the voters are %d, which they were not", s.Voters)
		},
		wrong: func(h *ringproof.History, s ringproof.Status, over ringproof.Span) bool {
			return s.Voters >= 0 && faultless(h, over) && seenAs(h, over, func(o ringproof.Observation) bool { return o.Fresh && len(o.Voters()) != s.Voters })
		},
	},
	{
		says: func(ringproof.Status) string { return "who is in the ring, and others were" },
		wrong: func(h *ringproof.History, s ringproof.Status, over ringproof.Span) bool {
			return len(s.Members) > 0 && faultless(h, over) && seenAs(h, over, func(o ringproof.Observation) bool { return o.Fresh && !slices.Equal(idsOf(o.Members), s.Members) })
		},
	},
	{
		says: func(s ringproof.Status) string {
			return "that the ring is not as asked, or needs a person, and it was and needed none"
		},
		wrong: func(h *ringproof.History, s ringproof.Status, over ringproof.Span) bool {
			return (s.Degraded == "True" || s.Halted == "True") && asAsked(h, over)
		},
	},
	{
		says: func(ringproof.Status) string {
			return "that the ring is as asked, and no etcd ran where a member votes"
		},
		wrong: func(h *ringproof.History, s ringproof.Status, over ringproof.Span) bool {
			return s.Degraded == "False" && seenAs(h, over, votesInVain)
		},
	},
}

// idsOf are the members' IDs, sorted.
func idsOf(members []ringproof.MemberView) (all []ringproof.MemberID) {
	for _, m := range members {
		all = append(all, m.ID)
	}
	slices.Sort(all)
	return all
}

// asAsked reports whether in the whole span no fault was in force, nothing that was asked for was
// still to be done, and the ring was such as was asked for last.
func asAsked(h *ringproof.History, over ringproof.Span) bool {
	return faultless(h, over) && !operating(h, over) && seenAs(h, over, func(o ringproof.Observation) bool {
		idle := slices.ContainsFunc(o.Members, func(m ringproof.MemberView) bool { return !m.Serving || m.Learner })
		return o.Fresh && !idle && len(o.Members) == h.Evidence.Spec
	})
}

// votesInVain reports whether the ring answers, and lists a voter on a machine on which no etcd runs.
func votesInVain(o ringproof.Observation) bool {
	return o.Fresh && slices.ContainsFunc(o.Voters(), func(m ringproof.MemberView) bool {
		on, known := o.Machine(m.Machine)
		return known && !m.Serving && (!on.Up || !on.Etcd)
	})
}

// A claim is looked at from reading to reading. Those that are further apart than unread
// say that nobody could write either, and who was not seen alive for so long as dead may
// have been dead: a Lease is renewed every 2 s, a node's every 10.
const (
	unread = 10 * time.Second
	dead   = 15 * time.Second
)

// written reports whether who writes the status could have mended what the reading before
// the nth said: both could be read, and he was seen alive not long ago.
func written(told []ringproof.Status, n int) bool {
	s, before := told[n], told[n-1]
	if s.Alive == "" || s.At.Sub(before.At) > unread {
		return false
	}
	since := slices.IndexFunc(told, func(t ringproof.Status) bool { return t.Alive == s.Alive })
	return s.At.Sub(told[since].At) <= dead
}

// longestLie is the longest span over which a claim was made and wrong, while who writes the
// status could have mended it, and the reading with which it ends.
func longestLie(h *ringproof.History, c claim) (longest ringproof.Span, said ringproof.Status) {
	told, since := h.Evidence.Statuses, ringproof.Forever
	for n := 1; n < len(told); n++ {
		over := ringproof.Span{From: told[n-1].At, To: told[n].At}
		if !written(told, n) || !c.wrong(h, told[n-1], over) || !c.wrong(h, told[n], over) {
			since = ringproof.Forever
			continue
		}
		since = min(since, over.From)
		if now := (ringproof.Span{From: since, To: over.To}); now.Length() > longest.Length() {
			longest, said = now, told[n]
		}
	}
	return longest, said
}

// borneOut counts the readings whose words were seen to be so since the one before, and says when
// the last of them was.
func borneOut(h *ringproof.History) (times int, last ringproof.Instant) {
	told := h.Evidence.Statuses
	for n := 1; n < len(told); n++ {
		over := ringproof.Span{From: told[n-1].At, To: told[n].At}
		if written(told, n) && soSeen(h, told[n], over) {
			times, last = times+1, told[n].At
		}
	}
	return times, last
}

// soSeen reports whether the ring was looked at in the span, and all that the status says of it was so.
func soSeen(h *ringproof.History, s ringproof.Status, over ringproof.Span) bool {
	if s.Available == "False" {
		return unserved(h, over)
	}
	if slices.ContainsFunc(claims, func(c claim) bool { return c.wrong(h, s, over) }) {
		return false
	}
	says := s.Available == "True" || s.Voters >= 0
	return says && s.Current && seenAs(h, over, func(o ringproof.Observation) bool {
		return o.Fresh && (s.Voters < 0 || len(o.Voters()) == s.Voters)
	})
}

// watchEnds is the end of the run, or of the readings where it isn't told.
func watchEnds(h *ringproof.History) ringproof.Instant {
	end, _ := ended(h)
	return max(end, h.Evidence.Statuses[len(h.Evidence.Statuses)-1].At)
}

// seenAs reports whether the ring was looked at in the span, and was such each time.
func seenAs(h *ringproof.History, over ringproof.Span, such func(ringproof.Observation) bool) bool {
	looks := 0
	for _, o := range h.Observations {
		if o.At < over.From || o.At > over.To {
			continue
		}
		if looks++; !such(o) {
			return false
		}
	}
	return looks > 0
}

// unserved reports whether nobody was served in the whole span: no look found a quorum, and
// no client was answered by one.
func unserved(h *ringproof.History, over ringproof.Span) bool {
	return seenAs(h, over, quorumless) && !slices.ContainsFunc(h.Operations, func(o ringproof.Operation) bool {
		return o.Acked() && byQuorum(o.Request) && o.Return >= over.From && o.Return <= over.To
	})
}

// quorumless reports whether a look found that there was no quorum. That nobody answered is
// no such thing, where an etcd runs.
func quorumless(o ringproof.Observation) bool {
	voters := o.Voters()
	if len(voters) == 0 {
		return !slices.ContainsFunc(o.Machines, func(m ringproof.MachineView) bool { return m.Up && m.Etcd })
	}
	serving := slices.DeleteFunc(slices.Clone(voters), func(m ringproof.MemberView) bool { return !m.Serving })
	return !o.Fresh && len(serving) < ringproof.Quorum(len(voters))
}

// faultless reports whether the span has no fault in it, which may part who writes the status
// from a ring that others see.
func faultless(h *ringproof.History, over ringproof.Span) bool {
	hits := events(h, ringproof.EventFaultLanded)
	if len(hits) == 0 || hits[0].At > over.To {
		return true
	}
	healed := events(h, ringproof.EventHealPhase)
	return len(healed) > 0 && healed[len(healed)-1].At <= over.From
}
