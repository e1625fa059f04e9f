// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// rolled is a ring of three, looked at each second, that goes to another release: m1
// leads, and from 10 s on one member is restarted every ten seconds, in that order.
func rolled(to string, order ...int) *ringproof.History {
	h := &ringproof.History{Plan: ringproof.Plan{Steps: []ringproof.Step{{Name: "upgrade", Op: &ringproof.Op{Kind: ringproof.OpUpgrade, Version: "v" + to}}}}}
	for at := range 60 {
		o := ringproof.Observation{At: sec(float64(at)), Fresh: true}
		for i := range 3 {
			m := ringproof.MemberView{ID: ringproof.MemberID(i + 1), Machine: fmt.Sprintf("m%d", i+1), Serving: true, Version: "3.5.35", Leader: i == 0}
			for turn, n := range order {
				switch begun := 10 * (turn + 1); {
				case n == i+1 && at > begun+2:
					m.Version = to
				case n == i+1 && at > begun:
					m.Serving, m.Version, m.Leader = false, "", false
				}
			}
			o.Members = append(o.Members, m)
		}
		h.Observations = append(h.Observations, o)
	}
	for turn, n := range order {
		event(h, ringproof.Event{At: sec(float64(10*(turn+1)) + 0.5), Kind: ringproof.EventProcessExited, Machine: fmt.Sprintf("m%d", n)})
	}
	return h
}

// away has a member answer to nobody for some seconds.
func away(h *ringproof.History, machine string, from, to int) {
	for at := from; at < to; at++ {
		for i, m := range h.Observations[at].Members {
			if m.Machine == machine {
				h.Observations[at].Members[i].Serving, h.Observations[at].Members[i].Version = false, ""
			}
		}
	}
}

// leaving has a member leave a ring of which three voters are asked for.
func leaving(h *ringproof.History, machine string, from int) {
	h.Plan.Ring.Size = 3
	for at := from; at < len(h.Observations); at++ {
		o := &h.Observations[at]
		o.Members = slices.DeleteFunc(o.Members, func(m ringproof.MemberView) bool { return m.Machine == machine })
	}
}

// joins has a member be a learner until then.
func joins(h *ringproof.History, id ringproof.MemberID, at int) {
	for _, o := range h.Observations[:at] {
		o.Members[id-1].Learner = true
	}
}

func TestUpgradeInOrder(t *testing.T) {
	for _, test := range []struct {
		name  string
		h     *ringproof.History
		fault func(*ringproof.History)
		want  ringproof.Verdict
		says  string
	}{
		{"one after the other", rolled("3.6.16", 2, 3, 1), nil, ringproof.Pass, "3 members upgraded"},
		{"each noticed by the look that sees the new release", noticedLate(rolled("3.6.16", 2, 3, 1)), nil, ringproof.Pass, "3 members upgraded"},
		{"noticed late, while another is away", noticedLate(rolled("3.6.16", 2, 3, 1)), func(h *ringproof.History) { away(h, "m2", 12, 25) }, ringproof.Fail, "m3 to be upgraded while all other voters serve, saw m2 away"},
		{"nobody", rolled("3.6.16"), nil, ringproof.Inconclusive, "no member was seen to run another release"},
		{"the leader first, which hands over before it ends", rolled("3.6.16", 1, 2, 3), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(9.2), Kind: ringproof.EventActionBegun, Member: 1, Action: "upgrade"})
			event(h, ringproof.Event{At: sec(9.4), Kind: ringproof.EventActionBegun, Member: 1, Action: "move-leader"})
			h.Observations[10].Members[0].Leader, h.Observations[10].Members[1].Leader = false, true
		}, ringproof.Fail, "saw m1 lead and m2 still run v3.5.35"},
		{"one that has handed over before its turn", rolled("3.6.16", 1, 2, 3), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(9.1), Kind: ringproof.EventActionBegun, Member: 1, Action: "move-leader"})
			event(h, ringproof.Event{At: sec(9.2), Kind: ringproof.EventActionBegun, Member: 1, Action: "upgrade"})
			h.Observations[10].Members[0].Leader, h.Observations[10].Members[1].Leader = false, true
		}, ringproof.Pass, "3 members"},
		{"the leader first", rolled("3.6.16", 1, 2, 3), nil, ringproof.Fail, "saw m1 lead and m2 still run v3.5.35"},
		{"an operator moves leadership to it while the subject looks", rolled("3.6.16", 1, 2, 3), func(h *ringproof.History) {
			h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "hand", Op: &ringproof.Op{Kind: ringproof.OpMoveLeader, Target: "m2"}})
			event(h, ringproof.Event{At: sec(8.9), Kind: ringproof.EventStepBegun, Step: "hand"})
			event(h, ringproof.Event{At: sec(9.3), Kind: ringproof.EventStepDone, Step: "hand"})
			event(h, ringproof.Event{At: sec(9.2), Kind: ringproof.EventActionBegun, Member: 1, Action: "upgrade"})
			h.Observations[10].Members[0].Leader, h.Observations[10].Members[1].Leader = false, true
		}, ringproof.Pass, "3 members"},
		{"an operator has moved it back long before", rolled("3.6.16", 1, 2, 3), func(h *ringproof.History) {
			h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "hand", Op: &ringproof.Op{Kind: ringproof.OpMoveLeader, Target: "m1"}})
			event(h, ringproof.Event{At: sec(5.1), Kind: ringproof.EventStepBegun, Step: "hand"})
			event(h, ringproof.Event{At: sec(5.3), Kind: ringproof.EventStepDone, Step: "hand"})
			event(h, ringproof.Event{At: sec(9.2), Kind: ringproof.EventActionBegun, Member: 1, Action: "upgrade"})
		}, ringproof.Fail, "saw m1 lead and m2 still run v3.5.35"},
		{"an operator restarts them", rolled("3.6.16", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m3", 5, 15)
			h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "hand", Op: &ringproof.Op{Kind: ringproof.OpRoll}})
			event(h, ringproof.Event{At: sec(9.1), Kind: ringproof.EventStepBegun, Step: "hand"})
		}, ringproof.Pass, "3 members"},
		{"an operator has restarted them long before", rolled("3.6.16", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m3", 5, 15)
			h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "hand", Op: &ringproof.Op{Kind: ringproof.OpRoll}})
			event(h, ringproof.Event{At: sec(2.1), Kind: ringproof.EventStepBegun, Step: "hand"})
			event(h, ringproof.Event{At: sec(3.1), Kind: ringproof.EventStepDone, Step: "hand"})
		}, ringproof.Fail, "saw m3 away"},
		{"the only voter, which another has joined when it ends", rolled("3.6.16", 1), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(6.2), Kind: ringproof.EventActionBegun, Member: 1, Action: "upgrade"})
			joins(h, 2, 8)
			joins(h, 3, 9)
		}, ringproof.Pass, "1 member"},
		{"the leader first, though others are to join", rolled("3.6.16", 1), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(6.2), Kind: ringproof.EventActionBegun, Member: 1, Action: "upgrade"})
			joins(h, 2, 5)
			joins(h, 3, 9)
		}, ringproof.Fail, "saw m1 lead and m2 still run v3.5.35"},
		{"a minor left out", rolled("3.7.3", 2, 3, 1), nil, ringproof.Fail, "saw it go from v3.5.35 to v3.7.3"},
		{"down", rolled("3.5.9", 2, 3, 1), nil, ringproof.Fail, "saw it go from v3.5.35 to v3.5.9"},
		{"over one that was without a leader, and had one again within the look", rolled("3.6.16", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m2", 19, 21)
			away(h, "m3", 20, 21)
			h.Observations[20].Until = sec(20.9)
		}, ringproof.Pass, "3 members"},
		{"over one that was without a leader, and still is by the look after", rolled("3.6.16", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m2", 19, 22)
			away(h, "m3", 20, 21)
			h.Observations[20].Until = sec(20.9)
		}, ringproof.Fail, "expected m3 to be upgraded while all other voters serve, saw m2 away"},
		{"over one that is away", rolled("3.6.16", 2, 3, 1), func(h *ringproof.History) { away(h, "m3", 5, 15) }, ringproof.Fail, "expected m2 to be upgraded while all other voters serve, saw m3 away"},
		{"one that is away before and comes back", rolled("3.6.16", 2, 3, 1), func(h *ringproof.History) { away(h, "m3", 5, 11) }, ringproof.Pass, "3 members"},
		{"one that was away with it, and is back", rolled("3.6.16", 2, 3, 1), func(h *ringproof.History) { away(h, "m2", 5, 11); away(h, "m3", 4, 10) }, ringproof.Pass, "3 members"},
		{"one that was away with it, and is still", rolled("3.6.16", 2, 3, 1), func(h *ringproof.History) { away(h, "m2", 5, 11); away(h, "m3", 4, 13) }, ringproof.Fail, "saw m3 away"},
		{"one that is lost once its restart was begun", noticedLate(rolled("3.6.16", 2, 3, 1)), func(h *ringproof.History) { away(h, "m3", 12, 18) }, ringproof.Pass, "3 members"},
		{"a fault ended it", rolled("3.6.16", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m3", 5, 15)
			event(h, ringproof.Event{At: sec(10.4), Kind: ringproof.EventFaultLanded, Machine: "m2", Step: "kill"})
		}, ringproof.Pass, "3 members"},
		{"a fault ended it long before, and it has served since", rolled("3.6.16", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m3", 5, 15)
			event(h, ringproof.Event{At: sec(1.4), Kind: ringproof.EventFaultLanded, Machine: "m2", Fault: ringproof.FaultKill, Step: "kill"})
		}, ringproof.Fail, "expected m2 to be upgraded while all other voters serve, saw m3 away"},
	} {
		if test.fault != nil {
			test.fault(test.h)
		}
		f := upgradeInOrder.Finding(test.h, nil)
		assert.Equal(t, test.want, f.Verdict, "%s: %s", test.name, f)
		assert.Contains(t, f.Message, test.says, test.name)
	}
}

// noticedLate has each end be noticed by the look that first sees the new release.
func noticedLate(h *ringproof.History) *ringproof.History {
	for i := range h.Events {
		if e := &h.Events[i]; e.Kind == ringproof.EventProcessExited {
			e.At = sec(e.At.Seconds() + 2.5)
		}
	}
	return h
}
