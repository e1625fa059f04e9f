// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// TestNoDoomedClaim: m2's member runs, and its claim goes with its pod.
func TestNoDoomedClaim(t *testing.T) {
	claim, volume := ringproof.Object{Name: "pvc default/data-r-1", UID: "c-2"}, ringproof.Object{Name: "pv pvc-c-2", UID: "v-2"}
	for _, test := range []struct {
		name   string
		change func(h *ringproof.History)
		want   ringproof.Verdict
		says   string
	}{
		{"nothing is", func(*ringproof.History) {}, ringproof.Pass, "of 3 machines"},
		{"its claim", func(h *ringproof.History) { h.Evidence.Claims[1].Ending = []ringproof.Object{claim} }, ringproof.Fail, "on m2 to find its data when it is started anew, saw pvc default/data-r-1 being deleted"},
		{"its volume", func(h *ringproof.History) { h.Evidence.Claims[1].Ending = []ringproof.Object{volume} }, ringproof.Fail, "saw pv pvc-c-2 being deleted"},
		{"a step of the plan did it", func(h *ringproof.History) {
			h.Evidence.Claims[1].Ending = []ringproof.Object{claim}
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultKubeDelete, Machine: "m2", Text: "pvc default/data-r-1: deleted, uid c-2"})
		}, ringproof.Pass, ""},
		{"a step of the plan did it to the one before", func(h *ringproof.History) {
			h.Evidence.Claims[1].Ending = []ringproof.Object{claim}
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultKubeDelete, Machine: "m2", Text: "pvc default/data-r-1: deleted, uid c-1"})
		}, ringproof.Fail, "being deleted under it"},
		{"nobody knows which one it is", func(h *ringproof.History) {
			h.Evidence.Claims[1].Ending = []ringproof.Object{{Name: claim.Name}}
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultKubeDelete, Machine: "m2", Text: "pvc default/data-r-1: deleted, uid c-1"})
		}, ringproof.Fail, "being deleted under it"},
		{"its member has left", func(h *ringproof.History) {
			h.Evidence.Claims[1].Ending = []ringproof.Object{claim}
			h.Evidence.Final.Members = h.Evidence.Final.Members[:1]
		}, ringproof.Pass, ""},
		{"one can't be read", func(h *ringproof.History) { h.Evidence.Claims[2].Err = "no route to host" }, ringproof.Inconclusive, "those of 1 could not"},
		{"none was read", func(h *ringproof.History) { h.Evidence.Claims = nil }, ringproof.Inconclusive, "of 0 machines"},
	} {
		h := healthy()
		for _, m := range []string{"m1", "m2", "m3"} {
			h.Evidence.Claims = append(h.Evidence.Claims, ringproof.Claim{Machine: m, Name: "pvc of " + m})
		}
		test.change(h)
		f := noDoomedClaim.Finding(h, nil)
		assert.Equal(t, test.want, f.Verdict, "%s: %s", test.name, f.Message)
		assert.Contains(t, f.Message, test.says, test.name)
	}
	assert.True(t, noDoomedClaim.suits(toldOf().Plan))
	assert.False(t, noDoomedClaim.suits(ringproof.Plan{Mode: ringproof.ModeSafe}), "nobody has a claim")
}
