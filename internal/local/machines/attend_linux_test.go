// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package machines

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestASignalIsPassedOnOnce interrupts this process, which cancels the context of the run as it
// does in ringproof: the sandbox hears of it once, and of a second signal once more.
func TestASignalIsPassedOnOnce(t *testing.T) {
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	cmd := exec.Command("/bin/sh", "-c", `n=0; trap 'n=$((n+1)); echo told' INT TERM; trap 'exit $n' HUP; echo ready; while :; do sleep 0.05; done`)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	lines := bufio.NewScanner(out)
	started, ended := launch(cmd)
	require.NoError(t, <-started)
	code := make(chan int, 1)
	go func() {
		got, err := attend(ctx, cmd, signals, ended)
		assert.NoError(t, err)
		code <- got
	}()
	require.True(t, lines.Scan())

	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	require.True(t, lines.Scan(), "the first signal")
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	assert.Equal(t, 1, <-code, "how often the sandbox was told before the second signal")
}
