// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// In pods the controller suffers what agents do on machines, and the store is the API
// server; the plan that was drawn stays as it was.
func TestOnKubernetes(t *testing.T) {
	drawn := ringproof.Plan{Ring: ringproof.RingSpec{Size: 3, Domain: "a", SnapCount: 10, Heartbeat: 1, Flags: map[string]string{"a": "b"}}, Steps: []ringproof.Step{
		{Name: "1", Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Scope: "agent", Target: "m1", For: 5}},
		{Name: "2", Fault: &ringproof.Fault{Kind: ringproof.FaultPause, Scope: "agent", Target: "m1", For: 5}},
		{Name: "3", Fault: &ringproof.Fault{Kind: ringproof.FaultStoreOutage, For: 5}},
		{Name: "4", Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine", Target: "m1", For: 5}},
		{Name: "5", Op: &ringproof.Op{Kind: ringproof.OpScale, To: 5}},
	}}
	p := OnKubernetes(drawn)
	assert.Equal(t, ringproof.RingSpec{Size: 3, On: ringproof.OnKubernetes}, p.Ring)
	assert.Equal(t, ringproof.Fault{Kind: ringproof.FaultKubeKill, Scope: "controller"}, *p.Steps[0].Fault)
	assert.Equal(t, ringproof.Fault{Kind: ringproof.FaultKubePause, Scope: "controller", For: 5}, *p.Steps[1].Fault)
	assert.Equal(t, ringproof.Fault{Kind: ringproof.FaultAPIOutage, For: 5}, *p.Steps[2].Fault)
	assert.Equal(t, drawn.Steps[3:], p.Steps[3:])
	assert.Equal(t, "agent", drawn.Steps[0].Fault.Scope)
}
