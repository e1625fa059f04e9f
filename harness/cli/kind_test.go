// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package cli

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// TestOnKind: what a cluster of kind's can't suffer is not applicable there, and takes nothing from the run
// to this host in its place.
func TestOnKind(t *testing.T) {
	for kind, can := range map[ringproof.FaultKind]bool{ringproof.FaultKill: true, ringproof.FaultPartition: true, ringproof.FaultKubeDelete: true, ringproof.FaultDrain: true,
		ringproof.FaultDiskFull: false, ringproof.FaultClockSkew: false, ringproof.FaultSlowDisk: false, ringproof.FaultAgentCrash: false} {
		err := onKind(ringproof.Step{Fault: &ringproof.Fault{Kind: kind}})
		assert.Equal(t, !can, errors.Is(err, errors.ErrUnsupported), "%s: %v", kind, err)
	}
	assert.ErrorIs(t, runsOnKind(ringproof.Plan{}), errors.ErrUnsupported, "machines are no pods")
	assert.NoError(t, runsOnKind(ringproof.Plan{Ring: ringproof.RingSpec{On: ringproof.OnKubernetes}}))
}
