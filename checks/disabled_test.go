// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// TestAFullDiskDisables the etcd that ended on it, until one serves there again.
func TestAFullDiskDisables(t *testing.T) {
	l := &ledger{homes: map[ringproof.MemberID]home{2: {machine: "m2"}}, starts: failedStarts(&ringproof.History{Events: []ringproof.Event{
		{At: sec(2), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultDiskFull, Step: "full", Machine: "m2"},
		{At: sec(4), Kind: ringproof.EventProcessExited, Machine: "m2"},
		{At: sec(6), Kind: ringproof.EventMemberUp, Member: 1, Machine: "m1"},
		{At: sec(8), Kind: ringproof.EventMemberUp, Member: 2, Machine: "m2"},
		{At: sec(10), Kind: ringproof.EventProcessExited, Machine: "m2"},
		{At: sec(12), Kind: ringproof.EventFaultHealed, Fault: ringproof.FaultDiskFull, Step: "full", Machine: "m2"},
	}})}
	for at, want := range map[float64]bool{3: false, 5: true, 7: true, 9: false, 11: true, 13: false} {
		assert.Equal(t, want, l.disabled(2, sec(at)), "at %g s", at)
	}
}
