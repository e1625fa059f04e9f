// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The clock of a pod may be years from that of the filesystem: then the kernel's own times
// say nothing.
func TestALauncherThatTakesNoTurnsIsNotAlive(t *testing.T) {
	f := launchFlags{run: t.TempDir()}
	file := filepath.Join(f.run, beatFile)
	require.ErrorContains(t, probeTurns(file, false), "has not taken a turn yet")

	require.NoError(t, f.stamp(time.Now().Add(-2*lively)))
	require.NoError(t, probeTurns(file, false), "it has begun")
	require.ErrorContains(t, probeTurns(file, true), "took its last turn 2m0s ago")

	require.NoError(t, f.stamp(time.Now()))
	require.NoError(t, probeTurns(file, true))
}
