// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sched

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSlowDiskIsCounted: a sync that takes seconds is counted in each beat that it lasts,
// and never for longer than the beat.
func TestSlowDiskIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Disk
		ctx, cancel := context.WithCancel(t.Context())
		takes := time.Millisecond
		ended := make(chan error)
		go func() { ended <- d.keep(ctx, func() error { time.Sleep(takes); return nil }) }()
		beat := func() time.Duration {
			time.Sleep(Beat)
			synctest.Wait()
			return d.Lost()
		}

		require.Less(t, beat(), Little, "any disk takes a moment")
		takes = Little - 10*time.Millisecond
		beat()
		require.Less(t, beat(), Little, "a disk may be slow, and they follow one another")
		takes = 1200 * time.Millisecond
		var lost []time.Duration
		for range 4 {
			lost = append(lost, beat())
		}
		require.Contains(t, lost, Beat, "a beat in which nothing was kept is lost whole")
		require.LessOrEqual(t, max(lost[0], lost[1], lost[2], lost[3]), Beat)
		require.Greater(t, lost[0]+lost[1]+lost[2]+lost[3], 1200*time.Millisecond)
		takes = 0
		time.Sleep(2 * time.Second)
		d.Lost()
		require.Zero(t, beat())
		cancel()
		require.NoError(t, <-ended)
	})
}

// TestDiskLeavesNothing keeps an account of a real disk, and says so when it can't.
func TestDiskLeavesNothing(t *testing.T) {
	var d Disk
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, d.Keep(ctx, dir))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	require.ErrorIs(t, d.Keep(ctx, dir+"/none"), os.ErrNotExist)
	full := errors.New("no space left on device")
	require.ErrorIs(t, d.keep(t.Context(), func() error { return full }), full)
}
