// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// TestEachMemberIsListedAnewOnce: whom peers are to reach otherwise is listed anew, and
// not twice.
func TestEachMemberIsListedAnewOnce(t *testing.T) {
	relisted := func(members ...ringproof.MemberID) ringproof.Finding {
		h := healthy()
		h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "encrypt", Op: &ringproof.Op{Kind: ringproof.OpPeers, Peers: "tls"}})
		for i, m := range members {
			h.Evidence.Changes = append(h.Evidence.Changes, ringproof.ConfChange{Kind: "update", Member: m, Index: uint64(1000 + i), At: sec(40)})
		}
		return workBounded.Finding(h, nil)
	}
	once := relisted(1, 2, 3)
	assert.Equal(t, ringproof.Pass, once.Verdict, once.Message)
	twice := relisted(1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3)
	assert.Equal(t, ringproof.Fail, twice.Verdict, twice.Message)
}

// TestWhatIsAskedOfASuspendedRingIsDoneLater: an upgrade is done, as the ring is
// suspended, and each etcd is restarted for it once the ring goes on.
func TestWhatIsAskedOfASuspendedRingIsDoneLater(t *testing.T) {
	ended := func(suspend bool) ringproof.Finding {
		h := healthy()
		if suspend {
			suspended(h, 50, 55)
		}
		h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "upgrade", Op: &ringproof.Op{Kind: ringproof.OpUpgrade, Version: "v3.7.3"}})
		event(h, ringproof.Event{At: sec(51), Kind: ringproof.EventStepBegun, Step: "upgrade"})
		event(h, ringproof.Event{At: sec(52), Kind: ringproof.EventStepDone, Step: "upgrade"})
		event(h, ringproof.Event{At: sec(60), Kind: ringproof.EventProcessExited, Machine: "m1"})
		return workBounded.Finding(h, map[string]string{"restarts": "0"})
	}
	later, unasked := ended(true), ended(false)
	assert.Equal(t, ringproof.Pass, later.Verdict, later.Message)
	assert.Equal(t, ringproof.Fail, unasked.Verdict, unasked.Message)
}
