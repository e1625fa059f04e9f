// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof/reference/store"
)

// shelved runs f in a world in which nothing else happens.
func shelved(t require.TestingT, seed uint64, f func(ctx context.Context, w *World)) {
	w := New(seed, &keeper{})
	for i := range 3 {
		w.add(fmt.Sprintf("m%d", i+1), fmt.Sprintf("10.0.0.%d", i+1))
	}
	require.NoError(t, w.Drive(context.Background(), func(ctx context.Context) {
		require.NoError(t, store.Init(ctx, w.Store(nil)))
		f(ctx, w)
	}))
}

// TestOneCreatorWins: of any that race for a key exactly one is told that it
// created it, the others that they didn't, and its value is there for all. A
// look and a write with a wait between them would have two winners.
func TestOneCreatorWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64Range(0, 1000).Draw(t, "seed")
		delays := rapid.SliceOfN(rapid.IntRange(0, 20), 2, 5).Draw(t, "delays")
		told := make([]error, len(delays))
		var value []byte
		shelved(t, seed, func(ctx context.Context, w *World) {
			for i, delay := range delays {
				told[i] = errors.New("not told")
				w.Go(ctx, "creator", func(ctx context.Context) {
					_ = w.Sleep(ctx, time.Duration(delay)*time.Millisecond)
					told[i] = w.Store(w.machines[i%3]).Create(ctx, "key", []byte{byte(i)})
				})
			}
			_ = w.Sleep(ctx, time.Second)
			value, _ = w.Store(nil).Get(ctx, "key")
		})
		require.Len(t, value, 1)
		for i, err := range told {
			if i == int(value[0]) {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, store.ErrExists)
			}
		}
	})
}

// TestACreatorThatIsCutOffMayHaveCreated: whether it is killed or loses its
// patience, both outcomes happen, and neither is told as ErrExists.
func TestACreatorThatIsCutOffMayHaveCreated(t *testing.T) {
	for _, how := range []string{"killed", "out of patience"} {
		outcomes := map[bool]int{}
		for d := time.Millisecond; d < 60*time.Millisecond; d += time.Millisecond {
			shelved(t, 7, func(ctx context.Context, w *World) {
				m := w.machines[0]
				p := w.process("creator", m)
				returned, limit := false, time.Hour
				if how != "killed" {
					limit = d
				}
				w.engine.spawn(p, "creator", func() {
					asking, cancel := w.Timeout(ctx, limit)
					defer cancel()
					err := w.Store(m).Create(asking, "key", []byte("v"))
					if returned = err == nil; err != nil {
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
				})
				require.NoError(t, w.Sleep(ctx, d))
				p.end()
				require.NoError(t, w.Sleep(ctx, time.Second))
				_, created := w.bucket.objects["key"]
				if returned {
					require.True(t, created)
				} else {
					outcomes[created]++
				}
			})
		}
		assert.Len(t, outcomes, 2, "%s: %v", how, outcomes)
	}
}

// TestRecordsAreWhatTheyWere: neither who made one nor who read it can change
// it, and lists are in order.
func TestRecordsAreWhatTheyWere(t *testing.T) {
	shelved(t, 7, func(ctx context.Context, w *World) {
		s := w.Store(w.machines[0])
		value := []byte("first")
		for _, key := range []string{"b/2", "a/1", "b/1"} {
			require.NoError(t, s.Create(ctx, key, value))
		}
		copy(value, "other")
		read, err := s.Get(ctx, "b/1")
		require.NoError(t, err)
		assert.Equal(t, "first", string(read))
		copy(read, "other")
		again, err := w.Store(nil).Get(ctx, "b/1")
		require.NoError(t, err)
		assert.Equal(t, "first", string(again))
		keys, err := s.List(ctx, "b/")
		require.NoError(t, err)
		assert.Equal(t, []string{"b/1", "b/2"}, keys)
		all, err := s.List(ctx, "")
		require.NoError(t, err)
		assert.True(t, slices.IsSorted(all))
		_, err = s.Get(ctx, "c")
		assert.ErrorIs(t, err, store.ErrNotFound)
	})
}
