// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/sim"
)

// TestCourse: of each lap the fastest counts, whichever round it is of, and every
// lap does.
func TestCourse(t *testing.T) {
	c := course{simulated: 6}
	c.keep([]time.Duration{1 * time.Second, 9 * time.Second, 2 * time.Second})
	c.keep([]time.Duration{7 * time.Second, 1 * time.Second, 1 * time.Second})
	assert.Equal(t, []time.Duration{time.Second, time.Second, time.Second}, c.laps)
	assert.InDelta(t, 2, c.perWall(), 1e-9)
}

// TestCourseIsTheSameWork: rounds that aren't alike can't be compared, and a round
// that failed is no measure.
func TestCourseIsTheSameWork(t *testing.T) {
	laps := 3
	var failed error
	c := course{run: func(_ context.Context, lap func()) (float64, error) {
		for range laps {
			lap()
		}
		return 5, failed
	}}
	require.NoError(t, c.measure(t.Context()))
	require.NoError(t, c.measure(t.Context()))
	require.Len(t, c.laps, laps+2, "what comes after the last lap and the collector's count too")
	assert.GreaterOrEqual(t, c.round.Seconds(), 5/c.perWall())
	laps = 4
	require.ErrorContains(t, c.measure(t.Context()), "it is not the same work")
	laps, failed = 3, errors.New("broken")
	require.ErrorIs(t, c.measure(t.Context()), failed)
}

// TestLaps: the simulated world tells its laps, and a second run has as many.
func TestLaps(t *testing.T) {
	r := Registry{Subjects: []Subject{{Name: subject.Reference, Ways: []any{InSim(func([]string) (sim.Subject, error) { return &subject.Simulated[*sim.World, *sim.Machine]{}, nil })}}}}
	lifecycle, err := r.benchPlan("lifecycle")
	require.NoError(t, err)
	c := course{run: r.living(lifecycle)}
	require.NoError(t, c.measure(t.Context()))
	require.NoError(t, c.measure(t.Context()))
	assert.Greater(t, len(c.laps), 50)
}
