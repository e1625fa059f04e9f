// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

func TestTriggers(t *testing.T) {
	for name, c := range map[string]struct {
		trigger ringproof.Trigger
		met     func(ringproof.Event) bool // by which event, the nth of them
		nth     int
		delay   time.Duration
	}{
		"the first": {
			ringproof.Trigger{Event: ringproof.EventMemberPromoted},
			func(e ringproof.Event) bool { return e.Kind == ringproof.EventMemberPromoted }, 1, 0,
		},
		"the second": {
			ringproof.Trigger{Event: ringproof.EventMemberPromoted, Nth: 2},
			func(e ringproof.Event) bool { return e.Kind == ringproof.EventMemberPromoted }, 2, 0,
		},
		"of an action": {
			ringproof.Trigger{Event: ringproof.EventActionDone, Action: "promote"},
			func(e ringproof.Event) bool { return e.Kind == ringproof.EventActionDone && e.Action == "promote" }, 1, 0,
		},
		"of a step": {
			ringproof.Trigger{Event: ringproof.EventStepDone, Step: "grow"},
			func(e ringproof.Event) bool { return e.Kind == ringproof.EventStepDone && e.Step == "grow" }, 1, 0,
		},
		"later": {
			ringproof.Trigger{Event: ringproof.EventMemberAdded, Delay: seconds(3)},
			func(e ringproof.Event) bool { return e.Kind == ringproof.EventMemberAdded && e.Learner }, 1, 3 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			quick := ringproof.Step{Name: "quick", Assert: &ringproof.Assert{Within: seconds(2)}, Detach: true}
			h := play(t, &toy{}, ring(detached(scale("grow", 5)), quick, after(sleep("next"), c.trigger)))
			only(t, h, ringproof.EventStepDone, "quick")
			var met []ringproof.Event
			for _, e := range h.Events {
				if c.met(e) {
					met = append(met, e)
				}
			}
			require.GreaterOrEqual(t, len(met), c.nth)
			waited := only(t, h, ringproof.EventStepBegun, "next").At.Sub(met[c.nth-1].At)
			assert.GreaterOrEqual(t, waited, c.delay)
			assert.LessOrEqual(t, waited, c.delay+observing+2*poll, "a trigger is seen when it is recorded")
		})
	}
}

// TestTriggerCountsFromTheStepBefore: what the steps before it met is spent.
func TestTriggerCountsFromTheStepBefore(t *testing.T) {
	added := ringproof.Trigger{Event: ringproof.EventMemberAdded, Timeout: seconds(10)}
	h := play(t, &toy{}, ring(scale("grow", 5), scale("shrink", 3), after(sleep("next"), added)))
	assert.Empty(t, of(h, ringproof.EventStepBegun, "next"), "no member was added since shrink began")
	assert.NotEmpty(t, of(h, ringproof.EventMemberAdded, ""))
}

func TestATriggerThatNeverComesFailsItsStepAndNoOther(t *testing.T) {
	never := ringproof.Trigger{Event: ringproof.EventAlarm, Nth: 2, Timeout: seconds(4)}
	h := play(t, &toy{}, ring(after(detached(scale("first", 5)), never), after(scale("second", 5), never), scale("third", 5)))
	for _, name := range []string{"first", "second"} {
		failed := only(t, h, ringproof.EventStepMissed, name)
		assert.Equal(t, "no alarm number 2 within 4s: timed out", failed.Text)
		assert.Empty(t, of(h, ringproof.EventStepBegun, name))
	}
	waited := only(t, h, ringproof.EventStepMissed, "second").At.Sub(only(t, h, ringproof.EventStepMissed, "first").At)
	assert.InDelta(t, 4*time.Second, waited, float64(poll))
	only(t, h, ringproof.EventStepDone, "third")
	only(t, h, ringproof.EventConverged, "")
}

func TestDetachAndJoin(t *testing.T) {
	joined := sleep("joined")
	joined.Join = []string{"grow"}
	h := play(t, &toy{pace: time.Second}, ring(detached(scale("grow", 5)), sleep("beside"), joined))
	grown := only(t, h, ringproof.EventStepDone, "grow").At
	assert.Less(t, only(t, h, ringproof.EventStepFailed, "beside").At, grown, "nobody waits for a detached step")
	assert.GreaterOrEqual(t, only(t, h, ringproof.EventStepBegun, "joined").At, grown, "but who joins it")
}

// TestJoinAtOnce: the detached step's task may not have run yet when the next
// step joins it.
func TestJoinAtOnce(t *testing.T) {
	joined := sleep("joined")
	joined.Join = []string{"grow"}
	h := play(t, &toy{}, ring(detached(scale("grow", 5)), joined))
	assert.GreaterOrEqual(t, only(t, h, ringproof.EventStepBegun, "joined").At, only(t, h, ringproof.EventStepDone, "grow").At)
}

// TestTheEndJoinsWhatIsDetached: the heal phase begins when every step is over.
func TestTheEndJoinsWhatIsDetached(t *testing.T) {
	h := play(t, &toy{pace: time.Second}, ring(detached(scale("grow", 5))))
	assert.GreaterOrEqual(t, only(t, h, ringproof.EventHealPhase, "").At, only(t, h, ringproof.EventStepDone, "grow").At)
}

// TestAnOperationIsDoneByWhatIsSeenAfterIt: before the members are down, the
// ring looks as if they had been restarted.
func TestAnOperationIsDoneByWhatIsSeenAfterIt(t *testing.T) {
	for name, op := range map[string]ringproof.Op{
		"restart":     {Kind: ringproof.OpRestart, Target: "m2"},
		"move leader": {Kind: ringproof.OpMoveLeader, Target: "m1"}, // it leads already
		"scale":       {Kind: ringproof.OpScale, To: 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := &toy{}
			h := play(t, w, ring(ringproof.Step{Name: "do", Op: &op}))
			asked, done := w.done("do", "do")[0].at, only(t, h, ringproof.EventStepDone, "do").At
			assert.Greater(t, done, asked)
			assert.LessOrEqual(t, done.Sub(asked), 2*look+time.Second)
			if op.Kind == ringproof.OpRestart {
				assert.GreaterOrEqual(t, done.Sub(asked), restart)
			}
		})
	}
}

func TestReplaceIsDoneWhenTheMachineHasNoMember(t *testing.T) {
	h := play(t, &toy{}, ring(ringproof.Step{Name: "move", Op: &ringproof.Op{Kind: ringproof.OpReplace, Target: "m2"}}))
	done := only(t, h, ringproof.EventStepDone, "move").At
	gone := only(t, h, ringproof.EventMemberRemoved, "")
	assert.Equal(t, "m2", gone.Machine)
	assert.GreaterOrEqual(t, done, gone.At)
}

func TestAnOperationThatDoesNotGetThereFails(t *testing.T) {
	step := scale("grow", 5)
	step.Timeout = seconds(5)
	h := play(t, &toy{idle: true}, ring(step, sleep("next")))
	failed := only(t, h, ringproof.EventStepFailed, "grow")
	assert.Equal(t, "expected 5 voters, no learner, all serving within 5s, saw 3 voters on m1, m2, m3, 0 learners, all serving", failed.Text)
	assert.InDelta(t, 5*time.Second, failed.At.Sub(only(t, h, ringproof.EventStepBegun, "grow").At), float64(poll))
	only(t, h, ringproof.EventStepBegun, "next")
	assert.Equal(t, 5, h.Evidence.Spec, "it was asked for and not refused")
}

// TestALaterOperationTakesItsPlace: a ring asked for 5 and then for 3 owes 3.
func TestALaterOperationTakesItsPlace(t *testing.T) {
	h := play(t, &toy{pace: time.Second}, ring(detached(scale("grow", 5)), sleep("moment"), scale("shrink", 3)))
	replaced := only(t, h, ringproof.EventStepDone, "grow").At.Sub(only(t, h, ringproof.EventStepBegun, "shrink").At)
	assert.LessOrEqual(t, replaced, 2*look, "nobody waits for five any more")
	only(t, h, ringproof.EventStepDone, "shrink")
	assert.Equal(t, "3 voters", only(t, h, ringproof.EventConverged, "").Text)
	assert.Equal(t, 3, h.Evidence.Spec)
}

func TestRefusals(t *testing.T) {
	even := scale("even", 4)
	even.Op.Refused = true
	unwilling := func(op ringproof.Op) error {
		if op.To == 4 {
			return errors.Join(ringproof.ErrRefused, errors.New("4 is even"))
		}
		return nil
	}
	t.Run("as it must", func(t *testing.T) {
		h := play(t, &toy{asked: unwilling}, ring(even))
		assert.Contains(t, only(t, h, ringproof.EventRefused, "even").Text, "4 is even")
		only(t, h, ringproof.EventStepDone, "even")
		assert.Equal(t, "3 voters", only(t, h, ringproof.EventConverged, "").Text)
		assert.Equal(t, 3, h.Evidence.Spec, "what was refused is not owed")
	})
	t.Run("wrongly taken", func(t *testing.T) {
		h := play(t, &toy{idle: true}, ring(even))
		assert.Contains(t, only(t, h, ringproof.EventStepFailed, "even").Text, "expected scale to 4 to be refused, saw it taken")
		assert.Empty(t, of(h, ringproof.EventRefused, ""))
	})
	t.Run("only broken", func(t *testing.T) {
		h := play(t, &toy{asked: func(ringproof.Op) error { return context.DeadlineExceeded }}, ring(even))
		only(t, h, ringproof.EventStepMissed, "even")
		assert.Empty(t, of(h, ringproof.EventRefused, ""), "a subject that didn't answer has not refused")
	})
	t.Run("wrongly refused", func(t *testing.T) {
		h := play(t, &toy{asked: unwilling}, ring(scale("even", 4)))
		only(t, h, ringproof.EventStepFailed, "even")
		assert.Equal(t, 3, h.Evidence.Spec)
		only(t, h, ringproof.EventConverged, "")
	})
}

// TestAFaultWaitsForItsTarget: just after the leader is killed nobody leads.
func TestAFaultWaitsForItsTarget(t *testing.T) {
	leader := ringproof.Fault{Kind: ringproof.FaultKill, Scope: "process", Target: "leader"}
	w := &toy{}
	dark := after(faulty("second", leader), ringproof.Trigger{Event: ringproof.EventMemberDown})
	h := play(t, w, ring(faulty("first", leader), dark))
	first, second := only(t, h, ringproof.EventFaultLanded, "first"), only(t, h, ringproof.EventFaultLanded, "second")
	assert.Equal(t, "m1", first.Machine)
	assert.Equal(t, "m2", second.Machine, "the one that led next")
	assert.GreaterOrEqual(t, second.At.Sub(first.At), vote)
}

// TestWhoLeadsTheAutomation: by the last word of that, and not who leads the ring, nor who
// told of another's deeds since.
func TestWhoLeadsTheAutomation(t *testing.T) {
	w := &toy{}
	w.injecting = func(s ringproof.Step, _ []string) error {
		if s.Name == "first" {
			w.recorder.Record(ringproof.Event{Kind: ringproof.EventLeads, Machine: "m1"})
			w.recorder.Record(ringproof.Event{Kind: ringproof.EventLeads, Machine: "m3"})
			w.recorder.Record(ringproof.Event{Kind: ringproof.EventActionBegun, Machine: "m2", By: "m1", Action: "bind"})
		}
		return nil
	}
	kill := ringproof.Fault{Kind: ringproof.FaultKill, Scope: "agent"}
	first, lead := kill, kill
	first.Target, lead.Target = "m2", faults.Lead
	h := play(t, w, ring(faulty("first", first), faulty("lead", lead)))
	assert.Equal(t, "m3", only(t, h, ringproof.EventFaultLanded, "lead").Machine)
	h = play(t, &toy{}, ring(faulty("lead", lead)))
	assert.Contains(t, only(t, h, ringproof.EventFaultMissed, "lead").Text, "no process of the subject has said that it leads")
}

// TestAStepStandsForWhatItHit, whoever leads by now.
func TestAStepStandsForWhatItHit(t *testing.T) {
	kill := ringproof.Fault{Kind: ringproof.FaultKill, Scope: "process", Target: "leader"}
	same := ringproof.Fault{Kind: ringproof.FaultPause, Scope: "agent", Target: "step/first"}
	h := play(t, &toy{}, ring(faulty("first", kill), sleep("elected"), faulty("second", same)))
	assert.Equal(t, only(t, h, ringproof.EventFaultLanded, "first").Machine, only(t, h, ringproof.EventFaultLanded, "second").Machine)
	h = play(t, &toy{}, ring(faulty("second", same)))
	assert.Contains(t, only(t, h, ringproof.EventFaultMissed, "second").Text, "step first has hit no machine")
}

func TestAFaultWhoseTargetNeverComesIsMissed(t *testing.T) {
	h := play(t, &toy{}, ring(faulty("lose", ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "learner"})))
	missed := only(t, h, ringproof.EventFaultMissed, "lose")
	assert.Contains(t, missed.Text, "found 0 of 1")
	assert.InDelta(t, findWithin, missed.At.Sub(only(t, h, ringproof.EventStepBegun, "lose").At), float64(poll))
	only(t, h, ringproof.EventStepMissed, "lose")
	only(t, h, ringproof.EventConverged, "")
}

// TestNobodyIsRemovedByHandBeforeHeIsKnown: of whom nobody knows that a hand removes it,
// the removal would be the subject's.
func TestNobodyIsRemovedByHandBeforeHeIsKnown(t *testing.T) {
	w := &toy{}
	p := ring(faulty("remove", ringproof.Fault{Kind: ringproof.FaultForeignHand, Target: "m4", Does: "member-remove"}))
	p.Ring.Machines = 4
	h := play(t, w, p)
	assert.Contains(t, only(t, h, ringproof.EventFaultMissed, "remove").Text, "no member is on m4")
	assert.Empty(t, w.calls)
}

// TestWhatAHandDid: of a removal that it asked for, and of an addition each time that etcd
// refused it, but not before or after, nor what the subject asked for beside it.
func TestWhatAHandDid(t *testing.T) {
	when := ringproof.Span{From: 2, To: 4}
	removes, adds := hand{member: 3, when: when}, hand{adds: "add-voter", member: 9, when: when}
	assert.True(t, removes.made(ringproof.ConfChange{Kind: "remove", Member: 3}))
	assert.False(t, removes.made(ringproof.ConfChange{Kind: "promote", Member: 3}))
	assert.True(t, adds.made(ringproof.ConfChange{Kind: "add-voter", Member: 9}))
	assert.False(t, adds.made(ringproof.ConfChange{Kind: "remove", Member: 9}), "that it goes again is the subject's")
	assert.False(t, adds.made(ringproof.ConfChange{Kind: "add-voter", Member: 8}))
	assert.True(t, removes.asked(ringproof.Rejection{At: 3, Kind: "remove", Member: 3}))
	assert.False(t, removes.asked(ringproof.Rejection{At: 3, Kind: "remove", Member: 4}))
	assert.True(t, adds.asked(ringproof.Rejection{At: 3, Kind: "add-voter", Member: 7}))
	assert.False(t, adds.asked(ringproof.Rejection{At: 3, Kind: "add-learner", Member: 7}))
	assert.False(t, adds.asked(ringproof.Rejection{At: 5, Kind: "add-voter", Member: 7}))
}

// TestNobodyIsAddedByHandWhereOneIs: the hand waits for the machine to be free, and is missed.
func TestNobodyIsAddedByHandWhereOneIs(t *testing.T) {
	w := &toy{}
	h := play(t, w, ring(faulty("add", ringproof.Fault{Kind: ringproof.FaultForeignHand, Target: "m1", Does: ringproof.MemberAdd})))
	assert.Contains(t, only(t, h, ringproof.EventFaultMissed, "add").Text, "a member is on m1 already")
	assert.Empty(t, w.calls)
}

// TestAFaultLandsWhereItHits: of two machines one has no etcd that could be killed.
func TestAFaultLandsWhereItHits(t *testing.T) {
	w := &toy{injecting: func(_ ringproof.Step, targets []string) error {
		return ringproof.Partial(targets, []error{nil, errors.New("no etcd runs on m2")})
	}}
	h := play(t, w, ring(faulty("kill", ringproof.Fault{Kind: ringproof.FaultKill, Scope: "process", Target: "m1,m2", For: ringproof.Duration(time.Second)})))
	var landed []string
	for _, e := range h.Events {
		if e.Kind == ringproof.EventFaultLanded {
			landed = append(landed, e.Machine)
		}
	}
	assert.Equal(t, []string{"m1"}, landed)
	missed := only(t, h, ringproof.EventFaultMissed, "kill")
	assert.Equal(t, "m2", missed.Machine)
	assert.Equal(t, "no etcd runs on m2", missed.Text)
	only(t, h, ringproof.EventStepDone, "kill")
	assert.Equal(t, "m1 m2", w.calls[len(w.calls)-1].targets, "healed on all of them")
}

func TestAnUnfairLossIsDowngraded(t *testing.T) {
	w := &toy{pace: 5 * time.Second}
	lose := func(name, target string) ringproof.Step {
		return faulty(name, ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: target})
	}
	h := play(t, w, ring(lose("first", "m2"), lose("second", "m3"), sleep("moment"), sleep("moment"), sleep("moment")))
	down := only(t, h, ringproof.EventFaultDowngraded, "second")
	assert.Equal(t, ringproof.FaultVolumeLoss, down.Fault)
	assert.Equal(t, "m3", down.Machine)
	assert.Contains(t, down.Text, `to "kill": of 3 voters 1 would keep their log`)
	landed := only(t, h, ringproof.EventFaultLanded, "second")
	assert.Equal(t, ringproof.FaultKill, landed.Fault)
	require.Len(t, w.done("do", "second"), 1)
	assert.Equal(t, ringproof.FaultKill, w.done("do", "second")[0].step.Fault.Kind)
	assert.Equal(t, []int{1, 2, 1}, []int{w.on("m1").disk, w.on("m2").disk, w.on("m3").disk})
	// The milder fault ends by itself.
	healed := only(t, h, ringproof.EventFaultHealed, "second")
	assert.Equal(t, 5*time.Second, healed.At.Sub(landed.At))
	assert.Empty(t, of(h, ringproof.EventFaultHealed, "first"), "a lost volume is never healed")
	only(t, h, ringproof.EventConverged, "")
}

// TestDowngradedToNothing: what is lost can't be killed any more.
func TestDowngradedToNothing(t *testing.T) {
	w := &toy{idle: true}
	lose := func(name string) ringproof.Step {
		return faulty(name, ringproof.Fault{Kind: ringproof.FaultMachineLoss, Target: "machine/4"})
	}
	grow := scale("grow", 5)
	grow.Timeout = seconds(1)
	p := ring(lose("first"), grow, lose("again"))
	p.Ring.Machines = 4
	p.Invariants = []ringproof.Invariant{{Check: "converges", Params: map[string]string{"within": "1s"}}}
	h := play(t, w, p)
	only(t, h, ringproof.EventFaultLanded, "first")
	assert.Contains(t, only(t, h, ringproof.EventFaultDowngraded, "again").Text, `to "": 3 machines would be left for 5 voters`)
	assert.Empty(t, of(h, ringproof.EventFaultLanded, "again"))
	assert.Empty(t, w.done("do", "again"))
	only(t, h, ringproof.EventStepDone, "again")
}

// TestAnArmedFaultLandsWhenTheWorldSaysSo: no evidence means that nothing was
// hit yet.
func TestAnArmedFaultLandsWhenTheWorldSaysSo(t *testing.T) {
	outage := faulty("outage", ringproof.Fault{Kind: ringproof.FaultStoreOutage, For: seconds(5)})
	h := play(t, &toy{}, ring(outage, sleep("moment"), scale("grow", 5)))
	landed := only(t, h, ringproof.EventFaultLanded, "outage")
	assert.Greater(t, landed.Seq, only(t, h, ringproof.EventStepBegun, "grow").Seq)
	only(t, h, ringproof.EventFaultHealed, "outage")
	only(t, h, ringproof.EventStepDone, "grow")
}

func TestAFaultThatFailsIsMissed(t *testing.T) {
	w := &toy{injecting: func(ringproof.Step, []string) error { return errors.New("no such process") }}
	h := play(t, w, ring(faulty("kill", ringproof.Fault{Kind: ringproof.FaultKill, Target: "m2", Scope: "process"}), sleep("next")))
	assert.Equal(t, "no such process", only(t, h, ringproof.EventFaultMissed, "kill").Text)
	assert.Empty(t, of(h, ringproof.EventFaultLanded, ""))
	only(t, h, ringproof.EventStepMissed, "kill")
	only(t, h, ringproof.EventStepBegun, "next")
}

// TestAFaultThatFailedHalfwayIsHealed: of two machines one lost its power
// before the other refused to.
func TestAFaultThatFailedHalfwayIsHealed(t *testing.T) {
	w := &toy{}
	w.injecting = func(s ringproof.Step, targets []string) error {
		w.change(w.on(targets[0]), *s.Fault, true)
		return errors.New("m2 did not lose its power")
	}
	h := play(t, w, ring(faulty("dark", ringproof.Fault{Kind: ringproof.FaultKill, Target: "all", Scope: "machine", For: seconds(600)})))
	only(t, h, ringproof.EventFaultMissed, "dark")
	assert.True(t, w.on("m1").on, "the fault ends in the heal phase, whatever became of the step")
	only(t, h, ringproof.EventConverged, "")
}

func TestAFaultHealsWhileThePlanGoesOn(t *testing.T) {
	w := &toy{}
	h := play(t, w, ring(faulty("pause", ringproof.Fault{Kind: ringproof.FaultPause, Target: "m2", Scope: "machine", For: seconds(1)}), sleep("next")))
	landed, healed := only(t, h, ringproof.EventFaultLanded, "pause"), only(t, h, ringproof.EventFaultHealed, "pause")
	assert.Equal(t, time.Second, healed.At.Sub(landed.At))
	assert.Equal(t, only(t, h, ringproof.EventStepDone, "pause").At, landed.At, "a fault is done when it has landed")
	assert.Less(t, healed.At, only(t, h, ringproof.EventStepFailed, "next").At)
	require.Len(t, w.done("heal", "pause"), 1, "and not again in the heal phase")
}

func TestTheHealPhaseHealsTheRestOnce(t *testing.T) {
	w := &toy{}
	p := ring(
		faulty("cut", ringproof.Fault{Kind: ringproof.FaultPartition, Target: "m2"}),
		faulty("pause", ringproof.Fault{Kind: ringproof.FaultPause, Target: "m3", Scope: "machine", For: seconds(60)}),
		faulty("lose", ringproof.Fault{Kind: ringproof.FaultMachineLoss, Target: "m5"}),
	)
	p.Invariants = []ringproof.Invariant{{Check: "converges", Params: map[string]string{"within": "90s"}}}
	w.idle, w.looking = true, func(o *ringproof.Observation) { o.Machines[3].Up = true }
	w.healing = func(s ringproof.Step, _ []string) error {
		if s.Name == "cut" {
			w.mu.Lock()
			w.want = 5 // never reached: the run lives on until after For
			w.mu.Unlock()
		}
		return nil
	}
	h := play(t, w, p)
	phase := only(t, h, ringproof.EventHealPhase, "").At
	for _, name := range []string{"cut", "pause"} {
		require.Len(t, w.done("heal", name), 1, name)
		assert.LessOrEqual(t, only(t, h, ringproof.EventFaultHealed, name).At, phase)
	}
	assert.Empty(t, w.done("heal", "lose"), "what is lost stays lost")
}

// TestAnAftermathIsPartOfTheFault: nothing is demanded while connections wait to send again what was lost.
func TestAnAftermathIsPartOfTheFault(t *testing.T) {
	lossy := ringproof.Fault{Kind: ringproof.FaultPacketLoss, Percent: 20, Target: "m3", For: seconds(2)}
	h := play(t, &toy{}, ring(faulty("lossy", lossy), sleep("moment")))
	healed := only(t, h, ringproof.EventFaultHealed, "lossy").At
	assert.GreaterOrEqual(t, only(t, h, ringproof.EventHealPhase, "").At.Sub(healed), lossy.Aftermath())
}

// TestAFaultThatHealsTooLateIsHealedOnce: its time is up after the heal phase
// took it away.
func TestAFaultThatHealsTooLateIsHealedOnce(t *testing.T) {
	w := &toy{idle: true}
	p := ring(
		faulty("cut", ringproof.Fault{Kind: ringproof.FaultPartition, Target: "m2", For: seconds(3)}),
		scale("more", 5), // never comes
	)
	p.Steps[1].Timeout = seconds(1)
	h := play(t, w, p) // which lasts until long after the three seconds
	require.Greater(t, h.Events[len(h.Events)-1].At, only(t, h, ringproof.EventFaultLanded, "cut").At.Add(4*time.Second))
	require.Len(t, w.done("heal", "cut"), 1)
	assert.LessOrEqual(t, only(t, h, ringproof.EventFaultHealed, "cut").At, only(t, h, ringproof.EventHealPhase, "").At)
}

func TestStaggeredHealing(t *testing.T) {
	for name, lasts := range map[string]ringproof.Duration{"in the background": seconds(1), "in the heal phase": 0} {
		t.Run(name, func(t *testing.T) {
			w := &toy{}
			dark := ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine", Target: "all", Stagger: seconds(2), For: lasts}
			p := ring(faulty("dark", dark), sleep("moment"))
			p.Ring.Machines = 3
			h := play(t, w, p)
			healed := of(h, ringproof.EventFaultHealed, "dark")
			require.Len(t, healed, 3)
			for i, machine := range []string{"m1", "m2", "m3"} {
				assert.Equal(t, machine, healed[i].Machine)
				assert.Equal(t, machine, w.done("heal", "dark")[i].targets)
				assert.Equal(t, time.Duration(i)*2*time.Second, healed[i].At.Sub(healed[0].At))
			}
			ended := only(t, h, ringproof.EventHealPhase, "").At
			assert.LessOrEqual(t, healed[2].At, ended, "a fault ends when all of it is healed")
			assert.LessOrEqual(t, ended.Sub(healed[2].At), poll, "and no later")
			only(t, h, ringproof.EventConverged, "")
		})
	}
}

// TestTheRestStaysDead: what the ring can do without doesn't come back, and it
// must converge all the same; what it can't do without does.
func TestTheRestStaysDead(t *testing.T) {
	dark := faulty("dark", ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine", Target: "m2"})
	for machines, dead := range map[int]bool{3: false, 4: true} {
		p := ring(dark)
		p.Ring.Machines = machines
		h := play(t, &toy{}, p)
		lost := slices.ContainsFunc(h.Events, func(e ringproof.Event) bool {
			return e.Kind == ringproof.EventFaultLanded && e.Fault == ringproof.FaultMachineLoss && e.Machine == "m2"
		})
		assert.Equal(t, dead, lost, "%d machines", machines)
		assert.Equal(t, dead, len(of(h, ringproof.EventFaultHealed, "dark")) == 0, "%d machines", machines)
		only(t, h, ringproof.EventConverged, "")
		assert.Equal(t, !dead, slices.ContainsFunc(h.Evidence.Budget, func(b ringproof.Budget) bool {
			return strings.HasPrefix(b.What, "machine-loss of m2 refused")
		}), "the ledger tells why it came back: %v", h.Evidence.Budget)
	}
}

// TestTheLedgerIsEvidence: its lines are dated by when they were written, also
// while the ring gives no membership with a quorum.
func TestTheLedgerIsEvidence(t *testing.T) {
	w := &toy{idle: true}
	w.looking = func(o *ringproof.Observation) { o.Fresh = o.Fresh && !w.on("m2").lost }
	lose := func(name, target string) ringproof.Step {
		return faulty(name, ringproof.Fault{Kind: ringproof.FaultMachineLoss, Target: target})
	}
	p := ring(lose("first", "m2"), sleep("moment"), lose("second", "m3"))
	p.Invariants = []ringproof.Invariant{{Check: "converges", Params: map[string]string{"within": "1s"}}}
	h := play(t, w, p)
	require.Len(t, h.Evidence.Budget, 3)
	began, charged, refused := h.Evidence.Budget[0], h.Evidence.Budget[1], h.Evidence.Budget[2]
	assert.Equal(t, ringproof.Budget{At: began.At, What: "membership: 3 voters", Left: 1}, began)
	assert.Equal(t, ringproof.Budget{At: charged.At, What: "machine-loss of m2", Used: 1}, charged)
	assert.Contains(t, refused.What, "machine-loss of m3 refused: of 3 voters 1 would keep their log")
	assert.LessOrEqual(t, only(t, h, ringproof.EventFaultLanded, "first").At.Sub(charged.At), 2*look)
	assert.LessOrEqual(t, only(t, h, ringproof.EventFaultDowngraded, "second").At.Sub(refused.At), 2*look)
}

func TestAFailedHealingIsTold(t *testing.T) {
	w := &toy{healing: func(ringproof.Step, []string) error { return errors.New("stuck") }}
	dark := ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine", Target: "m2", For: seconds(1)}
	p := ring(faulty("dark", dark))
	p.Invariants = []ringproof.Invariant{{Check: "converges", Params: map[string]string{"within": "2s"}}}
	h := play(t, w, p)
	assert.Equal(t, "healing: stuck", only(t, h, ringproof.EventStepMissed, "dark").Text)
	assert.Empty(t, of(h, ringproof.EventFaultHealed, ""))
	assert.Empty(t, of(h, ringproof.EventConverged, ""))
}

func TestTheEndOfARun(t *testing.T) {
	w := &toy{}
	h := play(t, w, ring(faulty("kill", ringproof.Fault{Kind: ringproof.FaultKill, Scope: "process", Target: "m2"})))
	phase, converged, ends := only(t, h, ringproof.EventHealPhase, ""), only(t, h, ringproof.EventConverged, ""), only(t, h, ringproof.EventRunEnds, "")
	up := of(h, ringproof.EventMemberUp, "")
	require.NotEmpty(t, up)
	assert.GreaterOrEqual(t, converged.At.Sub(phase.At), calm)
	assert.GreaterOrEqual(t, converged.At.Sub(up[len(up)-1].At), calm, "it must stay as it was asked for")
	assert.GreaterOrEqual(t, ends.At.Sub(converged.At), quiet)
	assert.Equal(t, ends, h.Events[len(h.Events)-1])
	for i, e := range h.Events {
		assert.Equal(t, i+1, e.Seq)
	}
	// Changes are dated by the first observation that shows them applied.
	assert.Equal(t, h.Evidence.Changes[0].At, h.Observations[slices.IndexFunc(h.Observations, func(o ringproof.Observation) bool { return len(o.Members) > 0 })].At)
	assert.Equal(t, ringproof.Forever, h.Evidence.Changes[1].At)
}

// TestBusyIsNotConverged: the ring is as it was asked for, and the subject is
// still at something.
func TestBusyIsNotConverged(t *testing.T) {
	w := &toy{idle: true}
	w.asked = func(ringproof.Op) error {
		w.recorder.Record(ringproof.Event{Kind: ringproof.EventActionBegun, Action: "backup", Machine: "m1"})
		w.tasks.Go(func() {
			time.Sleep(10 * time.Second)
			w.recorder.Record(ringproof.Event{Kind: ringproof.EventActionFailed, Action: "backup", Machine: "m1"})
		})
		return nil
	}
	h := play(t, w, ring(scale("same", 3)))
	over := only(t, h, ringproof.EventActionFailed, "").At
	assert.GreaterOrEqual(t, only(t, h, ringproof.EventConverged, "").At.Sub(over), calm)
}

// TestWhoHasLeftIsWaitedFor: the etcd of a removed member still runs when the
// ring is as it was asked for, and the subject owes that it stops.
func TestWhoHasLeftIsWaitedFor(t *testing.T) {
	for name, until := range map[string]ringproof.Instant{"stopped": ringproof.Instant(15 * time.Second), "never stopped": ringproof.Forever} {
		t.Run(name, func(t *testing.T) {
			w := &toy{idle: true}
			w.looking = func(o *ringproof.Observation) {
				o.Machines = append(o.Machines, ringproof.MachineView{Name: "m9", Up: true, Agent: true, Etcd: o.At < until})
			}
			h := play(t, w, ring(scale("same", 3)))
			if until == ringproof.Forever {
				assert.Empty(t, of(h, ringproof.EventConverged, ""))
				return
			}
			assert.InDelta(t, calm, only(t, h, ringproof.EventConverged, "").At.Sub(until), float64(time.Second))
		})
	}
}

// TestWhatSaysNothingIsWaitedFor: an object of the ring was emptied while the API server was
// away, and the ring never needed it.
func TestWhatSaysNothingIsWaitedFor(t *testing.T) {
	amended := ringproof.Instant(15 * time.Second)
	w := &toy{idle: true}
	w.looking = func(o *ringproof.Observation) {
		if o.At < amended {
			o.Amiss = []string{"services/etcd"}
		}
	}
	h := play(t, w, ring(scale("same", 3)))
	assert.InDelta(t, calm, only(t, h, ringproof.EventConverged, "").At.Sub(amended), float64(time.Second))
}

// TestWhoIsToBeReplacedIsWaitedFor: the replacement took too long for its step,
// and the ring has as many voters as were asked for all the time. One that can't
// be, as no machine is left for another member, is not waited for.
func TestWhoIsToBeReplacedIsWaitedFor(t *testing.T) {
	const never = ringproof.Forever
	replaced := ringproof.Instant(20 * time.Second)
	for name, c := range map[string]struct {
		at, converges ringproof.Instant
		lost          bool
	}{
		"replaced":             {at: replaced, converges: replaced.Add(calm)},
		"never replaced":       {at: never, converges: never},
		"nowhere to put it to": {at: never, lost: true, converges: ringproof.Instant(2 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			w := &toy{idle: true}
			w.looking = func(o *ringproof.Observation) {
				for i, m := range o.Members {
					if m.Machine == "m2" && o.At >= c.at {
						o.Members[i].Machine = "m4"
					}
				}
				for i := range o.Machines[3:] {
					o.Machines[3+i].Lost = c.lost
				}
			}
			step := ringproof.Step{Name: "replace", Timeout: seconds(2), Op: &ringproof.Op{Kind: ringproof.OpReplace, Target: "m2"}}
			h := play(t, w, ring(step))
			if c.lost {
				only(t, h, ringproof.EventStepDone, "replace") // nothing is owed
			} else {
				only(t, h, ringproof.EventStepFailed, "replace")
			}
			assert.Equal(t, []string{"m2"}, h.Evidence.Vacant)
			if c.converges == never {
				assert.Empty(t, of(h, ringproof.EventConverged, ""))
				return
			}
			assert.InDelta(t, 0, only(t, h, ringproof.EventConverged, "").At.Sub(c.converges), float64(time.Second))
		})
	}
}

// TestAnOperationIsTriedAgain: the store was away for a moment.
func TestAnOperationIsTriedAgain(t *testing.T) {
	tries := 0
	w := &toy{asked: func(ringproof.Op) error {
		if tries++; tries < 4 {
			return errors.New("the store does not answer")
		}
		return nil
	}}
	h := play(t, w, ring(scale("grow", 5)))
	only(t, h, ringproof.EventStepDone, "grow")
	assert.Equal(t, 4, tries)
	step := scale("grow", 5)
	step.Timeout = seconds(5)
	h = play(t, &toy{asked: func(ringproof.Op) error { return errors.New("the store does not answer") }}, ring(step))
	assert.Equal(t, "the store does not answer", only(t, h, ringproof.EventStepMissed, "grow").Text)
	assert.Equal(t, 3, h.Evidence.Spec, "nobody heard of it")
}

// TestNobodyIsThere: what is asked of a member where none is has done nothing, and is no step
// that was carried out.
func TestNobodyIsThere(t *testing.T) {
	for _, kind := range []ringproof.OpKind{ringproof.OpReplace, ringproof.OpMoveLeader, ringproof.OpRestart} {
		asked := false
		w := &toy{asked: func(ringproof.Op) error { asked = true; return nil }}
		h := play(t, w, ring(ringproof.Step{Name: "nobody", Timeout: seconds(5), Op: &ringproof.Op{Kind: kind, Target: "m5"}}))
		assert.Equal(t, "no member is on m5, so that there is none to "+string(kind)+": aim at a machine that has one", only(t, h, ringproof.EventStepMissed, "nobody").Text)
		assert.False(t, asked)
	}
}

func TestARingThatDoesNotConverge(t *testing.T) {
	lose := faulty("lose", ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "m2"})
	for name, c := range map[string]struct {
		invariants []ringproof.Invariant
		within     time.Duration
	}{
		"in time":            {nil, convergeWithin},
		"in the plan's time": {[]ringproof.Invariant{{Check: "converges", Params: map[string]string{"within": "5s"}}}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := ring(lose)
			p.Invariants = c.invariants
			h := play(t, &toy{idle: true}, p)
			assert.Empty(t, of(h, ringproof.EventConverged, ""))
			waited := only(t, h, ringproof.EventRunEnds, "").At.Sub(only(t, h, ringproof.EventHealPhase, "").At)
			assert.Greater(t, waited, c.within, "it gets all of its time")
			assert.LessOrEqual(t, waited, c.within+2*time.Second)
		})
	}
}

// TestARingThatNeverComes is a history to judge, not an error.
func TestARingThatNeverComes(t *testing.T) {
	p := ring(scale("grow", 5))
	p.Ring.Size, p.Ring.Machines = 3, 3
	p.Steps[0].Timeout = seconds(1)
	h := play(t, &toy{looking: func(o *ringproof.Observation) { o.Fresh, o.Members = false, nil }}, p)
	assert.Empty(t, of(h, ringproof.EventRingCreated, ""))
	assert.Empty(t, of(h, ringproof.EventConverged, ""))
	assert.GreaterOrEqual(t, only(t, h, ringproof.EventStepBegun, "grow").At, ringproof.Instant(createWithin))
}

func TestDisaster(t *testing.T) {
	w := &toy{idle: true}
	p := ring(
		faulty("lose", ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "majority"}),
		ringproof.Step{Name: "halts", Assert: &ringproof.Assert{Within: seconds(2), Halted: true}},
	)
	p.Mode = ringproof.ModeDisaster
	h := play(t, w, p)
	assert.Empty(t, of(h, ringproof.EventFaultDowngraded, ""), "nothing is unfair in a disaster")
	assert.Len(t, of(h, ringproof.EventFaultLanded, "lose"), 2)
	assert.Contains(t, only(t, h, ringproof.EventStepFailed, "halts").Text, "saw it say nothing")
	assert.Empty(t, of(h, ringproof.EventConverged, ""), "and nobody asks for convergence")
	assert.InDelta(t, quiet, only(t, h, ringproof.EventRunEnds, "").At.Sub(only(t, h, ringproof.EventHealPhase, "").At), float64(poll))

	w = &toy{idle: true}
	w.injecting = func(ringproof.Step, []string) error {
		w.Go(t.Context(), "", func(context.Context) {
			time.Sleep(time.Second)
			w.recorder.Record(ringproof.Event{Kind: ringproof.EventHalted, Text: "two of three disks are empty"})
		})
		return nil
	}
	only(t, play(t, w, p), ringproof.EventStepDone, "halts")
}

// TestAChangeThatComesAMomentLater is none that was not made.
func TestAChangeThatComesAMomentLater(t *testing.T) {
	none := 0
	never := ringproof.Step{Name: "never", Assert: &ringproof.Assert{Within: seconds(20), Changes: &none}}
	play := func(w *toy) []ringproof.Event {
		first := faulty("first", ringproof.Fault{Kind: ringproof.FaultPause, Target: "m1", Scope: "agent"})
		return play(t, w, ring(first, never)).Events
	}
	ended := func(all []ringproof.Event, kind ringproof.EventKind) bool {
		return slices.ContainsFunc(all, func(e ringproof.Event) bool { return e.Step == "never" && e.Kind == kind })
	}
	assert.True(t, ended(play(&toy{}), ringproof.EventStepDone))
	w := &toy{}
	w.injecting = func(ringproof.Step, []string) error {
		w.Go(t.Context(), "", func(context.Context) {
			time.Sleep(2 * time.Second)
			w.recorder.Record(ringproof.Event{Kind: ringproof.EventActionDone, Action: "remove"})
		})
		return nil
	}
	assert.True(t, ended(play(w), ringproof.EventStepFailed))
}

// TestAHaltOfBefore the quorum was lost is none for that: one of three disks is lost, the subject
// halts for something else, and says nothing as the second is.
func TestAHaltOfBefore(t *testing.T) {
	w := &toy{idle: true}
	w.injecting = func(s ringproof.Step, _ []string) error {
		if s.Name == "first" {
			w.Go(t.Context(), "", func(context.Context) {
				time.Sleep(time.Second)
				w.recorder.Record(ringproof.Event{Kind: ringproof.EventHalted, Text: "an alarm stands"})
			})
		}
		return nil
	}
	first := ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "m1"}
	second := ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "m2"}
	later := faulty("second", second)
	later.After = &ringproof.Trigger{Event: ringproof.EventFaultLanded, Step: "first", Delay: seconds(2)}
	p := ring(faulty("first", first), later, ringproof.Step{Name: "halts", Assert: &ringproof.Assert{Within: seconds(2), Halted: true}})
	p.Mode = ringproof.ModeDisaster
	assert.Contains(t, only(t, play(t, w, p), ringproof.EventStepFailed, "halts").Text, "saw it say nothing")
}

func TestAsserts(t *testing.T) {
	one := 1
	for name, c := range map[string]struct {
		want  ringproof.Assert
		unmet string
	}{
		"met":          {ringproof.Assert{Voters: 3}, ""},
		"voters":       {ringproof.Assert{Voters: 5}, "expected 5 voters, all serving within 2s, saw 3 voters on m1, m2, m3, 0 learners, all serving"},
		"learners":     {ringproof.Assert{Learners: &one}, "expected 1 learner, all serving within 2s, saw 3 voters on m1, m2, m3, 0 learners, all serving"},
		"not halted":   {ringproof.Assert{Halted: true}, "expected the subject to halt within 2s, saw no disaster: the plan isn't in mode disaster"},
		"with a pause": {ringproof.Assert{Voters: 3}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Within = seconds(2)
			h := play(t, &toy{}, ring(ringproof.Step{Name: "assert", Assert: &c.want}))
			if c.unmet != "" {
				assert.Equal(t, c.unmet, only(t, h, ringproof.EventStepFailed, "assert").Text)
				return
			}
			assert.Greater(t, only(t, h, ringproof.EventStepDone, "assert").At, only(t, h, ringproof.EventStepBegun, "assert").At,
				"an observation from before tells nothing")
		})
	}
	pause := faulty("pause", ringproof.Fault{Kind: ringproof.FaultPause, Target: "m2", Scope: "machine"})
	h := play(t, &toy{}, ring(pause, ringproof.Step{Name: "assert", Assert: &ringproof.Assert{Within: seconds(2), Voters: 3}}))
	assert.Contains(t, only(t, h, ringproof.EventStepFailed, "assert").Text, "not serving: m2")
	pause.Fault.Target = "majority"
	h = play(t, &toy{}, ring(pause, ringproof.Step{Name: "assert", Assert: &ringproof.Assert{Within: seconds(2), Voters: 3}}))
	assert.Contains(t, only(t, h, ringproof.EventStepFailed, "assert").Text, "that no quorum confirms")
}

// TestCancel ends a run wherever it is.
func TestCancel(t *testing.T) {
	steps := []ringproof.Step{
		faulty("dark", ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine", Target: "m2", For: seconds(3)}),
		detached(scale("grow", 5)),
		after(sleep("next"), ringproof.Trigger{Event: ringproof.EventMemberPromoted}),
	}
	var whole time.Duration
	synctest.Test(t, func(t *testing.T) {
		w := &toy{}
		_, err := Run(t.Context(), loaded(3, steps...), w, Options{})
		require.NoError(t, err)
		whole = time.Duration(w.Now())
	})
	for at := 10 * time.Millisecond; at < whole; at += 497 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			w := &toy{}
			ctx, cancel := context.WithTimeout(t.Context(), at)
			defer cancel()
			_, err := Run(ctx, loaded(3, steps...), w, Options{})
			require.ErrorIs(t, err, context.DeadlineExceeded, "cancelled after %v", at)
			require.True(t, w.closed, "cancelled after %v: the world was left open", at)
			require.LessOrEqual(t, time.Duration(w.Now())-at, 500*time.Millisecond, "cancelled after %v: it took long to end", at)
		})
	}
}

func TestWhatCloseLeavesBehindIsEvidence(t *testing.T) {
	h := play(t, &toy{left: errors.New("processes left behind: etcd 17")}, ring())
	assert.Equal(t, []string{"processes left behind: etcd 17"}, h.Evidence.Leftovers)
	assert.Empty(t, play(t, &toy{}, ring()).Evidence.Leftovers)
}

func TestARunThatCannotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &toy{lacks: ringproof.FaultPartition}
		step := faulty("cut", ringproof.Fault{Kind: ringproof.FaultPartition, Target: "m2"})
		step.Position = "flap.yaml:9"
		_, err := Run(t.Context(), ring(step), w, Options{})
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "step cut (flap.yaml:9)")
		require.Zero(t, w.Now(), "a plan that can't be done is not begun")

		w = &toy{fails: errors.New("no bridge")}
		_, err = Run(t.Context(), ring(), w, Options{})
		require.ErrorContains(t, err, "starting the toy world: no bridge")
		require.True(t, w.closed)
	})
}

func TestTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []ringproof.Event
		h, err := Run(t.Context(), ring(), &toy{}, Options{OnEvent: func(e ringproof.Event) { told = append(told, e) }})
		require.NoError(t, err)
		require.Equal(t, h.Events, told)
	})
}

// TestRequestsAreMadeInTheOrderOfThePlan: a ring ends as what was asked for
// last. Asked at once, a slow request for 3 overtook one for 5, and the ring
// did as it was told.
func TestRequestsAreMadeInTheOrderOfThePlan(t *testing.T) {
	w := &toy{asked: func(op ringproof.Op) error {
		if op.To == 3 {
			time.Sleep(time.Second)
		}
		return nil
	}}
	h := play(t, w, ring(detached(scale("grow", 5)), detached(scale("shrink", 3)), scale("regrow", 5)))
	assert.Equal(t, 5, w.want)
	only(t, h, ringproof.EventStepDone, "regrow")
	assert.NotEmpty(t, of(h, ringproof.EventConverged, ""))
}

// TestWhatEtcdsAreAskedToHave: the ring's flags and the machine's own, and those of a
// restart; after one that failed nobody knows.
func TestWhatEtcdsAreAskedToHave(t *testing.T) {
	w := &toy{}
	p := ring(
		ringproof.Step{Name: "newer", Op: &ringproof.Op{Kind: ringproof.OpRestart, Target: "m2", Version: "v3.7.3", Flags: map[string]string{"b": "2"}}},
	)
	p.Ring.Version, p.Ring.Heartbeat, p.Ring.Flags = "v3.6.16", ringproof.Duration(50*time.Millisecond), map[string]string{"a": "1"}
	p.Ring.Members = map[string]ringproof.Own{"m1": {Version: "v3.5.35", Flags: map[string]string{"a": "3"}}}
	h := play(t, w, p)
	assert.Equal(t, ringproof.Own{Version: "v3.5.35", Flags: map[string]string{"heartbeat-interval": "50", "a": "3"}}, h.Evidence.Asked["m1"])
	assert.Equal(t, ringproof.Own{Version: "v3.7.3", Flags: map[string]string{"heartbeat-interval": "50", "a": "1", "b": "2"}}, h.Evidence.Asked["m2"])
	assert.Len(t, h.Evidence.Asked, p.Ring.Machines)

	r := &runner{own: owned(p.Ring)}
	r.change(*p.Steps[0].Op, "m2", errors.New("it is off"))
	r.change(*p.Steps[0].Op, "m2", nil)
	assert.NotContains(t, r.own, "m2")
}

// TestWhatWasTakenBack: one member had its turn as an upgrade was taken back, one has its turn yet,
// and one joins later. None of them can go back; whoever else comes to that release was not asked to.
func TestWhatWasTakenBack(t *testing.T) {
	p := ring()
	p.Ring.Version, p.Ring.Machines = "v3.5.35", 5
	r := &runner{plan: p, own: owned(p.Ring), record: &record{now: func() ringproof.Instant { return 0 }}}
	see := func(releases ...string) (outdated []string) {
		var o ringproof.Observation
		for i, release := range releases {
			o.Members = append(o.Members, ringproof.MemberView{ID: ringproof.MemberID(i + 1), Machine: fmt.Sprintf("m%d", i+1), Version: release, Serving: true})
		}
		r.record.observe(o)
		r.inTurn(o)
		for _, m := range o.Members {
			if r.outdated(m) {
				outdated = append(outdated, m.Machine)
			}
		}
		return outdated
	}
	r.upgrade("v3.6.16")
	assert.Equal(t, []string{"m2", "m3", "m4"}, see("3.6.16", "3.5.35", "3.5.35", "3.5.35"))
	r.upgrade("v3.5.35")
	assert.Empty(t, see("3.6.16", "3.5.35", "3.5.35", "3.5.35"), "whoever had its turn stays")
	assert.Empty(t, see("3.6.16", "3.6.16", "3.5.35", "3.5.35", "3.6.16"), "one has its turn yet, and one joins")
	assert.Equal(t, []string{"m3"}, see("3.6.16", "3.6.16", "3.6.16", "3.5.35", "3.6.16"))
	r.upgrade("v3.6.16")
	assert.Equal(t, []string{"m4"}, see("3.6.16", "3.6.16", "3.6.16", "3.5.35", "3.6.16"))
}

// founding is a toy whose third initial member serves from a moment on, and whose looks take so long.
type founding struct {
	*toy
	takes, serves ringproof.Instant
}

func (w founding) Observe(ctx context.Context) (ringproof.Observation, error) {
	o, err := w.toy.Observe(ctx)
	o.Until = o.At + w.takes
	o.Members = slices.Clone(o.Members)
	o.Members[2].Serving = o.At >= w.serves
	return o, err
}

// TestALossWaitsForTheFounders: no list was read yet when an initial member is to be lost, and one
// of the others never ran. The loss is asked for again until that one has; if it never
// does, it is refused. Where a look takes no time nobody waits.
func TestALossWaitsForTheFounders(t *testing.T) {
	loss := ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "m2"}
	second := ringproof.Instant(time.Second)
	for name, test := range map[string]struct {
		takes, serves ringproof.Instant
		waits         ringproof.Instant
		refused       bool
	}{
		"it runs three seconds later": {1, 4 * second, 3 * second, false},
		"it never runs":               {1, ringproof.Forever, ringproof.Instant(findWithin), true},
		"looks take no time":          {0, ringproof.Forever, 0, false},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := founding{&toy{}, test.takes, test.serves}
				p := ring()
				require.NoError(t, w.Start(t.Context(), p, &record{now: w.Now}))
				time.Sleep(time.Second)
				r := &runner{plan: p, world: w, record: &record{now: w.Now}}
				r.ledger = &ledger{truth: faults.NewLedger(p.Ring.Size, p.Mode), record: r.record}
				before := ringproof.Observation{At: w.Now(), Until: w.Now() + test.takes, Machines: []ringproof.MachineView{{Name: "m2"}}}
				r.record.observe(before)
				r.ledger.Observe(before)
				began := w.Now()
				_, reason := r.admit(t.Context(), loss, []string{"m2"})
				assert.Equal(t, test.refused, reason != "", reason)
				assert.InDelta(t, float64(test.waits), float64(w.Now()-began), 2*float64(poll))
			})
		})
	}
}

// TestContent: who says when there is nothing to do is waited for, also if nobody has heard it yet,
// and who tells nobody isn't.
func TestContent(t *testing.T) {
	waits := func(all ...string) *runner {
		r := &runner{record: &record{now: func() ringproof.Instant { return 0 }}}
		for _, text := range all {
			r.record.Record(ringproof.Event{Kind: ringproof.EventWaiting, Text: text})
		}
		return r
	}
	assert.False(t, waits().content())
	assert.False(t, waits("for a pod").content(), "it was not heard to say that there is nothing to do")
	mute := waits()
	mute.plan.Untold = []ringproof.EventKind{ringproof.EventWaiting}
	assert.True(t, mute.content())
	assert.True(t, waits("for a pod", "steady").content())
	assert.False(t, waits("steady", "for a pod").content())
	calls := waits("for a pod")
	calls.record.Record(ringproof.Event{Kind: ringproof.EventHalted, Text: "no quorum"})
	assert.False(t, calls.content(), "it calls for a person")
}
