// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

// quorumMargin charges the subject for its own changes only. Five voters of
// which one machine is lost have a margin of 1; adding a sixth voter that has
// never started makes the quorum 4 and the margin 0, with nothing gained: that
// is the subject's doing. Going from five healthy voters to three also ends
// with less, as was asked; hence the margin of the size that was asked for then.
var quorumMargin = Check{
	Name:   "quorum-margin",
	Claim:  "No change by the subject leaves fewer voters to spare, intact ones or serving ones, than before it and than the size asked for has.",
	Source: "etcd#8535 and the runtime reconfiguration guide: a voter added before it starts, or before a dead one is removed, can cost the quorum",
	Timed:  true,
	Params: []Param{
		{"min", "0", "no change may lower the margin, intact voters less the quorum, below this"},
		{"grace", "5s", "how long a loss may be unknown to the subject that makes a change"},
	},
	counts: true,
	Judge: func(h *ringproof.History, params Values) ringproof.Finding {
		if len(h.Evidence.Changes) == 0 {
			return with(unknown("the members' logs were not read: the membership's changes are unknown"), h.Evidence.Unknown...)
		}
		w := marginWalk{
			ledger: newLedger(h), config: newConfig(), least: params.Int("min"),
			grace: params.Duration("grace"), sizes: sizesOf(h),
		}
		return w.judge()
	},
}

// marginWalk goes through the membership's changes in the order of the log.
type marginWalk struct {
	*ledger
	config config
	stages []stage
	least  int
	grace  time.Duration
	sizes  []sizing
	lowest int
}

// stage is the membership that a change made, and when that was.
type stage struct {
	config config
	made   ringproof.Span
}

func (w *marginWalk) judge() ringproof.Finding {
	counted := 0
	for i, c := range w.h.Evidence.Changes {
		if c.Initial {
			w.config.apply(c)
			w.lowest = w.config.margin(func(ringproof.MemberID) bool { return true })
			w.stages = []stage{{config: w.config.clone()}}
			continue
		}
		counted++
		if c.Foreign {
			w.config.apply(c)
		} else if f, bad := w.step(c); bad && !w.overtaken(c, w.h.Evidence.Changes[:i]) {
			return f
		}
		w.stages = append(w.stages, stage{w.config.clone(), w.made(c)})
	}
	if f, bad := w.wiped(); bad {
		return f
	}
	if f, bad := w.endedFirst(); bad {
		return f
	}
	if f, bad := w.rejected(); bad {
		return f
	}
	return pass("%s after the bootstrap: none took a voter to spare that it shouldn't have; lowest margin after a change %d", ringproof.Counted(counted, "change"), w.lowest)
}

// overtaken reports whether somebody else changed the membership after the subject had asked
// for the change, and it was right when it was asked for: nobody can call back what is on its
// way. Of seven voters five are asked for. The subject asks that m7 leaves, that takes its
// time, and two others are removed by hand.
func (w *marginWalk) overtaken(c ringproof.ConfChange, before []ringproof.ConfChange) bool {
	asked, known := w.asked(c)
	if !known {
		return false
	}
	since := 0
	for _, other := range slices.Backward(before) {
		if !other.Foreign || other.At < asked {
			break
		}
		since++
	}
	if since == 0 {
		return false
	}
	then := marginWalk{ledger: w.ledger, config: w.stages[len(w.stages)-1-since].config.clone(), least: w.least, grace: w.grace, sizes: w.sizes}
	_, bad := then.step(ringproof.ConfChange{Kind: c.Kind, Member: c.Member, At: asked})
	return !bad
}

// asked is when the subject asked for the change last, before it was made.
func (w *marginWalk) asked(c ringproof.ConfChange) (at ringproof.Instant, known bool) {
	for _, e := range events(w.h, ringproof.EventActionBegun) {
		if e.Action == c.Kind && e.Member == c.Member && e.At <= c.At {
			at, known = e.At, true
		}
	}
	return at, known
}

// rejected judges what was asked for and refused by etcd as if it had been done: a
// subject that asks every second for a healthy voter's removal while a dead one is
// listed is kept by etcd's guard alone, which an operator may have switched off.
// While a change is under way nobody knows which membership was asked about, so only
// what is wrong in each is charged.
func (w *marginWalk) rejected() (ringproof.Finding, bool) {
	for _, r := range w.h.Evidence.Rejected {
		var f ringproof.Finding
		bad := false
		for i, s := range w.stages {
			if s.made.From > r.At || i+1 < len(w.stages) && w.stages[i+1].made.To < r.At {
				continue
			}
			as := marginWalk{ledger: w.ledger, config: s.config.clone(), least: w.least, grace: w.grace, sizes: w.sizes}
			if f, bad = as.step(ringproof.ConfChange{Kind: r.Kind, Member: r.Member, At: r.At}); !bad {
				break
			}
		}
		if bad {
			f.Message += "; etcd refused it: " + r.Why
			f.Evidence = []string{fmt.Sprintf("%s of %s, asked of %s at %s", r.Kind, r.Member, r.Machine, r.At)}
			return f, true
		}
	}
	return ringproof.Finding{}, false
}

// taken reports whether the disk of the member is gone at the moment and no fault took
// it. Then its loss excuses no removal: m3's disk was cleared and m3 removed between two
// looks, and nobody knows which was first. If it was the clearing, that cost the ring a
// voter, and at least as much as the removal would have.
func (w *marginWalk) taken(member ringproof.MemberID, at ringproof.Instant) bool {
	where := w.homes[member]
	return w.started(member, at) && where.disk != 0 && w.another(where, at) &&
		!w.lost(where.machine, at) && !w.faultTook(where, at.Add(landing))
}

func (w *marginWalk) marginAt(at ringproof.Instant) int { return w.marginOf(w.config, at) }

func (w *marginWalk) marginOf(c config, at ringproof.Instant) int {
	return c.margin(func(m ringproof.MemberID) bool { return w.intact(m, at) && !w.disabled(m, at) })
}

// step applies one change and judges it. When exactly it was committed isn't
// known, only between which looks; and of a loss that is younger than the grace,
// or a disk that came back since, no subject can know. So each of these moments
// gets its say, and only what is wrong at all of them is charged. Nothing excuses
// an end below the floor at each moment of the commit itself.
func (w *marginWalk) step(c ringproof.ConfChange) (ringproof.Finding, bool) {
	at := w.ledger.seen(c)
	commit := w.committed(c, at)
	grace := w.grace + w.starvedBefore(at, w.grace)
	moments := append(slices.Clip(commit), max(at.Add(-grace), 0))
	moments = append(moments, w.lately(at, grace)...)
	earlier, target := w.ahead(c, at, moments), w.smallest(w.made(c))
	silent := w.silent(commit)
	leaves := c.Kind == "remove" && w.away(c.Member, at) // who is away takes nobody from those that serve
	speaks := func(m ringproof.MemberID) bool { return w.intact(m, at) && !silent[m] && !(leaves && m == c.Member) }
	heard := w.config.margin(speaks)
	if !w.config.apply(c) {
		return ringproof.Finding{}, false
	}
	if left := w.config.margin(speaks); len(silent) > 0 && left < min(heard, margin(target)) {
		return with(fail(at, "expected %s of %s to wait for voters that had not answered for %s, saw it lower what is left to spare of those that serve from %d to %d",
			c.Kind, c.Member, hushed, heard, left), c.String()), true
	}
	started := func(m ringproof.MemberID, moment ringproof.Instant) bool {
		return w.started(m, at) && !w.ruined(m, moment) && !w.disabled(m, moment)
	}
	// Nobody can tell for ever whether what is away comes back: a ring of three
	// can't add while one is silent, so it lets that one go first.
	floor, lowered := true, c.Kind != "remove" || !w.away(c.Member, at)
	for i, m := range moments {
		after := w.config.margin(func(id ringproof.MemberID) bool { return started(id, m) })
		lowered = lowered && after < min(earlier[i], margin(target))
		if i < len(commit) {
			floor = floor && after < earlier[i] && after < w.least
		}
	}
	after := w.marginAt(at)
	w.lowest = min(w.lowest, after)
	if !floor && !lowered {
		return ringproof.Finding{}, false
	}
	return with(fail(at, "expected %s of %s to leave a margin of at least %d, saw %d: %s",
		c.Kind, c.Member, max(w.least, min(earlier[0], margin(target))), after, w.roll(w.config, at)), c.String()), true
}

// ahead lists the margins ahead of the change, with what was lost at each of the moments.
// Who came up since one of them is no loss that the subject doesn't know of, and a disk
// that was taken by the subject itself is no loss at all.
func (w *marginWalk) ahead(c ringproof.ConfChange, at ringproof.Instant, moments []ringproof.Instant) (margins []int) {
	from, taken := w.made(c).From, c.Kind == "remove" && w.taken(c.Member, at)
	for _, m := range moments {
		margins = append(margins, w.config.margin(func(id ringproof.MemberID) bool {
			lost := w.ruined(id, m) && !(taken && id == c.Member)
			return w.started(id, max(m, from)) && !lost && !w.disabled(id, m)
		}))
	}
	return margins
}

// hushed is for how long a voter has not answered before every subject must know.
const hushed = 2 * hearsay

// silent are the intact voters that didn't answer in any look from hushed before
// the first of the moments to the one after the last: who answers there may have come up
// before. That a real member didn't answer a look
// in time may be the prober's own doing: there its etcd must be known not to run.
func (w *marginWalk) silent(commit []ringproof.Instant) map[ringproof.MemberID]bool {
	from, to := slices.Min(commit).Add(-hushed), slices.Max(commit)
	first := w.observed(from) - 1
	if first < 0 {
		return nil
	}
	looks := w.h.Observations[first:min(w.observed(to)+1, len(w.h.Observations))]
	quiet := map[ringproof.MemberID]bool{}
	for member, voter := range w.config.members { // order: each is judged by itself
		mute := voter && w.intact(member, to)
		for _, o := range looks {
			m, listed := o.Member(member)
			if !listed {
				continue // the look that shows its removal
			}
			on, known := o.Machine(m.Machine)
			mute = mute && !m.Serving && (w.h.Tools.Virtual || known && (!on.Up || !on.Etcd))
		}
		if mute && !w.ended(member, looks) {
			quiet[member] = true
		}
	}
	return quiet
}

// ended reports whether the member's etcd ended between the last two looks: it may have
// answered meanwhile. m2 comes to serve, the subject hears it and acts, and an operator restarts
// m2, all within the tenth of a second between two looks.
func (w *marginWalk) ended(member ringproof.MemberID, looks []ringproof.Observation) bool {
	if len(looks) < 2 {
		return false
	}
	before, after := looks[len(looks)-2], looks[len(looks)-1]
	m, _ := after.Member(member)
	return slices.ContainsFunc(w.h.Events, func(e ringproof.Event) bool {
		return e.Kind == ringproof.EventProcessExited && e.Machine == m.Machine && before.At <= e.At && e.At <= after.At
	})
}

// committed lists the moments at which the change may have been committed: the
// ends of the time in which it was made, and the looks in it. m5 leaves a ring of
// five, and just then m1 and m2 fall silent. The look that shows it comes when they
// are gone, and so does the look before, which finds nobody with a quorum; five
// were there when m5 left.
func (w *marginWalk) committed(c ringproof.ConfChange, at ringproof.Instant) []ringproof.Instant {
	made := w.made(c)
	return append([]ringproof.Instant{at, made.From}, w.lately(at, made.Length())...)
}

// landing is how long after an observation began a fault may land that it has
// seen: the observer looks at one machine after another.
const landing = time.Second

// wiped judges the disks that were replaced without a fault: a subject that
// empties the disk of a voter takes that voter.
func (w *marginWalk) wiped() (ringproof.Finding, bool) {
	for i := 1; i < len(w.h.Observations); i++ {
		o, old := &w.h.Observations[i], &w.h.Observations[i-1]
		for _, m := range o.Machines {
			was, ok := old.Machine(m.Name)
			if !ok || was.Disk >= m.Disk || w.faultTook(home{m.Name, was.Disk}, max(o.At.Add(landing), looked(o))) {
				continue
			}
			if f, bad := w.took(home{m.Name, was.Disk}, old, o); bad {
				return f, true
			}
		}
	}
	return ringproof.Finding{}, false
}

// took judges a disk that was taken between two looks, by each membership that
// there may have been then: only what is wrong in all of them is charged. m2 is
// removed and then its disk is cleared, as it should be. One look finds the disk
// new, and as it finds nobody with a quorum a later one shows the removal first.
func (w *marginWalk) took(disk home, old, o *ringproof.Observation) (f ringproof.Finding, bad bool) {
	taken := ringproof.Span{From: old.At, To: looked(o)}
	for i, s := range w.stages {
		over := i+1 < len(w.stages) && w.stages[i+1].made.Before(taken)
		if over || taken.Before(s.made) {
			continue
		}
		before, after := w.marginOf(s.config, old.At), w.marginOf(s.config, o.At)
		if !w.votes(s.config, disk) || after >= min(before, margin(w.smallest(taken))) && (after >= before || after >= w.least) {
			return ringproof.Finding{}, false
		}
		if !bad {
			f, bad = fail(o.At, "expected a voter's disk to be kept, machine %s has a new one without a fault: margin %d, then %d: %s",
				disk.machine, before, after, w.roll(s.config, o.At)), true
		}
	}
	return f, bad
}

// endedFirst judges the voters that the subject ended first and removed later: of four voters
// whose fourth is gone three must serve, and of three it would have been two.
func (w *marginWalk) endedFirst() (ringproof.Finding, bool) {
	for _, c := range made(w.h) {
		if c.Kind != "remove" {
			continue
		}
		at := w.seen(c)
		e, ended := lastEnd(w.h, w.homes[c.Member].machine, at)
		away := at.Sub(e.At) - w.starvedBefore(at, w.grace)
		if ended && away > w.grace && w.tookVoter(e) && !served(w.h, e.Machine, e.At, at) {
			return with(fail(e.At, "expected %s to be removed before its etcd is ended, saw it ended on %s and listed for another %s", c.Member, e.Machine, away.Round(time.Millisecond)), e.String(), c.String()), true
		}
	}
	return ringproof.Finding{}, false
}

// tookVoter reports whether the subject ended the etcd, and a voter's.
func (w *marginWalk) tookVoter(end ringproof.Event) bool {
	last, voter := servedLast(w.h, end)
	return voter && !byItself(end) && !left(w.h, last, end.Machine) && !mayEnd(w.h, end.Machine, end.At)
}

// lastEnd is the last end of an etcd on the machine before a moment; ended: there was one.
func lastEnd(h *ringproof.History, machine string, before ringproof.Instant) (e ringproof.Event, ended bool) {
	all := slices.DeleteFunc(events(h, ringproof.EventProcessExited), func(e ringproof.Event) bool { return e.Machine != machine || e.At >= before })
	if len(all) == 0 {
		return ringproof.Event{}, false
	}
	return all[len(all)-1], true
}

// votes reports whether a voter of the membership lives on the disk.
func (w *marginWalk) votes(c config, disk home) bool {
	for member, voter := range c.members { // order: any one is enough
		if voter && w.homes[member] == disk {
			return true
		}
	}
	return false
}

// looked is when the look was over.
func looked(o *ringproof.Observation) ringproof.Instant { return max(o.At, o.Until) }

// roll prints "4 voters, 3 intact, quorum 3".
func (w *marginWalk) roll(c config, at ringproof.Instant) string {
	voters := 0
	for _, voter := range c.members { // order: they are counted
		if voter {
			voters++
		}
	}
	quorum := ringproof.Quorum(voters)
	return fmt.Sprintf("%s, %d intact, quorum %d", ringproof.Counted(voters, "voter"), w.marginOf(c, at)+quorum, quorum)
}

// margin is what a healthy ring of n voters has to spare.
func margin(n int) int { return n - ringproof.Quorum(n) }

// sizing is a size that was asked for, from when, and when another was.
type sizing struct {
	size int
	from ringproof.Instant
	over ringproof.Instant // Forever: it is what was asked for last
}

// sizesOf lists the sizes that were asked for. One is over as a later one is done. Of one that
// failed nobody knows whether it was taken; and of two that were asked for at once by two
// operators, which came first.
func sizesOf(h *ringproof.History) []sizing {
	all := []sizing{{h.Plan.Ring.Size, 0, ringproof.Forever}}
	rivals := slices.ContainsFunc(h.Plan.Steps, func(s ringproof.Step) bool { return s.Op != nil && s.Op.Rival })
	for _, s := range h.Plan.Steps {
		if s.Op == nil || s.Op.Kind != ringproof.OpScale || s.Op.Refused {
			continue
		}
		begun, done := ringproof.Forever, ringproof.Forever
		for _, e := range events(h, ringproof.EventStepBegun, ringproof.EventStepDone) {
			switch {
			case e.Step == s.Name && e.Kind == ringproof.EventStepBegun:
				begun = e.At
			case e.Step == s.Name:
				done = e.At
			}
		}
		for i := range all {
			if !rivals && all[i].from <= begun {
				all[i].over = min(all[i].over, done)
			}
		}
		all = append(all, sizing{s.Op.To, begun, ringproof.Forever})
	}
	return all
}

// smallest is the smallest size that the subject may have gone by at a moment of the span: what was asked
// for, or before, as long as somebody may not have heard of the other. A busy host took 2.5 s for a look,
// and within it three voters were asked for, and a fifth one left.
func (w *marginWalk) smallest(when ringproof.Span) int { return smallest(w.h, w.sizes, when) }

func smallest(h *ringproof.History, sizes []sizing, when ringproof.Span) int {
	n := 0
	for _, s := range sizes {
		if s.from <= when.To.Add(landing) && (s.over == ringproof.Forever || heard(h, s.over, when.From) >= when.From) && (n == 0 || s.size < n) {
			n = s.size
		}
	}
	return n
}
