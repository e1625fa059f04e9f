// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package lockstep

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process is stuck once it has had its patience of a processor, however long that took,
// or at once if it doesn't want to run.
func TestStarvedIsNotStuck(t *testing.T) {
	begin := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	busy := hunger{pid: begin("sha256sum", "/dev/zero").Process.Pid, patience: time.Second}
	require.True(t, busy.starved(), "it wants to run, and it isn't known how long it has")
	assert.Eventually(t, func() bool { return !busy.starved() }, 5*time.Minute, 10*time.Millisecond)
	had, err := processorTime(busy.pid)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, had-busy.had, busy.patience)
	busy.fed()
	assert.True(t, busy.starved(), "it was idle meanwhile")

	asleep := hunger{pid: begin("sleep", "600").Process.Pid, patience: time.Hour}
	assert.Eventually(t, func() bool { return !asleep.starved() }, 5*time.Minute, 10*time.Millisecond, "nobody keeps it from running")
	gone := hunger{pid: 1 << 30, patience: time.Hour}
	assert.False(t, gone.starved())
}
