// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// What pods can't be given, and what nodes can't suffer, is said before
// anything runs, and is never a pass.
func TestRunsOnNodes(t *testing.T) {
	plain := func() ringproof.Plan {
		return ringproof.Plan{Ring: ringproof.RingSpec{On: ringproof.OnKubernetes, Size: 3, Machines: 3, Security: "tls"}}
	}
	fault := func(f ringproof.Fault) func(*ringproof.Plan) {
		return func(p *ringproof.Plan) { p.Steps = []ringproof.Step{{Name: "fault", Fault: &f}} }
	}
	for name, c := range map[string]struct {
		change func(*ringproof.Plan)
		want   string
	}{
		"as it is":       {func(*ringproof.Plan) {}, ""},
		"a node killed":  {fault(ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine", For: 5e9}), ""},
		"plain":          {func(p *ringproof.Plan) { p.Ring.Security = "plain" }, ""},
		"a heartbeat":    {func(p *ringproof.Plan) { p.Ring.Heartbeat = 1 }, "given no heartbeat"},
		"flags":          {func(p *ringproof.Plan) { p.Ring.Flags = map[string]string{"a": "b"} }, "given no heartbeat"},
		"a disk swapped": {fault(ringproof.Fault{Kind: ringproof.FaultDiskSwap}), "no fault of nodes"},
		"an agent held":  {fault(ringproof.Fault{Kind: ringproof.FaultKill, Scope: "agent", For: 5e9}), "a kubelet starts it again"},
		"its end":        {func(p *ringproof.Plan) { p.End = &ringproof.End{} }, ""},
		"a fault at its end": {func(p *ringproof.Plan) {
			p.End = &ringproof.End{Fault: &ringproof.Fault{Kind: ringproof.FaultDiskSwap}}
		}, "no fault of nodes"},
		"an agent killed": {fault(ringproof.Fault{Kind: ringproof.FaultKill, Scope: "agent"}), ""},
	} {
		p := plain()
		c.change(&p)
		if err := RunsOnNodes(p, nil); c.want == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, c.want, name)
			assert.ErrorIs(t, err, errors.ErrUnsupported, name)
		}
	}
	assert.ErrorIs(t, RunsOnNodes(plain(), ringproof.ErrHost), ringproof.ErrHost, "without namespaces there are no pods")
	assert.ErrorContains(t, Runs(plain(), nil), "only virtual and kind have one")
}

// What only a cluster has no ring on machines can suffer: it is not applicable.
func TestRunsOnMachines(t *testing.T) {
	for _, kind := range ofCluster {
		p := ringproof.Plan{Steps: []ringproof.Step{{Name: "fault", Fault: &ringproof.Fault{Kind: kind}}}}
		assert.ErrorIs(t, RunsOnMachines(p), errors.ErrUnsupported, kind)
		assert.NoError(t, RunsOnNodes(p, nil), kind)
	}
	assert.NoError(t, RunsOnMachines(ringproof.Plan{Steps: []ringproof.Step{{Name: "fault", Fault: &ringproof.Fault{Kind: ringproof.FaultKill}}}}))
}

// seat is a host with the pod of a member on it.
type seat struct {
	Host
	pod      string
	on, here bool
}

func (s seat) On() bool                     { return s.on }
func (s seat) Slot() (string, string, bool) { return s.pod, s.pod + ".r.rings.svc", s.here }

// A node that is off has the pod still that runs on another by now.
func TestSlotIsWhereThePodRuns(t *testing.T) {
	at := func(seats ...seat) string {
		w := &World{}
		for i, s := range seats {
			w.nodes = append(w.nodes, &node{name: fmt.Sprintf("m%d", i+1), machine: s})
		}
		if n := w.slot("r-0"); n != nil {
			return n.name
		}
		return ""
	}
	off, on, was := seat{pod: "r-0", here: true}, seat{pod: "r-0", on: true, here: true}, seat{pod: "r-0", on: true}
	other := seat{pod: "r-1", on: true, here: true}
	assert.Equal(t, "m3", at(off, other, on))
	assert.Equal(t, "m1", at(on, other, off))
	assert.Equal(t, "m2", at(other, off), "nobody else has it")
	assert.Equal(t, "m1", at(was, other))
	assert.Empty(t, at(other))
}

// modelled is a host that is a model.
type modelled struct {
	Host
	lacks []string
}

func (m modelled) Lacks() []string { return m.lacks }

// A run in which the subject asked for what a model hasn't got says nothing of the subject.
func TestWhatAModelLacks(t *testing.T) {
	w := &World{nodes: []*node{{machine: seat{}}, {machine: modelled{}}}}
	require.NoError(t, w.lacking())
	w.nodes = append(w.nodes, &node{machine: modelled{lacks: []string{"no b", "no a"}}}, &node{machine: modelled{lacks: []string{"no a"}}})
	_, err := w.Evidence(t.Context())
	require.ErrorContains(t, err, "no a; no b; try it with --world kind")
}
