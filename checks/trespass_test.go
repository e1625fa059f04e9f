// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// TestNoTrespass: one effect is enough, and none is a pass only where there was
// something to leave alone.
func TestNoTrespass(t *testing.T) {
	check, ok := Lookup("no-trespass")
	require.True(t, ok)
	judge := func(events ...ringproof.Event) ringproof.Finding {
		return check.Finding(&ringproof.History{Events: events}, nil)
	}
	landed := ringproof.Event{Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultDryRun, Machine: "m1"}

	f := judge(landed, ringproof.Event{At: 7, Kind: ringproof.EventTrespass, Machine: "m1", Text: "etcd put in a dry run"})
	assert.Equal(t, ringproof.Fail, f.Verdict)
	assert.Contains(t, f.Message, "saw on m1: etcd put in a dry run")

	f = judge(landed)
	assert.Equal(t, ringproof.Pass, f.Verdict)
	assert.Contains(t, f.Message, "1 other rings and dry runs")
	assert.Equal(t, ringproof.Inconclusive, judge().Verdict, "nothing tempted it")
}
