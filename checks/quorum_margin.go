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
// with less, as was asked; hence the margin of the smallest size asked for.
var quorumMargin = Check{
	Name:   "quorum-margin",
	Claim:  "No change by the subject leaves fewer voters to spare than before it and than the size asked for has.",
	Source: "etcd#8535 and the runtime reconfiguration guide: a voter added before it starts, or before a dead one is removed, can cost the quorum",
	Params: []Param{
		{"min", "0", "no change may lower the margin, intact voters less the quorum, below this"},
		{"grace", "5s", "how long a loss may be unknown to the subject that makes a change"},
	},
	Judge: func(h *ringproof.History, params Values) ringproof.Finding {
		if len(h.Evidence.Changes) == 0 {
			return with(unknown("the members' logs were not read: the membership's changes are unknown"), h.Evidence.Unknown...)
		}
		w := marginWalk{
			ledger: newLedger(h), config: newConfig(), least: params.Int("min"),
			grace: params.Duration("grace"), target: smallestAsked(h.Plan),
		}
		return w.judge()
	},
}

// marginWalk goes through the membership's changes in the order of the log.
type marginWalk struct {
	*ledger
	config config
	least  int
	grace  time.Duration
	target int // size
	lowest int
	passed int // observations gone by
}

func (w *marginWalk) judge() ringproof.Finding {
	changes, counted := w.h.Evidence.Changes, 0
	for _, c := range changes {
		if f, bad := w.wiped(c.At); bad {
			return f
		}
		if c.Founder {
			w.config.apply(c)
			w.lowest = w.marginAt(0)
			continue
		}
		counted++
		if f, bad := w.step(c); bad {
			return f
		}
	}
	if f, bad := w.wiped(ringproof.Forever - 1); bad {
		return f
	}
	return pass("%d changes after the founding: none took a voter to spare that it shouldn't have; lowest margin after a change %d", counted, w.lowest)
}

func (w *marginWalk) marginAt(at ringproof.Instant) int {
	return w.config.margin(func(m ringproof.MemberID) bool { return w.intact(m, at) })
}

// step applies one change and judges it. When exactly it was committed isn't
// known, only between which looks; and of a loss that is younger than the grace,
// or a disk that came back since, no subject can know. So each of these moments
// gets its say, and only what is wrong at all of them is charged. Nothing excuses
// an end below the floor at each moment of the commit itself.
func (w *marginWalk) step(c ringproof.ConfChange) (ringproof.Finding, bool) {
	at := w.ledger.seen(c)
	commit := w.committed(c, at)
	moments := append(slices.Clip(commit), max(at.Add(-w.grace), 0))
	moments = append(moments, w.lately(at, w.grace)...)
	var earlier []int
	for _, m := range moments {
		earlier = append(earlier, w.marginAt(m))
	}
	if !w.config.apply(c) {
		return ringproof.Finding{}, false
	}
	started := func(m ringproof.MemberID, moment ringproof.Instant) bool {
		return w.started(m, at) && !w.ruined(m, moment)
	}
	floor, lowered := true, true
	for i, m := range moments {
		after := w.config.margin(func(id ringproof.MemberID) bool { return started(id, m) })
		lowered = lowered && after < min(earlier[i], margin(w.target))
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
		c.Kind, c.Member, max(w.least, min(earlier[0], margin(w.target))), after, w.roll(at)), changeText(c)), true
}

// committed lists the moments at which the change may have been committed: when
// it was seen, and the looks before that, back to the last list read with a quorum
// that is without it. m5 leaves a ring of five, and just then m1 and m2 fall
// silent. The look that shows it comes when they are gone, and so does the look
// before, which finds nobody with a quorum; five were there when m5 left.
func (w *marginWalk) committed(c ringproof.ConfChange, at ringproof.Instant) []ringproof.Instant {
	since := w.before(at)
	for _, o := range slices.Backward(w.h.Observations[:w.observed(at)]) {
		if o.Fresh && without(&o, c) {
			since = min(since, o.At)
			break
		}
	}
	return append([]ringproof.Instant{at, since}, w.lately(at, at.Sub(since))...)
}

// without tells whether the list shows the member as it was before the change.
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

// landing is how long after an observation began a fault may land that it has
// seen: the observer looks at one machine after another.
const landing = time.Second

// wiped judges the disks that were replaced before the moment without a fault:
// a subject that empties the disk of a voter takes that voter. When one look
// shows both a member's removal and its disk cleared, the removal counts first:
// in that order it is right, and the other isn't proven.
func (w *marginWalk) wiped(until ringproof.Instant) (ringproof.Finding, bool) {
	for ; w.passed < len(w.h.Observations) && looked(&w.h.Observations[w.passed]) < until; w.passed++ {
		if w.passed == 0 {
			continue
		}
		o, old := &w.h.Observations[w.passed], &w.h.Observations[w.passed-1]
		for _, m := range o.Machines {
			was, ok := old.Machine(m.Name)
			if !ok || was.Disk >= m.Disk || w.faultTook(m.Name, o.At.Add(landing)) || !w.voterOn(home{m.Name, was.Disk}) {
				continue
			}
			before, after := w.marginAt(old.At), w.marginAt(o.At)
			if after < min(before, margin(w.target)) || after < before && after < w.least {
				return fail(o.At, "expected a voter's disk to be kept, machine %s has a new one without a fault: margin %d, then %d: %s",
					m.Name, before, after, w.roll(o.At)), true
			}
		}
	}
	return ringproof.Finding{}, false
}

// voterOn tells whether a voter lives on the disk.
func (w *marginWalk) voterOn(disk home) bool {
	for member, voter := range w.config.members { // order: any one is enough
		if voter && w.homes[member] == disk {
			return true
		}
	}
	return false
}

// looked is when the look was over.
func looked(o *ringproof.Observation) ringproof.Instant { return max(o.At, o.Until) }

// roll prints "4 voters, 3 intact, quorum 3".
func (w *marginWalk) roll(at ringproof.Instant) string {
	voters := 0
	for _, voter := range w.config.members {
		if voter {
			voters++
		}
	}
	quorum := ringproof.Quorum(voters)
	return fmt.Sprintf("%d voters, %d intact, quorum %d", voters, w.marginAt(at)+quorum, quorum)
}

// margin is what a healthy ring of n voters has to spare.
func margin(n int) int { return n - ringproof.Quorum(n) }

func smallestAsked(p ringproof.Plan) int {
	n := p.Ring.Size
	for _, s := range p.Steps {
		if s.Op != nil && s.Op.Kind == ringproof.OpScale && !s.Op.Refused && s.Op.To < n {
			n = s.Op.To
		}
	}
	return n
}
