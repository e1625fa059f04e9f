// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/scenarios"
)

// A plan of a ring in pods is legal, is read back as it was, and has a machine for each that
// it loses.
func TestPlansInPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ComposeInPods(func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(t, label) }, 1)
		var text bytes.Buffer
		require.NoError(t, scenarios.WritePlan(&text, p))
		back, found := scenarios.ReadPlan("plan.yaml", text.Bytes())
		require.False(t, found.Failed(), "%s\n%s", found, &text)
		require.Equal(t, digest(p), digest(back))
		lost, most := 0, p.Ring.Size
		for _, s := range p.Steps {
			switch {
			case s.Op != nil:
				most = max(most, s.Op.To)
			case s.Fault != nil:
				require.Empty(t, faults.Validate(*s.Fault), s.Name)
				require.Zero(t, s.Fault.Stagger)
				if s.Fault.Permanent() {
					lost++
				}
			}
		}
		require.GreaterOrEqual(t, p.Ring.Machines, most+lost)
		require.Equal(t, ringproof.OnKubernetes, p.Ring.On)
	})
}

// All that a ring in pods may suffer and be asked is drawn.
func TestAllIsDrawnInPods(t *testing.T) {
	kinds, ops := map[ringproof.FaultKind]bool{}, map[ringproof.OpKind]bool{}
	for seed := range uint64(300) {
		for _, s := range (Genome{Seed: seed}).PlanOn(ringproof.OnKubernetes, seed).Steps {
			switch {
			case s.Op != nil:
				ops[s.Op.Kind] = true
			case s.Fault != nil:
				kinds[s.Fault.Kind] = true
			}
		}
	}
	for _, kind := range inPods {
		assert.True(t, kinds[kind], "%s is never drawn", kind)
	}
	for _, op := range []ringproof.OpKind{ringproof.OpScale, ringproof.OpUpgrade, ringproof.OpPeers, ringproof.OpEdit, ringproof.OpSuspend, ringproof.OpResume} {
		assert.True(t, ops[op], "%s is never drawn", op)
	}
}

// What a sweep calls for in pods is what can be had there: their agents are away for as long
// as a kubelet has them be, and a controller has no disk.
func TestSweepInPods(t *testing.T) {
	controllers := ringproof.Effect{Scope: ringproof.ScopeController, Name: "kube create secret", Nth: 2, Done: 1}
	all, _ := Perturbations(ringproof.Journal{Effects: []ringproof.Effect{controllers, {Machine: "m1", Name: "start", Nth: 1, Done: 1}}}, true)
	controllers.Name = "kube create pod"
	seen, _ := Perturbations(ringproof.Journal{Effects: []ringproof.Effect{controllers}}, true)
	require.Len(t, seen, 6, "it may be unseen, too")
	require.Len(t, all, 5+6)
	s, w := Sweep{Plan: ringproof.Plan{Ring: ringproof.RingSpec{On: ringproof.OnKubernetes}}}, &Swept{}
	for _, p := range s.fitting(w, all) {
		assert.Empty(t, faults.Validate(p.Fault), "%+v", p)
		assert.Zero(t, p.Fault.For)
	}
	s.Fits = func(p ringproof.Plan) bool { return len(p.Steps) == 1 }
	assert.Len(t, s.fitting(w, all), 7)
	assert.Equal(t, 4, w.Unfit, "what is lost with an effect is another step")
	s.Fits, s.At = nil, "kube"
	assert.Len(t, s.fitting(w, all), 5)
	assert.Equal(t, 6, w.Unasked)
}

// A sample has some of each kind before it has two of any.
func TestSpread(t *testing.T) {
	var all []Perturbation
	for range 50 {
		all = append(all, Perturbation{At: "etcd put", How: "before"})
	}
	all = append(all, Perturbation{At: "start", How: "before"}, Perturbation{At: "start", How: "after"})
	drawn := spread(1, all, 4)
	require.Len(t, drawn, 4)
	assert.Subset(t, drawn, []int{50, 51})
	assert.NotEqual(t, drawn, spread(2, all, 4))
	assert.Len(t, spread(1, all, 0), 52)
}

// What is drawn for an operator of somebody's is hit where it writes to the API server.
func TestPlansOfOperators(t *testing.T) {
	hit := map[string]bool{}
	for seed := range uint64(500) {
		drawn := (Genome{Seed: seed}).PlanOn(ringproof.OnKubernetes, seed)
		before := digest(drawn)
		for _, s := range OfOperator(drawn, "etcdcluster").Steps {
			require.False(t, s.Fault != nil && slices.Contains(decisionKinds, s.Fault.Kind), "it has no seam for those")
			if s.Fault != nil && s.Fault.Kind == ringproof.FaultAgentCrash {
				require.True(t, faults.Unseeable(s.Fault.Effect), s.Fault.Effect)
				require.Empty(t, faults.Validate(*s.Fault))
				hit[s.Fault.Effect] = true
			}
		}
		require.Equal(t, before, digest(drawn), "the plan itself stays")
	}
	for _, effect := range []string{"kube status etcdcluster", "kube create pod", "kube patch statefulset"} {
		assert.Contains(t, hit, effect)
	}
	assert.NotContains(t, hit, "kube status etcdring")
}
