// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"
)

func openBucket(t *testing.T) Blob {
	t.Helper()
	s, err := On(memblob.OpenBucket(nil), "mem://")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, Init(t.Context(), s))
	return s
}

func TestBucketKeepsTheContract(t *testing.T) {
	s := openBucket(t)
	require.NoError(t, s.Create(t.Context(), "epochs/00000002.json", []byte("two")))
	require.NoError(t, s.Create(t.Context(), "epochs/00000001.json", []byte("one")))
	require.ErrorIs(t, s.Create(t.Context(), "epochs/00000001.json", []byte("again")), ErrExists)

	got, err := s.Get(t.Context(), "epochs/00000001.json")
	require.NoError(t, err)
	require.Equal(t, "one", string(got), "the first creation stands")
	_, err = s.Get(t.Context(), "epochs/00000003.json")
	require.ErrorIs(t, err, ErrNotFound)

	keys, err := s.List(t.Context(), "epochs/")
	require.NoError(t, err)
	require.Equal(t, []string{"epochs/00000001.json", "epochs/00000002.json"}, keys)
}

func TestBucketHasOneCreator(t *testing.T) {
	s := openBucket(t)
	for round := range 50 {
		var winners atomic.Int32
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				if s.Create(t.Context(), fmt.Sprintf("round/%d", round), []byte{byte(i)}) == nil {
					winners.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, winners.Load())
	}
}

// A bucket that was never made a store answers, and its "none" means nothing.
func TestBucketWithoutMarkerMeansNothing(t *testing.T) {
	s, err := On(memblob.OpenBucket(nil), "mem://")
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Get(t.Context(), "identity/00000001.json")
	require.ErrorIs(t, err, ErrNotAStore)
	_, _, err = Log[Identity]{Store: s, Prefix: "identity"}.Latest(t.Context())
	require.ErrorIs(t, err, ErrNotAStore)
}

// A request that was not answered is neither a yes nor a no.
func TestBucketUnansweredIsNotAbsent(t *testing.T) {
	s := openBucket(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Get(gone, "identity/00000001.json")
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrNotFound)
	require.NotErrorIs(t, err, ErrNotAStore)
}

func TestBucketRefusesADirectory(t *testing.T) {
	b, err := fileblob.OpenBucket(t.TempDir(), nil)
	require.NoError(t, err)
	defer b.Close()
	_, err = On(b, "file:///x")
	require.ErrorContains(t, err, "does not create exclusively")
}
