// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

// workBounded: a ring that ends as it should may have been made so by a subject
// that replaces a silent member every ten seconds, or restarts what was well.
// Each change is a moment in which a fault does more.
var workBounded = Check{
	Name:   "work-bounded",
	Claim:  "The subject makes no more membership changes, and ends no more etcd processes of machines that no fault hit, than what was asked for and what faults made needful; and none while the ring is suspended. What failed is not tried again without a pause, and what was done is not done again and again.",
	Source: "etcd-launcher restarts every member for one lost volume; etcdadm adds and removes one learner for ever",
	Timed:  true,
	Params: []Param{
		{"changes", "-1", "membership changes after the bootstrap; -1: as many as the plan and its faults explain"},
		{"restarts", "0", "ends of etcd processes on machines that no fault and no step restarted"},
	},
	counts: true,
	Judge: func(h *ringproof.History, params Values) ringproof.Finding {
		if len(h.Evidence.Changes) == 0 {
			return with(unknown("the members' logs were not read: the membership's changes are unknown"), h.Evidence.Unknown...)
		}
		if _, over := ended(h); !over {
			return unknown("the run has no run-ends event: what the subject did after it was cut off is unknown")
		}
		changed, ends := later(h), needlessEnds(h)
		budget, spare := params.Int("changes"), params.Int("restarts")
		if budget < 0 {
			budget = explained(h)
		}
		stir, stirs, still := stirred(h)
		spin, tried, spins := spinning(h)
		again, overdone := doneAgain(h)
		switch {
		case spins:
			return with(fail(spin.At, "expected %s to be tried again after a pause, saw it fail %d times on %s in %s", tried, tooOften, spin.Machine, spinSpan), spin.String())
		case overdone:
			return with(fail(again.At, "expected %s of member %s to be done once, saw it done %d times in %s", again.Action, again.Member, overdo, spinSpan), again.String())
		case stirs:
			return with(fail(stir.At, "expected nothing to be changed while the ring is suspended, saw %s", stir.Action), stir.String())
		case len(changed) > budget:
			return unlessStarved(h, with(fail(changed[budget].At, "expected at most %s, saw %d", ringproof.Counted(budget, "membership change"), len(changed)), texts(changed)...))
		case len(ends) > spare && h.Evidence.Gap == "": // else those may be of members that were removed
			return unlessStarved(h, with(fail(ends[spare].At, "expected at most %s of etcd on machines that no fault hit and nobody restarted, saw %d", ringproof.Counted(spare, "end"), len(ends)), lines(ends)...))
		}
		f := pass("%s of %d that may be, %s of etcd", ringproof.Counted(len(changed), "membership change"), budget, ringproof.Counted(len(ends), "needless end"))
		if still > 0 {
			f.Message += fmt.Sprintf(", and nothing changed in %s of a ring that was suspended", still.Round(time.Second))
		}
		return f
	},
	suits: safely,
}

// Who tries so often in so short a time makes no pause: what etcd refuses now it refuses at
// once again, and each try is a request of a ring in need and two lines of a log. So is a start
// of an etcd that ends at once: a launcher that made one after another had a processor busy,
// and filled a disk with what etcd says.
const (
	tooOften = 30
	spinSpan = 10 * time.Second
)

// spinning is the failure by which something was tried too often on its machine, and what
// that was. An etcd that says why it ends, and is started again, is such a try too.
func spinning(h *ringproof.History) (last ringproof.Event, what string, spins bool) {
	type try struct{ machine, what string }
	failed := map[try][]ringproof.Instant{}
	for _, e := range events(h, ringproof.EventActionFailed, ringproof.EventProcessExited) {
		of := try{e.Machine, e.Action}
		if e.Kind == ringproof.EventProcessExited {
			if !byItself(e) {
				continue
			}
			of.what = "the start of etcd"
		}
		times := append(failed[of], e.At)
		if n := len(times); n >= tooOften && e.At.Sub(times[n-tooOften]) <= spinSpan {
			return e, of.what, true
		}
		failed[of] = times
	}
	return ringproof.Event{}, "", false
}

// overdo is how often one thing is done in that time by who doesn't see that it is done.
const overdo = 10

// doneAgain is the action by which the same was done to a member too often: who doesn't wait for
// what it has asked for asks for it in each turn, and each is a write of the ring's. Who is shown
// what was before can't see what it has done.
func doneAgain(h *ringproof.History) (last ringproof.Event, overdone bool) {
	type deed struct {
		member ringproof.MemberID
		what   string
	}
	done, misled := map[deed][]ringproof.Instant{}, map[string]bool{}
	for _, e := range events(h, ringproof.EventActionDone, ringproof.EventFaultLanded, ringproof.EventFaultHealed) {
		stale := e.Fault == ringproof.FaultStaleView || e.Fault == ringproof.FaultStoreStale
		switch {
		case stale && e.Kind == ringproof.EventFaultLanded:
			misled[e.Step] = true
		case e.Kind == ringproof.EventFaultHealed:
			delete(misled, e.Step)
		}
		if e.Kind != ringproof.EventActionDone || len(misled) > 0 {
			continue
		}
		of := deed{e.Member, e.Action + " " + e.Command}
		times := append(done[of], e.At)
		if n := len(times); e.Member != 0 && n >= overdo && e.At.Sub(times[n-overdo]) <= spinSpan {
			return e, true
		}
		done[of] = times
	}
	return ringproof.Event{}, false
}

// made are the changes after the bootstrap that had an effect.
func made(h *ringproof.History) []ringproof.ConfChange { return madeSince(h, 0) }

// later are those of them that don't bootstrap the ring: who bootstraps it with one member, as
// etcd-io's operator does, grows it to the size that it is first asked to have.
func later(h *ringproof.History) []ringproof.ConfChange { return madeSince(h, h.Plan.Ring.Size) }

// madeSince leaves out by what a ring grows that has not had so many voters yet. Where logs
// don't reach back to its initial members nobody knows how many it had, and all counts.
func madeSince(h *ringproof.History, voters int) (all []ringproof.ConfChange) {
	c := newConfig()
	whole := !slices.ContainsFunc(h.Evidence.Changes, func(c ringproof.ConfChange) bool { return c.Initial })
	for _, change := range h.Evidence.Changes {
		whole = whole || c.voters() >= voters
		grows := slices.Contains([]string{"add-voter", "add-learner", "promote"}, change.Kind)
		if c.apply(change) && !change.Initial && !change.Foreign && (whole || !grows) {
			all = append(all, change)
		}
	}
	return all
}

func texts(changes []ringproof.ConfChange) (all []string) {
	for _, c := range changes {
		all = append(all, c.String())
	}
	return all
}

// A replacement is three changes: add, promote, remove. A fault may cut off an
// addition, which is then taken back and made anew, and take a member meanwhile.
const (
	replacement = 3
	interrupted = 2 * replacement
	takenBack   = 2 // an addition that was begun, and its removal
)

// explained is how many changes the operations ask for, and the absences and
// the faults that landed may cost, machine by machine.
func explained(h *ringproof.History) int {
	n, size := 0, h.Plan.Ring.Size
	for _, s := range h.Plan.Steps {
		switch {
		case s.Op == nil || s.Op.Refused:
		case s.Op.Kind == ringproof.OpScale:
			n += max(2*(s.Op.To-size), size-s.Op.To)
			size = s.Op.To
		case s.Op.Kind == ringproof.OpReplace:
			n += replacement
		case s.Op.Kind == ringproof.OpPeers:
			n += relistings(h)
		case outlasts(s.Op, h.Plan.Ring):
			n += interrupted
		}
	}
	for _, e := range events(h, ringproof.EventFaultLanded) {
		n += costOf(h.Plan, e)
	}
	return n + replacement*overstayed(h) + outworn(h)
}

// costOf is how many changes a fault that has landed may cost. What takes no member for as long as
// a spare waits costs an addition that it cuts off, which is taken back and made anew: nobody is
// replaced for an alarm, or as the automation's store was away.
func costOf(p ringproof.Plan, landed ringproof.Event) int {
	f, known := faultOf(p, landed.Step)
	if known && (unfelt(f, landed.Fault) || brief(p, f, landed.Fault)) {
		return takenBack
	}
	return interrupted
}

// unfelt reports whether the fault ends no member and hides none: it comes to the automation, or to what
// the automation goes by.
func unfelt(f ringproof.Fault, landed ringproof.FaultKind) bool {
	return f.Scope == ringproof.ScopeController || automations[landed]
}

// automations are the faults that no member feels.
var automations = map[ringproof.FaultKind]bool{ringproof.FaultStoreOutage: true, ringproof.FaultStoreStale: true, ringproof.FaultStaleView: true,
	ringproof.FaultSkippedView: true, ringproof.FaultAlarmRaised: true, ringproof.FaultKeysDamaged: true, ringproof.FaultDryRun: true, ringproof.FaultAPIOutage: true,
	ringproof.FaultStatusEmptied: true, ringproof.FaultRecordsDeleted: true, ringproof.FaultUpgraded: true, ringproof.FaultKubeKill: true,
	ringproof.FaultAdmissionDenied: true, ringproof.FaultStoreLost: true}

// brief reports whether what the fault took is back before a spare takes its place. What of
// several such comes to one long absence is counted by itself. Of an agent that alone is away,
// for however long, the member serves on.
func brief(p ringproof.Plan, f ringproof.Fault, landed ringproof.FaultKind) bool {
	alone := f.Scope == "agent" && (landed == ringproof.FaultPause || landed == ringproof.FaultKill && !f.Permanent())
	switch landed {
	case ringproof.FaultMachineLoss, ringproof.FaultVolumeLoss, ringproof.FaultForeignHand, ringproof.FaultTimePasses, ringproof.FaultDiskSwap:
		return false
	case ringproof.FaultAgentCrash:
		return true
	case ringproof.FaultKill:
		return alone || f.Scope != "machine" && !f.Permanent() && f.For < p.Ring.ReplaceAfter || f.For > 0 && f.For < p.Ring.ReplaceAfter
	}
	return alone || f.For > 0 && f.For < p.Ring.ReplaceAfter
}

// relistings counts the members that were listed at another URL, each once.
func relistings(h *ringproof.History) int {
	relisted := map[ringproof.MemberID]bool{}
	for _, c := range made(h) {
		if c.Kind == "update" {
			relisted[c.Member] = true
		}
	}
	return len(relisted)
}

// outworn counts the changes that were made while years passed. A learner that needs
// a second to come up needs hours then by everybody's clock, time and again: that it
// is given up each time bounds nobody's patience.
func outworn(h *ringproof.History) (n int) {
	l := newLedger(h)
	for _, c := range made(h) {
		if at := l.seen(c); l.aged(at.Add(-hearsay), at) {
			n++
		}
	}
	return n
}

// outlasts reports whether a machine is restarted with a pause in which a spare
// takes its place: off for eight seconds in a ring that waits for five, it is
// replaced as if it were gone, and comes back to a ring that has let it go. So is one whose
// disk somebody asks to be reset, though that is refused.
func outlasts(op *ringproof.Op, r ringproof.RingSpec) bool {
	off := map[ringproof.OpKind]ringproof.Duration{ringproof.OpRestart: op.For, ringproof.OpReset: stopping}[op.Kind]
	return r.ReplaceAfter > 0 && off >= r.ReplaceAfter
}

// stopping is about how long an agent takes to end its etcd whose clients keep their streams
// open: so long at least is a machine away whose disk somebody asks to be reset.
const stopping = ringproof.Duration(6 * time.Second)

// overstayed counts the members that had been away for as long as a spare waits, in short
// restarts or by short faults, when they were removed: two pauses of four seconds with a visit between
// them that nobody could hear of are one of eight; and so is one pause of four, if the
// etcd before it waited four more for its clients to close their streams. Such a one may be
// back by the time that the learner is there which was added in its stead.
func overstayed(h *ringproof.History) int {
	rests, hit := pauses(h.Plan), briefly(h)
	if len(rests) == 0 && len(hit) == 0 {
		return 0
	}
	l, all := newLedger(h), map[ringproof.MemberID]bool{}
	struck := func(m ringproof.MemberID, at ringproof.Instant) bool {
		return slices.ContainsFunc(hit, func(e ringproof.Event) bool {
			return e.At <= at && (e.Machine == "" || e.Machine == l.homes[m].machine)
		})
	}
	for _, c := range made(h) {
		switch c.Kind {
		case "remove":
			if l.away(c.Member, c.At) && (len(rests) > 1 || struck(c.Member, c.At) || len(rests) == 1 && l.lingered(c.Member, c.At, rests[0])) {
				all[c.Member] = true
			}
		case "add-learner":
			// By which the addition is seen who was away may be back.
			at := askedFor(h, c)
			for m := range l.homes { // order: into a map
				if l.away(m, at) && (struck(m, at) || len(rests) > 0 && l.lingered(m, at, slices.Max(rests))) {
					all[m] = true
				}
			}
		}
	}
	return len(all)
}

// askedFor is when the subject began what made the change: the last such action before it was seen.
func askedFor(h *ringproof.History, c ringproof.ConfChange) ringproof.Instant {
	for _, e := range slices.Backward(events(h, ringproof.EventActionBegun)) {
		if e.At <= c.At && e.Action == c.Kind {
			return e.At
		}
	}
	return c.At
}

// briefly lists the faults that took members for a short time.
func briefly(h *ringproof.History) (all []ringproof.Event) {
	for _, e := range events(h, ringproof.EventFaultLanded) {
		if f, known := faultOf(h.Plan, e.Step); known && !unfelt(f, e.Fault) && brief(h.Plan, f, e.Fault) {
			all = append(all, e)
		}
	}
	return all
}

// pauses are those of the plan's restarts in which nobody would be replaced.
func pauses(p ringproof.Plan) (all []time.Duration) {
	for _, s := range p.Steps {
		switch {
		case s.Op == nil || s.Op.Kind != ringproof.OpRestart && s.Op.Kind != ringproof.OpRoll || outlasts(s.Op, p.Ring):
		case s.Op.For > 0:
			all = append(all, s.Op.For.Std())
		case s.Op.Scope != "" && s.Op.Scope != "process":
			all = append(all, comesBack)
		}
	}
	return all
}

// comesBack is about how long an agent that is started anew takes until its etcd serves.
const comesBack = 2 * time.Second

// lingered reports whether the member's etcd took so long to end, unseen, that with the
// pause after it the machine was away for as long as a spare waits.
func (l *ledger) lingered(member ringproof.MemberID, at ringproof.Instant, rest time.Duration) bool {
	where, unseen := l.homes[member], l.unseen(member, at)
	return slices.ContainsFunc(events(l.h, ringproof.EventProcessExited), func(e ringproof.Event) bool {
		return e.Machine == where.machine && e.At > unseen && e.At <= at && e.At.Sub(unseen)+rest >= l.h.Plan.Ring.ReplaceAfter.Std()
	})
}
