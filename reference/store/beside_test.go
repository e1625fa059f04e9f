// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hung is a store whose file system has gone away: a call returns when that is back, and
// heeds no context.
type hung struct {
	*memory
	back  chan struct{}
	calls atomic.Int32
}

func newHung(t *testing.T) *hung {
	h := &hung{memory: newMemory(), back: make(chan struct{})}
	require.NoError(t, Init(t.Context(), h.memory))
	t.Cleanup(sync.OnceFunc(func() {
		select {
		case <-h.back:
		default:
			close(h.back)
		}
	}))
	return h
}

func (h *hung) Get(ctx context.Context, key string) ([]byte, error) {
	h.calls.Add(1)
	<-h.back
	return h.memory.Get(ctx, key)
}

func (h *hung) Create(ctx context.Context, key string, value []byte) error {
	h.calls.Add(1)
	<-h.back
	return h.memory.Create(ctx, key, value)
}

// newBeside asks the one place that there is.
func newBeside(s Store) *beside {
	return &beside{open: func() (place, error) { return &held{Store: s}, nil }}
}

// held is a place that counts how often it is let go.
type held struct {
	Store
	closed int
}

func (h *held) Close() error { h.closed++; return nil }

// TestAPlaceThatIsGone: a volume is unmounted by force, and mounted again. What was opened
// before answers with an error for ever.
func TestAPlaceThatIsGone(t *testing.T) {
	for _, says := range []error{syscall.ESTALE, syscall.EIO, ErrNotAStore} {
		m := newMemory()
		require.NoError(t, Init(t.Context(), m))
		stale := newMemory()
		stale.fail = func(string, string) (error, bool) { return says, false }
		places := []*held{{Store: stale}, {Store: m}}
		opened := 0
		b := &beside{open: func() (place, error) { opened++; return places[opened-1], nil }}
		require.ErrorIs(t, Check(t.Context(), b), says)
		require.Equal(t, 1, places[0].closed)
		require.NoError(t, Check(t.Context(), b), "it is opened anew")
		_, err := b.Get(t.Context(), "a")
		require.ErrorIs(t, err, ErrNotFound)
		require.Equal(t, 2, opened, "and not again")
		require.NoError(t, b.Close())
		require.Equal(t, 1, places[1].closed)
	}
}

// soon is a context that ends while a store hangs.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// TestWhoAsksIsNotHeldUp: an NFS server goes away, and each call hangs in the kernel,
// whatever its context says. An agent that waited there did nothing else any more: an etcd
// that was killed meanwhile stayed down.
func TestWhoAsksIsNotHeldUp(t *testing.T) {
	h := newHung(t)
	s := newBeside(h)
	_, err := s.Get(soon(t), MarkerKey)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, MarkerKey)
	require.NotErrorIs(t, err, ErrNotFound)

	begun := time.Now()
	for range 100 {
		_, err = s.List(t.Context(), "spec/")
		require.ErrorContains(t, err, "hangs")
		require.Error(t, s.Create(t.Context(), "spec/1", nil))
	}
	require.Less(t, time.Since(begun), time.Minute)
	require.EqualValues(t, 1, h.calls.Load(), "one question hangs, and more were asked")
}

// TestALateAnswerIsTaken: a store that takes longer than anybody waits would never be read.
func TestALateAnswerIsTaken(t *testing.T) {
	h := newHung(t)
	s := newBeside(h)
	_, err := s.Get(soon(t), MarkerKey)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(h.back)
	require.Eventually(t, func() bool {
		value, err := s.Get(t.Context(), MarkerKey)
		return err == nil && string(value) == marker
	}, time.Minute, time.Millisecond)
	require.EqualValues(t, 1, h.calls.Load(), "it was asked twice")
	require.NoError(t, Check(t.Context(), s))
	require.EqualValues(t, 2, h.calls.Load(), "an answer is taken once")
}

// TestALateAnswerIsToItsQuestion: to another, or to another value of the same key, it is none;
// and one that is old says only what was.
func TestALateAnswerIsToItsQuestion(t *testing.T) {
	h := newHung(t)
	s := newBeside(h)
	require.ErrorIs(t, s.Create(soon(t), "a", []byte("ours")), context.DeadlineExceeded)
	close(h.back)
	require.Eventually(t, func() bool {
		err := s.Create(t.Context(), "a", []byte("another's"))
		return errors.Is(err, ErrExists)
	}, time.Minute, time.Millisecond)

	_, found := s.lately(&question{what: "get a"})
	require.False(t, found)
	old := &question{what: "get a", answered: make(chan struct{}), at: time.Now().Add(-time.Hour)}
	close(old.answered)
	s.late = old
	_, found = s.lately(&question{what: "get a"})
	assert.False(t, found, "it is an hour old")
}
