// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/scenarios"
)

var (
	// mild to severe, as rapid and the shrinker take the first for the simplest
	selectors = []string{"follower", "leader", "follower/2", "voter", "spare", "minority", "leader-minority", "majority", "all"}
	lengths   = []ringproof.Duration{second, second / 2, 2 * second, 4 * second, 8 * second}
	skews     = []ringproof.Duration{second / 2, -second / 2, 30 * second, -30 * second, 600 * second, -600 * second}
	ages      = []ringproof.Duration{40 * day, 400 * day, 900 * day}
	far       = []ringproof.Duration{7200 * second, -7200 * second, 72000 * second, -72000 * second}
	syncs     = []ringproof.Duration{second / 10, second, 3 * second}
	delays    = []ringproof.Duration{second / 50, second / 10, second / 4, second / 2}
	// at which an agent on a machine is cut
	phases = []string{"before", "after", "reply-lost", "refused", "late"}
	// of the reference's records; "": all
	records = []string{"", "formed", "machines", "epochs"}
	// what the reference calls its files and records; another subject's are missed
	effects = []string{
		"start", "stop", "write disk.json", "rename etcd", "create machines", "create formed", "etcd txn", "etcd grant",
		"etcd keep-alive", "etcd member-add", "etcd member-promote", "etcd member-remove", "etcd move-leader",
	}
)

// fault adds the nth fault; way is what happens meanwhile.
func (c *composer) fault(n int, way []ringproof.Trigger) {
	label := func(what string) string { return fmt.Sprintf("fault/%d/%s", n, what) }
	if len(c.kinds) == 0 {
		return
	}
	entry := one(c.draw, label("kind"), c.kinds...)
	f := c.drawFault(entry, label)
	step := ringproof.Step{Name: fmt.Sprintf("fault-%d", n), Fault: &f}
	switch {
	case n <= c.founding:
		c.atFounding(&step, entry, label)
	case armed(f):
	case f.Kind == ringproof.FaultStoreOutage && c.draw(label("founding"), 4) == 3:
		step.After = &ringproof.Trigger{Event: ringproof.EventRunBegins, Nth: 1, Timeout: 20 * second}
	case len(way) > 0 && c.draw(label("when"), 4) > 0:
		step.After = new(one(c.draw, label("event"), way...))
		step.After.Delay = one(c.draw, label("after"), 0, second/20, second/2, 2*second)
		joins := step.After.Action == "bind" || step.After.Event == ringproof.EventMemberAdded
		if joins && faults.Legal("joining", entry.Targets) && c.draw(label("joining"), 2) == 1 {
			f.Target = "joining"
		}
	default:
		step.After = c.soon(label)
	}
	if step.After != nil && ledBy(*step.After) && faults.Legal(faults.Lead, entry.Targets) && c.draw(label("lead"), 3) == 2 {
		f.Target = faults.Lead
	}
	c.whomAgain(&f, entry, label, n)
	c.charge(f)
	c.add(step)
	c.again(step, label)
}

// whomAgain has a fault hit whom the one before it hit: who is cut off is removed, whose
// disk is full loses its power. Who that is no other selector says: who led doesn't lead any more.
func (c *composer) whomAgain(f *ringproof.Fault, e faults.Entry, label func(string) string, n int) {
	before := "step/" + c.hit
	if n > c.founding && c.hit != "" && faults.Legal(before, e.Targets) && f.Adds() == "" && f.From == "" && c.draw(label("hit"), 6) == 5 {
		f.Target, f.Stagger = before, 0
	}
	c.hit = ""
	if f.Target != "" && f.Target != "spare" && f.From == "" && faults.MostVoters(f.Target, mostVoters) == 1 {
		c.hit = fmt.Sprintf("fault-%d", n)
	}
}

// again has the fault come back up to three times, as a process does that crashes over and over,
// or a link that flaps: on the same machine, or on whoever is its target by then.
func (c *composer) again(step ringproof.Step, label func(string) string) {
	f := *step.Fault
	if armed(f) || once(f.Kind) || f.Age() > 0 || step.Early() || c.draw(label("again"), 12) < 11 {
		return
	}
	there := "step/" + step.Name
	if entry, _ := faults.Lookup(f.Kind); c.hit == step.Name && faults.Legal(there, entry.Targets) && c.draw(label("again-there"), 2) == 0 {
		f.Target = there
	}
	pause := one(c.draw, label("again-after"), second, second/5, 4*second, 12*second)
	for i := range 1 + c.draw(label("again-times"), 3) {
		next := step
		next.Name, next.Fault = fmt.Sprintf("%s-%d", step.Name, i+2), new(f)
		next.After = &ringproof.Trigger{Event: ringproof.EventStepBegun, Nth: 1, Delay: f.For + pause, Timeout: 20*second + f.For + pause}
		c.charge(f)
		c.add(next)
	}
}

// once reports whether a plan has a fault of the kind once. Two swaps that overlap, healed in
// their order, leave disks swapped; the authority lives for ten years; and whoever is added at a
// spare by hand, or is copied there, uses it up.
func once(kind ringproof.FaultKind) bool {
	return slices.Contains([]ringproof.FaultKind{ringproof.FaultDiskSwap, ringproof.FaultTimePasses, ringproof.FaultForeignHand, ringproof.FaultVolumeCopy}, kind)
}

// ledBy reports whether what is waited for is a change that the lead has just begun: it has
// decided, and not asked yet whether what it decided on still holds.
func ledBy(t ringproof.Trigger) bool {
	return t.Event == ringproof.EventActionBegun && t.Since != ringproof.EventRunBegins && t.Delay == 0
}

// ofFounding is what happens while a ring is bootstrapped.
var ofFounding = []ringproof.Trigger{
	{Event: ringproof.EventRunBegins}, {Event: ringproof.EventActionBegun, Action: "bootstrap"}, {Event: ringproof.EventActionDone, Action: "bootstrap"},
	{Event: ringproof.EventActionBegun, Action: "launch"}, {Event: ringproof.EventProcessStarted}, {Event: ringproof.EventProcessStarted, Nth: 2},
	{Event: ringproof.EventMemberStarted}, {Event: ringproof.EventRingCreated}, {Event: ringproof.EventActionBegun, Action: "bind"},
	{Event: ringproof.EventActionDone, Action: "bind"}, {Event: ringproof.EventActionDone, Action: "bind", Nth: 2},
}

// atFounding lets the fault meet the bootstrap. Nobody leads or votes then, so it
// aims at a machine by its name.
func (c *composer) atFounding(step *ringproof.Step, e faults.Entry, label func(string) string) {
	f := step.Fault
	if p, takes := e.Param("target"); takes && (p.Required || f.Target != "") && f.Kind != ringproof.FaultDiskSwap {
		f.Target = cmp.Or(c.focus, fmt.Sprintf("m%d", 1+c.draw(label("founder"), c.plan.Ring.Size)))
		if f.Target != c.focus && f.Kind != ringproof.FaultMachineLoss && faults.Legal("all", e.Targets) && c.draw(label("founders"), 4) == 3 {
			f.Target = "all"
		}
		f.Stagger = 0
	}
	after := one(c.draw, label("founding"), ofFounding...)
	if after.Event != ringproof.EventRunBegins {
		after.Since = ringproof.EventRunBegins
	}
	if armed(*f) {
		after = ringproof.Trigger{Event: ringproof.EventRunBegins}
	} else {
		after.Delay = one(c.draw, label("after"), 0, second/20, second/2, 2*second)
	}
	after.Nth, after.Timeout = max(after.Nth, 1), 60*second
	step.After = &after
}

// present keeps those of the selectors that surely find somebody, as far as it
// can be known: one that doesn't is a fault that does nothing.
func (c *composer) present(all ...string) []string {
	least := map[string]int{"follower": 2, "follower/2": 3, "minority": 3, "leader-minority": 3}
	return slices.DeleteFunc(all, func(s string) bool { return c.fewest < least[s] })
}

// armed reports whether the fault waits by itself for what it is to hit.
func armed(f ringproof.Fault) bool {
	switch f.Kind {
	case ringproof.FaultAgentCrash, ringproof.FaultStaleView, ringproof.FaultSkippedView:
		return true
	}
	return false
}

// drawFault draws every parameter that the catalogue gives the fault.
func (c *composer) drawFault(e faults.Entry, label func(string) string) ringproof.Fault {
	f := ringproof.Fault{Kind: e.Kind}
	for _, p := range e.Params {
		if p.Name == "scope" && armed(f) {
			continue // nothing that is drawn has a controller
		}
		c.param(&f, e, p, label(p.Name))
	}
	if f.Kind == ringproof.FaultAgentCrash {
		c.whatCrashes(&f, label)
		if f.Phase == "late" && !faults.Delayable(f.Effect) {
			f.Phase = "reply-lost"
		}
	}
	if p, ok := e.Param("target"); ok && !p.Required && c.draw(label("anyone"), 2) == 0 {
		f.Target = ""
	}
	switch {
	case e.Kind == ringproof.FaultTimePasses:
		f.For = f.By / (25 * day) * second
	case e.Kind == ringproof.FaultPartition && f.Shape == "pair" && c.fewest > 1:
		f.Target, f.From = "leader", "follower"
	case e.Kind == ringproof.FaultPartition:
		f.From = ""
		if f.Shape == "pair" {
			f.Shape = "split"
		}
	case f.Answers == ringproof.AnswersOther && c.plan.Ring.Security == "plain":
		f.Answers = ringproof.AnswersOldAddress // etcd itself may end of the other
	case e.Kind == ringproof.FaultVolumeLoss:
		f.By, f.How = 0, "" // only a copy has an age
		if slices.Contains([]string{"nothing", "identity"}, f.Leave) && c.draw(label("how"), 3) == 0 {
			f.How, f.For = ringproof.Removed, 0
		}
		if f.Leave == ringproof.LeaveCopy {
			f.By = one(c.draw, label("age"), 60*second, 40*second)
		}
	case e.Kind == ringproof.FaultDiskSwap && c.fewest < 3:
		f.Target, c.aims = "m1,m2", 1
	case e.Kind == ringproof.FaultDiskSwap:
		f.Target = one(c.draw, label("two"), "m1,m2", "m2,m3", "majority", "all")
	case e.Kind == ringproof.FaultForeignHand && f.Adds() != "":
		f.Target = "spare"
	case e.Kind == ringproof.FaultForeignHand && f.Target == "spare":
		f.Target = "follower"
	case e.Kind == ringproof.FaultMachineLoss:
		f.Target = one(c.draw, label("one"), c.present("follower", "leader")...)
	}
	if faults.MostVoters(f.Target, mostVoters) <= 1 {
		f.Stagger = 0
	}
	return f
}

// param draws one parameter: those of the same name alike, and any other by its type.
func (c *composer) param(f *ringproof.Fault, e faults.Entry, p faults.Param, label string) {
	switch p.Name {
	case "target":
		legal := slices.DeleteFunc(slices.Clone(selectors), func(s string) bool { return !faults.Legal(s, e.Targets) })
		f.Target = one(c.draw, label, c.present(legal...)...)
		if c.focus != "" && faults.Legal(c.focus, e.Targets) && c.draw(label+"/focus", 2) == 1 {
			f.Target = c.focus
		}
	case "leave":
		f.Leave = one(c.draw, label, slices.DeleteFunc(slices.Clone(p.Values), c.unknowable)...)
	case "records":
		f.Records = one(c.draw, label, records...)
	case "nth":
		f.Nth = 1 + c.draw(label, 3)
	case "phase":
		f.Phase = one(c.draw, label, phases...)
	case "percent":
		f.Percent = one(c.draw, label, percents(e.Kind)...)
	case "by":
		f.By = one(c.draw, label, c.amounts(e.Kind)...)
	case "stagger":
		f.Stagger = one(c.draw, label, 0, second)
	default:
		c.any(f, p, label)
	}
}

// any draws a parameter of a *ringproof.Fault or *ringproof.Op by its type alone. A word
// that is one of no list, a release and flags are left out: they can't be guessed.
func (c *composer) any(step any, p faults.Param, label string) {
	switch {
	case len(p.Values) > 0:
		faults.Put(step, p.Name, one(c.draw, label, p.Values...))
	case p.Type == faults.TypeTarget:
		faults.Put(step, p.Name, one(c.draw, label, c.present("follower", "leader")...))
	case p.Type == faults.TypeNumber:
		faults.Put(step, p.Name, p.Least+c.draw(label, min(4, cmp.Or(p.Most, 4))))
	case p.Type == faults.TypeDuration:
		// Always: what heals only as the last fault ends leaves nothing to overlap with.
		faults.Put(step, p.Name, one(c.draw, label, c.lengths...))
	case p.Type == faults.TypeShift:
		faults.Put(step, p.Name, one(c.draw, label, delays...))
	}
}

// unknowable is what no subject can tell from what it is not, however right it is: a store with
// other authorities than the ring's, for a machine that was given its certificate by them; and a copy
// of a disk that is younger than anybody's last word of that disk. The copy is made first, and
// put back long after all that a fault lasts for, but where one may last for as long. And
// nothing else happens before the ring has been asked: its members know what the copy has
// forgotten, and if all lose their power at that moment, nobody does.
func (c *composer) unknowable(leave string) bool {
	return leave == ringproof.LeaveAnew || leave == ringproof.LeaveCopy && (c.outlasts() || c.founding > 0)
}

func (c *composer) amounts(kind ringproof.FaultKind) []ringproof.Duration {
	switch kind {
	case ringproof.FaultClockSkew:
		if c.outlasts() {
			return slices.Concat(skews, far)
		}
		return skews
	case ringproof.FaultTimePasses:
		return ages
	case ringproof.FaultSlowDisk:
		return syncs
	}
	return delays
}

// percents are how many of 100 may be lost: replies, or the packets that are sent again.
func percents(kind ringproof.FaultKind) []int {
	if kind == ringproof.FaultPacketLoss {
		return []int{5, 15, 40}
	}
	return []int{20, 50, 100}
}

// whatCrashes draws the action, or the single effect, at which an agent dies.
func (c *composer) whatCrashes(f *ringproof.Fault, label func(string) string) {
	f.Action, f.Effect = one(c.draw, label("action"), scenarios.Standard().Actions...), ""
	if c.draw(label("fine"), 2) == 0 {
		return
	}
	f.Action, f.Effect = "", one(c.draw, label("effect"), c.effects()...)
}

// effects are those that there may be in the ring.
func (c *composer) effects() []string {
	if c.plan.Ring.Peers == "plain" {
		return append(slices.Clip(effects), "etcd member-update")
	}
	return effects
}

// charge counts what the fault uses up.
func (c *composer) charge(f ringproof.Fault) {
	if f.Kind == ringproof.FaultMachineLoss || f.Kind == ringproof.FaultVolumeCopy {
		c.spares++ // a machine with a copy on it serves for nothing
	}
	if f.Kind == ringproof.FaultDiskSwap || f.Kind == ringproof.FaultTimePasses {
		c.kinds = slices.DeleteFunc(c.kinds, func(e faults.Entry) bool { return e.Kind == f.Kind })
	}
	if f.Target == "spare" {
		c.aims = 1
	}
	c.chargeUnfit(f)
	// A loss that is unfair becomes a kill for a time.
	c.faulty += max(f.For, 5*second) + f.Stagger*mostVoters
}

// chargeUnfit counts the machines on which no etcd starts for longer than the automation
// waits: they are of no use for a while. However short a disk is full, months may pass in it.
func (c *composer) chargeUnfit(f ringproof.Fault) {
	const patience = 3 // times replaceAfter, that such a machine has
	switch {
	case f.Kind == ringproof.FaultTimePasses:
		c.unfit, c.briefly, c.ages = c.unfit+c.briefly, 0, true
	case f.Kind != ringproof.FaultDiskFull && f.Kind != ringproof.FaultStartFailure:
	case c.ages || f.For >= patience*c.plan.Ring.ReplaceAfter:
		c.unfit++
	default:
		c.briefly++
	}
}

// milestones are events on the way of an operation that adds so many voters,
// or takes so many away.
func milestones(op ringproof.Op, more int) []ringproof.Trigger {
	var way []ringproof.Trigger
	on := func(times int, event ringproof.EventKind, action string) {
		for n := range times {
			way = append(way, ringproof.Trigger{Event: event, Action: action, Nth: n + 1, Timeout: 20 * second})
		}
	}
	added, removed := max(more, 0), max(-more, 0)
	switch op.Kind {
	case ringproof.OpReplace:
		added, removed = 1, 1
	case ringproof.OpRoll, ringproof.OpRestart:
		on(1, ringproof.EventProcessExited, "")
		on(1, ringproof.EventProcessStarted, "")
	}
	for _, action := range []string{"add-learner", "promote"} {
		on(added, ringproof.EventActionBegun, action)
		on(added, ringproof.EventActionDone, action)
	}
	on(added, ringproof.EventActionDone, "bind")
	for _, event := range []ringproof.EventKind{ringproof.EventMemberAdded, ringproof.EventMemberStarted, ringproof.EventMemberPromoted} {
		on(added, event, "")
	}
	on(removed, ringproof.EventActionBegun, "remove")
	on(removed, ringproof.EventActionDone, "remove")
	on(removed, ringproof.EventMemberRemoved, "")
	return way
}

// disaster is a fault beyond what anybody survives: the subject must halt. One
// good copy is left, else there is nothing to judge it by.
func (c *composer) disaster() {
	c.plan.Mode = ringproof.ModeDisaster
	c.plan.Hypothesis = "With the quorum lost for good the subject halts and says so; it bootstraps no second ring and deletes nothing."
	c.plan.Ring.Size = max(c.plan.Ring.Size, 3)
	c.most = c.plan.Ring.Size
	loss := ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "majority", Leave: one(c.draw, "fault/1/leave", "nothing", "directories"),
		For: one(c.draw, "fault/1/for", 0, second, 4*second)}
	if c.draw("fault/1/dark", 3) == 2 {
		c.dark(loss)
	} else {
		c.add(ringproof.Step{Name: "lose", Fault: &loss})
		c.spares = c.draw("ring/spares", 2)
	}
	halts := ringproof.Step{Name: "halts", Join: c.joins, Assert: &ringproof.Assert{Within: 60 * second, Halted: true}}
	if len(c.joins) > 0 {
		halts.After = &ringproof.Trigger{Event: ringproof.EventFaultHealed, Step: "dark", Nth: 1, Timeout: 60 * second}
	}
	c.add(halts)
	c.plan.Ring.Machines = c.most + c.spares
}

// dark takes one machine's power for a time, and loses every other volume
// meanwhile: those that are left agree, and only the dark one knows better. It
// names the initial members, so there is no spare that could be one.
func (c *composer) dark(loss ringproof.Fault) {
	size := c.plan.Ring.Size
	off := ringproof.Fault{Kind: ringproof.FaultKill, Target: fmt.Sprintf("m%d", size), Scope: "machine", For: 20 * second}
	c.add(ringproof.Step{Name: "dark", Fault: &off, Detach: true})
	for i := 1; i < size; i++ {
		lost := loss
		lost.Target = fmt.Sprintf("m%d", i)
		c.add(ringproof.Step{Name: fmt.Sprintf("lose-%d", i), Fault: &lost})
	}
}
