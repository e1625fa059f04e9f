// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/sim"
)

// life is what a ring of three goes through: it is bootstrapped, and, with what is
// set from the first step on, a volume is lost, a spare takes over, it grows,
// and shrinks again.
func life(first ringproof.Fault) ringproof.Plan {
	const patience = ringproof.Duration(90e9)
	step := func(name string, op *ringproof.Op, f *ringproof.Fault) ringproof.Step {
		return ringproof.Step{Name: name, Op: op, Fault: f, Timeout: patience}
	}
	return ringproof.Plan{Cell: "life#1", Scenario: "life", Seed: 1, Subject: Reference, World: "sim",
		Ring:     ringproof.RingSpec{Size: 3, Machines: 6, Version: "v3.6.16", Security: "tls", ReplaceAfter: 10e9, Volume: 512 << 20},
		Workload: ringproof.Workload{Profile: "none"},
		Steps: []ringproof.Step{
			step("first", nil, &first),
			step("lose", nil, &ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "m2"}),
			step("move", &ringproof.Op{Kind: ringproof.OpReplace, Target: "leader"}, nil),
			step("grow", &ringproof.Op{Kind: ringproof.OpScale, To: 5}, nil),
			step("refused", &ringproof.Op{Kind: ringproof.OpScale, To: 4, Refused: true}, nil),
			step("lead", &ringproof.Op{Kind: ringproof.OpMoveLeader, Target: "follower"}, nil),
			step("shrink", &ringproof.Op{Kind: ringproof.OpScale, To: 3}, nil),
		}}
}

type simulated = Simulated[*sim.World, *sim.Machine]

func simulate(t *testing.T, plan ringproof.Plan, s *simulated) ringproof.History {
	t.Helper()
	w := sim.New(plan.Seed, s)
	h, err := harness.Run(t.Context(), plan, w, harness.Options{})
	require.NoError(t, err)
	return h
}

func happened(h ringproof.History, kind ringproof.EventKind, step string) (all []ringproof.Event) {
	for _, e := range h.Events {
		if e.Kind == kind && (step == "" || e.Step == step) {
			all = append(all, e)
		}
	}
	return all
}

// TestTheReferenceInSim: what an operator asks of the reference, it does.
func TestTheReferenceInSim(t *testing.T) {
	h := simulate(t, life(seam.Probe()), &simulated{})
	assert.Empty(t, happened(h, ringproof.EventStepFailed, ""))
	assert.Len(t, happened(h, ringproof.EventRefused, "refused"), 1)
	assert.Len(t, happened(h, ringproof.EventConverged, ""), 1)
	for _, f := range checks.Judge(&h) {
		assert.NotEqual(t, ringproof.Fail, f.Verdict, "%s", f)
	}
	plain := life(seam.Probe())
	plain.Ring.Security = "plain"
	assert.Len(t, happened(simulate(t, plain, &simulated{}), ringproof.EventConverged, ""), 1)
}

func TestAMutantInSimIsTheMutant(t *testing.T) {
	added := func(s *simulated) (voters int) {
		h := simulate(t, life(seam.Probe()), s)
		for _, e := range happened(h, ringproof.EventMemberAdded, "") {
			if !e.Learner && e.At > happened(h, ringproof.EventStepBegun, "lose")[0].At {
				voters++
			}
		}
		return voters
	}
	assert.Zero(t, added(&simulated{}))
	assert.NotZero(t, added(&simulated{Mutants: []string{"voter-first"}}))
	err := (&simulated{Mutants: []string{"voter-frist"}}).Seed(t.Context(), life(seam.Probe()), nil)
	assert.ErrorContains(t, err, `did you mean "voter-first"`)
}

// TestTheReferenceComesToTheseEffects holds the list of what there is to cut:
// one that is missing here is never swept.
func TestTheReferenceComesToTheseEffects(t *testing.T) {
	whole := &simulated{Record: &seam.Journal{}}
	plan := life(seam.Probe())
	plan.Steps = plan.Steps[1:] // nothing is set, so the journal begins with the world
	h := simulate(t, plan, whole)
	names := map[string]bool{}
	for _, e := range whole.Record.Effects {
		names[e.Name] = true
		assert.True(t, faults.IsEffect(e.Name), e.Name)
		assert.NotEmpty(t, e.Machine)
	}
	assert.Equal(t, []string{
		"create epochs", "create formed", "create identity", "create machines",
		"etcd grant", "etcd keep-alive", "etcd member-add", "etcd member-promote", "etcd member-remove", "etcd move-leader", "etcd revoke", "etcd txn",
		"remove etcd/first-start", "rename etcd", "start", "stop", "write disk.json", "write etcd/first-start", "write known.json",
		"write pki/ca.crt", "write pki/client.crt", "write pki/client.key", "write pki/peer-ca.crt", "write pki/peer.crt", "write pki/peer.key", "write pki/server.crt", "write pki/server.key",
	}, slices.Sorted(maps.Keys(names)))

	again := &simulated{Record: &seam.Journal{}}
	assert.Equal(t, h.Events, simulate(t, plan, again).Events)
	assert.Equal(t, whole.Record, again.Record, "a sweep can't find again what it saw once")
}

// cutOf is the entry as a fault that hits it.
func cutOf(e ringproof.Effect, phase string) ringproof.Fault {
	f := ringproof.Fault{Kind: ringproof.FaultAgentCrash, Effect: e.Name, Phase: phase, Nth: e.Nth, Target: e.Machine}
	if phase == seam.After || phase == seam.ReplyLost {
		f.Nth = e.Done
	}
	return f
}

// TestEachEffectIsCutAndSurvived cuts at the last effect of each name that was
// done, in each phase; with -short in one phase each.
func TestEachEffectIsCutAndSurvived(t *testing.T) {
	s := &simulated{Record: &seam.Journal{}}
	simulate(t, life(seam.Probe()), s)
	last := map[string]ringproof.Effect{}
	for _, e := range s.Record.Effects {
		if e.Done > 0 {
			last[e.Name] = e
		}
	}
	require.Greater(t, len(last), 15)
	phases := []string{seam.Before, seam.After, seam.ReplyLost, seam.Refused}
	for i, name := range slices.Sorted(maps.Keys(last)) {
		for _, phase := range phases {
			if testing.Short() && phase != phases[i%len(phases)] {
				continue
			}
			h := simulate(t, life(cutOf(last[name], phase)), &simulated{})
			landed := happened(h, ringproof.EventFaultLanded, "first")
			require.Len(t, landed, 1, "%s %s", name, phase)
			assert.Equal(t, last[name].Machine, landed[0].Machine, "%s %s", name, phase)
			assert.True(t, strings.HasPrefix(landed[0].Text, name+": "), "%s %s: %s", name, phase, landed[0].Text)
			assert.Len(t, happened(h, ringproof.EventConverged, ""), 1, "%s %s", name, phase)
			for _, f := range checks.Judge(&h) {
				assert.NotEqual(t, ringproof.Fail, f.Verdict, "%s %s: %s", name, phase, f)
			}
		}
	}
}

// TestViewsAreSurvived ages and skips the decisions around the last action of
// each machine that leads, and some starts.
func TestViewsAreSurvived(t *testing.T) {
	s := &simulated{Record: &seam.Journal{}}
	simulate(t, life(seam.Probe()), s)
	picked := map[string]ringproof.Decision{}
	for _, d := range s.Record.Decisions {
		if !strings.Contains(d.State, " wait") && d.Nth > 1 {
			picked[d.Machine+" "+d.What] = d
		}
	}
	require.NotEmpty(t, picked)
	for _, key := range slices.Sorted(maps.Keys(picked)) {
		d := picked[key]
		for _, f := range []ringproof.Fault{
			{Kind: ringproof.FaultStaleView, Decision: d.What, Nth: d.Nth, Back: 8, Count: 20, Target: d.Machine},
			{Kind: ringproof.FaultSkippedView, Decision: d.What, Nth: d.Nth, Count: 20, Target: d.Machine},
		} {
			h := simulate(t, life(f), &simulated{})
			if f.Kind == ringproof.FaultSkippedView || d.What == DecidesNext { // a start may have no view before it
				assert.NotEmpty(t, happened(h, ringproof.EventFaultLanded, "first"), "%+v", f)
			}
			assert.Len(t, happened(h, ringproof.EventConverged, ""), 1, "%+v", f)
			for _, found := range checks.Judge(&h) {
				assert.NotEqual(t, ringproof.Fail, found.Verdict, "%+v: %s", f, found)
			}
		}
	}
}
