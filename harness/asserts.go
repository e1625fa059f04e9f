// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
)

// scene is what an assert is judged on.
type scene struct {
	now    ringproof.Observation // the last look
	looks  []ringproof.Observation
	events []ringproof.Event
}

// unmet says what is seen in place of what the assert wants of machines, members and
// the subject; nothing when all of it is there. That the members serve, and how many
// they are, is for others to judge.
func (s scene) unmet(a ringproof.Assert) (saw []string) {
	see := func(ok bool, what string) {
		if !ok {
			saw = append(saw, what)
		}
	}
	if loop := s.looping(); a.OfRing() {
		see(len(loop) == 0, phrase(loop, "", "etcd end again and again on %s"))
	}
	if a.Left != nil {
		gone := s.left()
		see(slices.Equal(gone, s.machines(*a.Left)), phrase(gone, "nobody has left", "%s left"))
	}
	switch {
	case a.Stayed == nil:
	case len(*a.Stayed) == 0:
		first := slices.DeleteFunc(s.machines([]string{ringproof.InitialMembers}), func(machine string) bool { return !s.stayed(machine) })
		see(len(first) == 0, phrase(first, "", "%s with the first member"))
	default:
		others := slices.DeleteFunc(s.machines(*a.Stayed), s.stayed)
		see(len(others) == 0, phrase(others, "", "%s without the first member"))
	}
	if a.Leader != "" {
		leader, leads := s.now.Leader()
		see(leads && slices.Contains(s.machines([]string{a.Leader}), leader.Machine), cmp.Or(leader.Machine, "nobody")+" leading")
	}
	if a.Release != "" {
		others := s.otherThan(a.Release)
		see(len(others) == 0, strings.Join(others, ", "))
	}
	if a.Alarms != nil {
		stand := s.alarms()
		see(slices.Equal(stand, slices.Sorted(slices.Values(*a.Alarms))), phrase(stand, "no alarm", "the alarms %s"))
	}
	if a.Said != "" {
		said := s.said()
		see(regexp.MustCompile(a.Said).MatchString(said), fmt.Sprintf("it say %q", said))
	}
	if a.Changes != nil {
		n := s.changes()
		see(n == *a.Changes, ringproof.Counted(n, "change")+" of the membership")
	}
	return saw
}

// An etcd that ended so often within a time so short ends at every start: a full disk had one
// start four hundred times in a minute, and looks found it serving in between.
const (
	loopEnds   = 3
	loopWithin = 5 * time.Second
)

// looping are the machines of members whose etcd ends again and again, sorted.
func (s scene) looping() (machines []string) {
	ends := map[string]int{}
	for _, e := range slices.Backward(s.events) {
		if e.At.Add(loopWithin) < s.now.At {
			break
		}
		if e.Kind == ringproof.EventProcessExited {
			ends[e.Machine]++
		}
	}
	for _, m := range s.now.Members {
		if ends[m.Machine] >= loopEnds {
			machines = append(machines, m.Machine)
		}
	}
	slices.Sort(machines)
	return machines
}

func phrase(names []string, none, some string) string {
	if len(names) == 0 {
		return none
	}
	return fmt.Sprintf(some, strings.Join(names, ", "))
}

// machines resolves names: a step stands for the machines that its fault hit, or for the one
// that it asked about.
func (s scene) machines(names []string) []string {
	all := map[string]bool{}
	for _, name := range names {
		hit := s.hit(name)
		if name == ringproof.InitialMembers {
			hit = s.initialMembers()
		}
		for _, machine := range hit {
			all[machine] = true
		}
		all[name] = len(hit) == 0
	}
	maps.DeleteFunc(all, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(all))
}

func (s scene) hit(step string) (machines []string) {
	for _, e := range s.events {
		is := e.Kind == ringproof.EventFaultLanded || e.Kind == ringproof.EventStepDone || e.Kind == ringproof.EventStepFailed
		if is && e.Step == step && e.Machine != "" {
			machines = append(machines, e.Machine)
		}
	}
	return machines
}

// initialMembers are the machines of those who were there when members were first seen. The
// node of a pod that is being made is known later.
func (s scene) initialMembers() (machines []string) {
	i := slices.IndexFunc(s.looks, func(o ringproof.Observation) bool { return len(o.Members) > 0 })
	if i < 0 {
		return nil
	}
	for _, m := range s.looks[i].Members {
		machines = append(machines, s.home(m.ID))
	}
	return machines
}

// home is the machine on which the member was seen first.
func (s scene) home(of ringproof.MemberID) string {
	for _, o := range s.looks {
		if m, is := o.Member(of); is && m.Machine != "" {
			return m.Machine
		}
	}
	return ""
}

// firsts are the members that machines had first, by machine.
func (s scene) firsts() map[string]ringproof.MemberID {
	first := map[string]ringproof.MemberID{}
	for _, o := range s.looks {
		for _, m := range o.Members {
			if _, known := first[m.Machine]; !known && m.Machine != "" && m.Name != "" { // one without a name has never started
				first[m.Machine] = m.ID
			}
		}
	}
	return first
}

// left are the machines that have had a member and have none, sorted.
func (s scene) left() []string {
	gone := s.firsts()
	maps.DeleteFunc(gone, func(machine string, _ ringproof.MemberID) bool {
		_, is := s.now.On(machine)
		return is
	})
	return slices.Sorted(maps.Keys(gone))
}

func (s scene) stayed(machine string) bool {
	m, is := s.now.On(machine)
	return is && s.firsts()[machine] == m.ID
}

// otherThan says which members run another release.
func (s scene) otherThan(release string) (others []string) {
	for _, m := range s.now.Members {
		if "v"+m.Version != release {
			others = append(others, fmt.Sprintf("%s on v%s", m.Machine, m.Version))
		}
	}
	return others
}

// alarms are the kinds that stand, sorted. A member's status tells of them as in
// "memberID:1234 alarm:NOSPACE ".
func (s scene) alarms() []string {
	var all []string
	for _, m := range s.now.Members {
		for _, text := range m.Alarms {
			_, kind, _ := strings.Cut(text, "alarm:")
			all = append(all, strings.TrimSpace(kind))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// said is what a process of the subject said last of what it waits for, or halted at.
func (s scene) said() string {
	for _, e := range slices.Backward(s.events) {
		if e.Kind == ringproof.EventWaiting || e.Kind == ringproof.EventHalted {
			return e.Text
		}
	}
	return ""
}

// changes are those of the membership that the subject says it made.
func (s scene) changes() (n int) {
	for _, e := range s.events {
		if e.Kind == ringproof.EventActionDone && e.ChangesMembership() {
			n++
		}
	}
	return n
}

// assert waits for the state.
func (r *runner) assert(ctx context.Context, s ringproof.Step) error {
	a := *s.Assert
	within := a.Within.Std()
	if within == 0 {
		within = defaultTimeout
	}
	met := false
	began := r.world.Now()
	err := r.wait(ctx, within, func() bool { met = r.holds(a, began); return met })
	if err != nil || met {
		return err
	}
	if unhalted := r.unhalted(); a.Halted && unhalted != "" {
		return short("expected the subject to halt within %v, %s", within, unhalted)
	}
	return short("expected %s within %v, saw %s", claimed(a), within, r.instead(a, began))
}

// heeded is for how long a subject may be about to make a change that it decides on by what is so
// as an assert begins: that none is made can't be seen at the first look.
const heeded = 5 * time.Second

// holds reports whether all is as asserted, the ring by a look that began since.
// Equal hashes are read with the evidence, when nothing is written any more, and
// judged by the hash-equal check.
func (r *runner) holds(a ringproof.Assert, since ringproof.Instant) bool {
	if a.Halted && r.unhalted() != "" {
		return false
	}
	if a.Changes != nil && r.world.Now().Sub(since) < min(heeded, cmp.Or(a.Within.Std(), defaultTimeout)-poll) {
		return false
	}
	if a.OfRing() {
		o := r.record.observation()
		idle := slices.ContainsFunc(o.Members, func(m ringproof.MemberView) bool { return !m.Serving })
		if o.At <= since || !o.Fresh || idle || a.Voters > 0 && len(o.Voters()) != a.Voters ||
			a.Learners != nil && len(o.Learners()) != *a.Learners {
			return false
		}
	}
	return len(r.record.unmet(a)) == 0
}

// claimed is an assert in words.
func claimed(a ringproof.Assert) string {
	wants := a.Wants()
	if a.OfRing() {
		wants = append(wants, "all serving")
	}
	return strings.Join(wants, ", ")
}

// instead is what there is in place of what was asserted.
func (r *runner) instead(a ringproof.Assert, since ringproof.Instant) string {
	saw := r.record.unmet(a)
	if a.OfRing() {
		saw = append([]string{r.lastObserved(since)}, saw...)
	}
	return strings.Join(saw, "; ")
}

// lastObserved is what the ring is, by the last observation.
func (r *runner) lastObserved(since ringproof.Instant) string {
	o := r.record.observation()
	switch {
	case o.At <= since:
		return "nothing: no look at the ring ended since"
	case !o.Fresh:
		return "a member list that no quorum confirms: " + o.String()
	}
	return o.String()
}

// unhalted says what the subject did instead of halting; "" when it halted. What it said before
// the quorum was lost is of something else.
func (r *runner) unhalted() string {
	events, _ := r.record.since(0)
	h := ringproof.History{Plan: r.plan, Events: events, Observations: r.record.looks()}
	since, none := checks.QuorumLost(&h)
	if none != "" {
		return "saw no disaster: " + none
	}
	waits := ""
	for _, e := range events {
		switch {
		case e.At >= since && e.Kind == ringproof.EventHalted:
			return ""
		case e.At >= since && e.Kind == ringproof.EventWaiting:
			waits = e.Text
		}
	}
	if waits != "" {
		return "saw it only wait: " + waits
	}
	return "saw it say nothing"
}

func byCall(operations []ringproof.Operation) {
	slices.SortFunc(operations, func(a, b ringproof.Operation) int {
		if a.Call != b.Call {
			return int(min(max(a.Call-b.Call, -1), 1))
		}
		return a.ID - b.ID
	})
}
