// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// TestACutBeforeTheMemberWas: a power loss takes nothing from a member that is added after it.
func TestACutBeforeTheMemberWas(t *testing.T) {
	for _, added := range []float64{1, 5} {
		h := &ringproof.History{
			Plan:   ringproof.Plan{Steps: []ringproof.Step{{Name: "cut", Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine"}}}},
			Events: []ringproof.Event{{At: sec(2), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultKill, Step: "cut", Machine: "m5"}},
			Observations: []ringproof.Observation{
				{At: sec(added - 0.5), Fresh: true},
				{At: sec(added), Fresh: true, Members: []ringproof.MemberView{{ID: 5, Machine: "m5", Learner: true}}},
			},
		}
		h.Evidence.Changes = []ringproof.ConfChange{{Index: 9, Kind: "add-learner", Member: 5, At: sec(added)}}
		assert.Equal(t, added < 2, newLedger(h).unsynced(5, "m5", sec(7)), "added at %g s, cut at 2 s", added)
	}
}

// TestUnsynced: a member whose machine loses power before it ever served may have
// lost its log, until it is seen to serve. One that served has synced it.
func TestUnsynced(t *testing.T) {
	by := func(served ringproof.Instant, asked ringproof.Fault) *ledger {
		return newLedger(&ringproof.History{
			Plan: ringproof.Plan{Steps: []ringproof.Step{{Name: "cut", Fault: &asked}}},
			Events: []ringproof.Event{
				{At: sec(2), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultKill, Step: "cut", Machine: "m1"},
				{At: served, Kind: ringproof.EventMemberStarted, Member: 1, Machine: "m1"},
			},
		})
	}
	of := func(served ringproof.Instant, scope string) *ledger {
		return by(served, ringproof.Fault{Kind: ringproof.FaultKill, Scope: scope})
	}
	assert.True(t, of(sec(9), "machine").unsynced(1, "m1", sec(3)))
	assert.True(t, by(sec(9), ringproof.Fault{Kind: ringproof.FaultMachineLoss}).unsynced(1, "m1", sec(3)), "a loss that was made a power cut")
	assert.False(t, of(sec(9), "machine").unsynced(1, "m1", sec(10)), "it came back with its log")
	assert.False(t, of(sec(9), "machine").unsynced(1, "m2", sec(3)), "another machine lost its power")
	assert.False(t, of(sec(1), "machine").unsynced(1, "m1", sec(3)), "it had served")
	assert.False(t, of(sec(9), "process").unsynced(1, "m1", sec(3)), "a process that is killed loses nothing that it wrote")
}
