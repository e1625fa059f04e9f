// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sched_test

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/internal/sched"
)

// TestWaitingForAProcessorIsCounted lets more processes spin than there are
// processors, and looks at what one of them waits.
func TestWaitingForAProcessorIsCounted(t *testing.T) {
	needs.RealTime(t)
	if _, ok := sched.RunDelay("/proc/self/schedstat"); !ok {
		t.Skip("SKIPPED: this kernel keeps no account of waiting (CONFIG_SCHED_INFO)")
	}
	spin := needs.Busy(t)
	sleeper := exec.Command("sleep", "60")
	require.NoError(t, sleeper.Start())
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	time.Sleep(200 * time.Millisecond)

	waits := func(pid int) time.Duration {
		p := sched.Waits{}
		process := []string{strconv.Itoa(pid)}
		assert.Zero(t, p.Lost(process), "what was before isn't counted")
		time.Sleep(time.Second)
		return p.Lost(process)
	}
	assert.Greater(t, waits(spin), 300*time.Millisecond, "one of four has a processor")
	assert.Less(t, waits(sleeper.Process.Pid), 100*time.Millisecond, "who waits for something else isn't starved, however busy the host is")
	assert.Zero(t, (&sched.Waits{}).Lost([]string{strconv.Itoa(os.Getpid())}))
}
