// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build unix

package store

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAFileThatHangs: a pipe that nobody writes to stands for one on a server that is away.
// To open it holds the thread in the kernel.
func TestAFileThatHangs(t *testing.T) {
	b, dir := openNew(t)
	pipe := filepath.Join(dir, "spec")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := b.Get(ctx, "spec")
		answered <- err
	}()
	var err error
	select {
	case err = <-answered:
	case <-time.After(time.Minute):
		end(pipe)
		require.Fail(t, "who asks is held up for a minute, and would wait for 50 ms")
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, Check(t.Context(), b), "hangs")
	require.Eventually(t, func() bool {
		end(pipe)
		return Check(t.Context(), b) == nil
	}, time.Minute, 5*time.Millisecond)
}

// end has whoever reads the pipe read its end.
func end(pipe string) {
	if w, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		_ = w.Close()
	}
}
