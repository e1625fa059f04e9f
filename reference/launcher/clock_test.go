// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// setClock is a machine whose clock somebody sets.
type setClock struct {
	host.Host
	now   time.Duration // since its process began
	ahead time.Duration
	set   func(*setClock) // done as it sleeps
}

func newSetClock(t *testing.T) *setClock {
	return &setClock{Host: host.NewReal("m1", t.TempDir(), t.TempDir(), nil)}
}

func (s *setClock) Now() time.Time           { return time.Unix(0, 0).Add(s.now + s.ahead) }
func (s *setClock) Monotonic() time.Duration { return s.now }
func (s *setClock) Process() host.Process    { return startsNothing{} }

func (s *setClock) Sleep(_ context.Context, d time.Duration) error {
	s.now += d
	s.set(s)
	if s.now > time.Minute {
		return errors.New("it sleeps for ever")
	}
	return nil
}

// startsNothing is a process that makes no log.
type startsNothing struct{ host.Process }

func (startsNothing) Start(context.Context, []string) error { return nil }

// TestADiskIsGivenUpByTheTimeThatPasses: a disk could not be read for a moment, in which the
// machine's clock was set right, by an hour. Its log was given up, and the voter replaced.
func TestADiskIsGivenUpByTheTimeThatPasses(t *testing.T) {
	h := newSetClock(t)
	l := &Launcher{host: h, disk: Disk{ID: "disk-1", Machine: "m1", Launched: true}}
	after := func(passes, clock time.Duration) ring.ID {
		h.now, h.ahead = h.now+passes, h.ahead+clock
		require.NoError(t, l.spoil(7))
		return l.disk.Spoiled
	}
	assert.Zero(t, after(0, 0))
	assert.Zero(t, after(time.Second, time.Hour), "the clock was set, and a second has passed")
	assert.Zero(t, after(time.Second, -2*time.Hour))
	assert.Equal(t, ring.ID(7), after(8*time.Second, 0), "it has been so for ten")
}

// TestAnEtcdHasRunForTheTimeThatPassed: an etcd that ends a moment after each start was counted
// on, as the clock was set right while it ran.
func TestAnEtcdHasRunForTheTimeThatPassed(t *testing.T) {
	h := newSetClock(t)
	l := &Launcher{host: h}
	l.starts.begun(h.Monotonic())
	l.starts.ended("")
	l.starts.begun(h.Monotonic())
	h.now, h.ahead = time.Second, time.Hour
	l.starts.runs(l.host.Monotonic())
	assert.Equal(t, 1, l.starts.vain)
	h.now = 11 * time.Second
	l.starts.runs(l.host.Monotonic())
	assert.Zero(t, l.starts.vain)
}

// TestALogIsWaitedForByTheTimeThatPasses: the clock was set back by an hour while an etcd that
// joins asked its peers, and has no log before. The agent waited an hour for it, and did nothing
// else.
func TestALogIsWaitedForByTheTimeThatPasses(t *testing.T) {
	h := newSetClock(t)
	h.set = func(h *setClock) { h.ahead = -time.Hour }
	require.NoError(t, Launch(t.Context(), h, Disk{ID: "disk-1", Machine: "m1"}, Command{}))
	assert.Less(t, h.now, time.Second)
}

// TestAnEtcdThatRunsCanStart: a disk was full for a second, in which its etcd ended four times. It served
// for four seconds, and stood still for two, in which its voter was removed: none came up there.
func TestAnEtcdThatRunsCanStart(t *testing.T) {
	s := starts{}
	for range unwell {
		s.begun(0)
		s.ended("no space left on device")
	}
	assert.NotEmpty(t, s.failing(time.Second), "none runs")
	s.begun(2 * time.Second)
	assert.NotEmpty(t, s.failing(3*time.Second), "it may end as the others did")
	assert.Empty(t, s.failing(4*time.Second))
	s.ended("no space left on device")
	assert.NotEmpty(t, s.failing(5*time.Second))
}
