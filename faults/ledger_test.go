// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	_ "github.com/ringproof/ringproof/internal/needs" // the seed, in CI
)

func lose(target string) ringproof.Fault {
	return ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: target}
}

func admitted(l *faults.Ledger, machine string) bool {
	_, reason := l.Admit(lose(machine), []string{machine})
	return reason == ""
}

func opened(o ringproof.Observation, mode ringproof.Mode) *faults.Ledger {
	l := faults.NewLedger(len(o.Voters()), mode)
	l.Observe(o)
	return l
}

func TestLossOfOneInThreeIsFairAndOfTwoIsNot(t *testing.T) {
	l := opened(ring(4, 3, 0), ringproof.ModeSafe)
	assert.True(t, admitted(l, "m1"))
	f, reason := l.Admit(lose("m3"), []string{"m3"})
	assert.Equal(t, "of 3 voters 1 would keep their log, a quorum is 2", reason)
	assert.Equal(t, ringproof.Fault{Kind: ringproof.FaultKill, Target: "m3", Scope: "machine", For: 5e9}, f)
	assert.True(t, admitted(l, "m1"), "what is lost already can be lost again")
	assert.True(t, admitted(l, "m4"), "a machine without a member costs no quorum")
}

func TestSizeOneHasNothingToSpare(t *testing.T) {
	assert.False(t, admitted(opened(ring(2, 1, 0), ringproof.ModeSafe), "m1"))
	assert.False(t, admitted(opened(ring(2, 2, 0), ringproof.ModeSafe), "m1"))
	assert.False(t, admitted(faults.NewLedger(3, ringproof.ModeSafe), "m1"), "nothing was observed yet")
}

// Before a membership was seen any machine may be an initial member's, and a quorum of
// initial members keeps what it has. Who serves later was bootstrapped after the loss.
func TestAFounderMayBeLostBeforeTheRingIsSeen(t *testing.T) {
	l := faults.NewLedger(3, ringproof.ModeSafe)
	machines := ring(3, 3, 0)
	unseen := machines
	unseen.Members, unseen.Fresh = nil, false
	l.Observe(unseen)
	assert.True(t, admitted(l, "m1"))
	assert.False(t, admitted(l, "m2"), "one initial member of three would be left")
	seen := machines
	seen.Members = slices.Clone(machines.Members)
	for i := range seen.Members {
		seen.Members[i].Serving = seen.Members[i].Machine != "m1"
	}
	l.Observe(seen)
	assert.False(t, admitted(l, "m2"), "m1 has not come")
	seen.Members = slices.Clone(seen.Members)
	for i := range seen.Members {
		seen.Members[i].Serving = true
	}
	seen.At++
	l.Observe(seen)
	assert.True(t, admitted(l, "m2"), "m1 serves, on the disk that it has now")
}

// A voter that never ran holds nothing that the others could go on from: without
// who bootstrapped the ring it is never let in. Once it was heard it counts, be it off.
func TestAVoterThatNeverRanKeepsNoLog(t *testing.T) {
	young := ring(5, 5, 0)
	for i := range young.Members[3:] {
		young.Members[3+i].Serving, young.Members[3+i].Name = false, ""
	}
	l := opened(young, ringproof.ModeSafe)
	_, reason := l.Admit(lose("m1"), []string{"m1"})
	assert.Equal(t, "of 5 voters 2 would keep their log, a quorum is 3", reason)
	assert.True(t, admitted(l, "m5"), "it has nothing to lose")

	l = opened(young, ringproof.ModeSafe)
	l.Observe(ring(5, 5, 0))
	l.Observe(young)
	assert.True(t, admitted(l, "m1"))
}

func TestDisasterDowngradesNothing(t *testing.T) {
	l := opened(ring(3, 3, 0), ringproof.ModeDisaster)
	_, reason := l.Admit(lose("majority"), []string{"m1", "m2"})
	assert.Empty(t, reason)
	_, left := l.Budget()
	assert.Equal(t, -1, left)
}

func TestATransientFaultIsAlwaysAdmissible(t *testing.T) {
	l := opened(ring(3, 3, 0), ringproof.ModeSafe)
	for _, kind := range []ringproof.FaultKind{ringproof.FaultKill, ringproof.FaultPause, ringproof.FaultPartition, ringproof.FaultDiskFull, ringproof.FaultStoreOutage, ringproof.FaultAgentCrash} {
		f, reason := l.Admit(ringproof.Fault{Kind: kind, Target: "all"}, []string{"m1", "m2", "m3"})
		assert.Empty(t, reason)
		assert.Equal(t, kind, f.Kind)
	}
}

func TestChargeEndsWhenTheLostMemberHasLeft(t *testing.T) {
	l := opened(ring(4, 3, 0), ringproof.ModeSafe)
	assert.True(t, admitted(l, "m1"))

	joined := ring(4, 3, 1) // the replacement came in as a learner
	joined.At = 2
	l.Observe(joined)
	assert.False(t, admitted(l, "m2"))

	left := ring(4, 4, 0) // it was promoted, and the lost member removed
	left.At = 3
	left.Members = left.Members[1:]
	left.Members[0].Peers = []ringproof.MemberID{1, 2, 3, 4} // m2 hasn't applied that yet
	l.Observe(left)
	assert.False(t, admitted(l, "m3"), "a member still counts the lost one as its peer")

	left.At, left.Members[0].Peers, left.Members[0].Index = 4, nil, 1
	l.Observe(left)
	assert.True(t, admitted(l, "m3"))

	var lines []string
	for _, b := range l.Timeline() {
		lines = append(lines, b.String())
	}
	assert.Equal(t, []string{
		"    0.000s  used 0, left 1  membership: 3 voters",
		"    0.000s  used 1, left 0  volume-loss of m1",
		"    0.000s  used 1, left 0  volume-loss of m2 refused: of 3 voters 1 would keep their log, a quorum is 2",
		"    0.000s  used 1, left 0  membership: 3 voters",
		"    0.000s  used 1, left 0  volume-loss of m3 refused: of 4 voters 2 would keep their log, a quorum is 3",
		"    0.000s  used 0, left 1  lost member 1 (m1) has left",
		"    0.000s  used 1, left 0  volume-loss of m3",
	}, lines)
}

// TestAChangeCountsUntilAnEntryAfterIt: m3 was promoted, and only m2, the leader,
// has on its disk that this is committed. Without that disk m1 and m3, back from
// a power cut, take m3 for a learner, and wait for m2 for ever.
func TestAChangeCountsUntilAnEntryAfterIt(t *testing.T) {
	l := opened(at(ring(3, 2, 1), 7), ringproof.ModeSafe)
	l.Observe(at(ring(3, 3, 0), 8))
	assert.False(t, admitted(l, "m2"), "of two voters none may be lost")
	l.Observe(at(ring(3, 3, 0), 8))
	assert.False(t, admitted(l, "m2"), "nothing was written since")
	l.Observe(at(ring(3, 3, 0), 9))
	assert.True(t, admitted(l, "m2"))
}

// at is a ring whose leader knows so many entries to be committed.
func at(o ringproof.Observation, index uint64) ringproof.Observation {
	o.Members[1].Index = index
	return o
}

// A removal that was begun may commit at any moment, also when the subject was
// told that it failed; both memberships must survive the loss.
func TestChangeInFlightCountsOnBothSides(t *testing.T) {
	o := ring(6, 5, 0)
	l := opened(o, ringproof.ModeSafe)
	assert.True(t, admitted(l, "m1"))
	l.Note(ringproof.Event{Kind: ringproof.EventActionBegun, Action: "remove", Member: 5, At: 2})
	l.Note(ringproof.Event{Kind: ringproof.EventActionFailed, Action: "remove", Member: 5, At: 3})
	assert.False(t, admitted(l, "m2"), "of four voters without m5, two would be left")
	assert.True(t, admitted(l, "m5"), "who leaves may be lost: three of five, three of four remain")

	l = opened(o, ringproof.ModeSafe)
	assert.True(t, admitted(l, "m1"))
	l.Note(ringproof.Event{Kind: ringproof.EventActionBegun, Action: "remove", Member: 5, At: 2})
	l.Note(ringproof.Event{Kind: ringproof.EventActionFailed, Action: "remove", Member: 5, At: 3})
	o.At = 4 // the membership was read after the failure, and is as before
	l.Observe(o)
	assert.True(t, admitted(l, "m2"))
}

func TestUnnamedChangeCountsForEachMember(t *testing.T) {
	l := opened(ring(6, 5, 0), ringproof.ModeSafe)
	l.Note(ringproof.Event{Kind: ringproof.EventActionBegun, Action: "remove"})
	assert.Len(t, l.Configs(), 6)
	assert.True(t, admitted(l, "m1"))
	assert.False(t, admitted(l, "m2"))
}

func TestMachinesMustRemainForTheWantedVoters(t *testing.T) {
	loss := ringproof.Fault{Kind: ringproof.FaultMachineLoss, Target: "m1"}
	_, reason := opened(ring(3, 3, 0), ringproof.ModeSafe).Admit(loss, []string{"m1"})
	assert.Equal(t, "2 machines would be left for 3 voters", reason)

	l := opened(ring(4, 3, 0), ringproof.ModeSafe)
	_, reason = l.Admit(loss, []string{"m1"})
	assert.Empty(t, reason)
	_, reason = l.Admit(ringproof.Fault{Kind: ringproof.FaultMachineLoss, Target: "spare"}, []string{"m4"})
	assert.Equal(t, "2 machines would be left for 3 voters", reason)

	l = opened(ring(5, 3, 0), ringproof.ModeSafe)
	l.Want(5)
	_, reason = l.Admit(loss, []string{"m1"})
	assert.Equal(t, "4 machines would be left for 5 voters", reason)

	l = opened(ring(6, 5, 0), ringproof.ModeSafe)
	l.Leave([]string{"m2"}) // and its spare takes over: whoever is lost now has none
	_, reason = l.Admit(loss, []string{"m1"})
	assert.Equal(t, "4 machines would be left for 5 voters", reason)
	l.Leave(nil)
	_, reason = l.Admit(loss, []string{"m1"})
	assert.Empty(t, reason)
}

// TestACopyTakesAMachine: nobody may clear the copy of a log, so the machine on which it lies
// takes no member.
func TestACopyTakesAMachine(t *testing.T) {
	loss, copied := ringproof.Fault{Kind: ringproof.FaultMachineLoss, Target: "m1"}, ringproof.Fault{Kind: ringproof.FaultVolumeCopy, Target: "spare", From: "leader"}
	l := opened(ring(4, 3, 0), ringproof.ModeSafe)
	_, reason := l.Admit(copied, []string{"m4"})
	assert.Empty(t, reason)
	_, reason = l.Admit(loss, []string{"m1"})
	assert.Equal(t, "2 machines would be left for 3 voters", reason)

	l = opened(ring(4, 3, 0), ringproof.ModeSafe)
	_, reason = l.Admit(loss, []string{"m1"})
	assert.Empty(t, reason)
	admitted, reason := l.Admit(copied, []string{"m4"})
	assert.Equal(t, "nobody may clear a copy, and without m4 2 machines are left for 3 voters", reason)
	assert.Empty(t, admitted.Kind)
}

func TestDowngradeLadder(t *testing.T) {
	f := ringproof.Fault{Kind: ringproof.FaultMachineLoss, Target: "leader"}
	var kinds []string
	for ok := true; ok; f, ok = faults.Downgrade(f) {
		kinds = append(kinds, string(f.Kind))
	}
	assert.Equal(t, []string{"machine-loss", "kill", "pause"}, kinds)

	l := opened(ring(3, 3, 0), ringproof.ModeDisaster)
	l.Admit(f, nil)
	gone := ring(3, 3, 0)
	gone.Machines[0].Lost = true
	milder, reason := opened(gone, ringproof.ModeSafe).Admit(lose("majority"), []string{"m1", "m2"})
	assert.NotEmpty(t, reason)
	assert.Empty(t, milder.Kind, "what is gone can't be killed")
}

// survives is the dumb version of fairness: some set of voters is a quorum of
// the configuration and holds nobody who was lost.
func survives(c faults.Config, lost map[ringproof.MemberID]bool) bool {
	for set := range 1 << len(c) {
		size, whole := 0, true
		for i, id := range c {
			if set>>i&1 == 1 {
				size++
				whole = whole && !lost[id]
			}
		}
		if whole && 2*size > len(c) {
			return true
		}
	}
	return false
}

func TestAdmitAgreesWithEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		voters := rapid.IntRange(1, 7).Draw(t, "voters")
		o := ring(12, voters, rapid.IntRange(0, 2).Draw(t, "learners"))
		l := opened(o, ringproof.ModeSafe)
		lost := map[ringproof.MemberID]bool{}
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			if rapid.Bool().Draw(t, "change") {
				l.Note(anyChange(t, o))
				continue
			}
			targets := rapid.SliceOfNDistinct(rapid.IntRange(1, 12), 1, 3, rapid.ID[int]).Draw(t, "targets")
			tried, counts := try(o, lost, targets)
			fair := true
			for _, c := range l.Configs() {
				touched := slices.ContainsFunc(c, func(id ringproof.MemberID) bool { return tried[id] && !lost[id] })
				fair = fair && (!touched || survives(c, tried))
			}
			_, reason := l.Admit(lose("set"), names(targets))
			if (reason == "") != fair {
				t.Fatalf("losing %v after %v: fair by enumeration: %v; the ledger says %q", counts, lost, fair, reason)
			}
			if fair {
				lost = tried
			}
		}
	})
}

func anyChange(t *rapid.T, o ringproof.Observation) ringproof.Event {
	m := rapid.SampledFrom(o.Members).Draw(t, "member")
	action := "remove"
	if m.Learner {
		action = "promote"
	}
	return ringproof.Event{Kind: ringproof.EventActionBegun, Action: action, Member: m.ID}
}

func try(o ringproof.Observation, lost map[ringproof.MemberID]bool, targets []int) (map[ringproof.MemberID]bool, []ringproof.MemberID) {
	tried := map[ringproof.MemberID]bool{}
	for id := range lost {
		tried[id] = true
	}
	var hit []ringproof.MemberID
	for _, n := range targets {
		if m, ok := o.On(fmt.Sprintf("m%d", n)); ok {
			tried[m.ID] = true
			hit = append(hit, m.ID)
		}
	}
	return tried, hit
}

func names(indices []int) []string {
	var out []string
	for _, n := range indices {
		out = append(out, fmt.Sprintf("m%d", n))
	}
	return out
}

// A machine's name doesn't say whose log is on it while disks are swapped, or not mounted: the
// loss of m1's would cost member 2 its log, and the ledger would charge 1.
func TestNoLossIsFairWhileDisksAreSwapped(t *testing.T) {
	l := opened(ring(3, 3, 0), ringproof.ModeSafe)
	swap := ringproof.Fault{Kind: ringproof.FaultDiskSwap, Target: "m1,m2"}
	for range 2 {
		f, reason := l.Admit(swap, []string{"m1", "m2"})
		assert.Empty(t, reason)
		assert.Equal(t, swap, f)
	}
	healed := ringproof.Event{Kind: ringproof.EventFaultHealed, Fault: ringproof.FaultDiskSwap}
	for range 2 {
		f, reason := l.Admit(lose("m3"), []string{"m3"})
		assert.Equal(t, "disks are swapped, or not mounted: the log that would be lost is not that of the machine's own member", reason)
		assert.Equal(t, ringproof.FaultKill, f.Kind)
		l.Note(ringproof.Event{Kind: ringproof.EventFaultHealed, Fault: ringproof.FaultKill})
		l.Note(healed)
	}
	assert.True(t, admitted(l, "m3"), "both swaps are taken back")
}

// A clone may come up while its machine is off: nothing is taken by it, and who
// comes back with the member's disk at the member's address is the machine.
func TestAMachineThatIsOffMayHaveAClone(t *testing.T) {
	clone := ringproof.Fault{Kind: ringproof.FaultDuplicate, Target: "m2"}
	o := ring(4, 3, 0)
	o.Machines = slices.Clone(o.Machines)
	for i := range o.Machines {
		o.Machines[i].Up = i != 1
	}
	l := opened(o, ringproof.ModeSafe)
	f, reason := l.Admit(clone, []string{"m2"})
	assert.Empty(t, reason)
	assert.Equal(t, clone, f)
	used, _ := l.Budget()
	assert.Zero(t, used, "nothing is charged")
}

// TestAVoterThatSomebodyAdds holds no log, and counts for the quorum at once: of one, nobody
// is a quorum of two; of three, each is needed until it serves, also before anybody saw it.
func TestAVoterThatSomebodyAdds(t *testing.T) {
	add := ringproof.Fault{Kind: ringproof.FaultForeignHand, Target: "spare", Does: ringproof.MemberAdd}
	alone := opened(ring(4, 1, 0), ringproof.ModeSafe)
	_, reason := alone.Admit(add, []string{"m4"})
	assert.Equal(t, "with a voter more, that nobody has started, 1 have a log, and a quorum is 2", reason)
	_, reason = alone.Admit(ringproof.Fault{Kind: ringproof.FaultForeignHand, Target: "spare", Does: ringproof.LearnerAdd}, []string{"m4"})
	assert.Empty(t, reason)

	l := opened(ring(4, 3, 0), ringproof.ModeSafe)
	_, reason = l.Admit(add, []string{"m4"})
	assert.Empty(t, reason)
	loss := ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "m1"}
	_, reason = l.Admit(loss, []string{"m1"})
	assert.Equal(t, "of 4 voters 2 would keep their log, a quorum is 3", reason)
	l.Note(ringproof.Event{At: 2, Kind: ringproof.EventFaultMissed, Fault: ringproof.FaultForeignHand, Machine: "m4"})
	_, reason = l.Admit(loss, []string{"m1"})
	assert.NotEmpty(t, reason, "nobody has looked since what became of it")
	later := ring(4, 3, 0)
	later.At = 3
	l.Observe(later)
	_, reason = l.Admit(loss, []string{"m1"})
	assert.Empty(t, reason, "it was refused")
}
