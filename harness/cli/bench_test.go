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

// TestCourse: a round that was disturbed is no measure of the others.
func TestCourse(t *testing.T) {
	c := course{simulated: 6, took: []time.Duration{9 * time.Second, 2 * time.Second, 1 * time.Second}}
	assert.InDelta(t, 3, c.perWall(), 1e-9)
}

// TestCourseIsTheSameWork: rounds that aren't alike can't be compared, and a round
// that failed is no measure.
func TestCourseIsTheSameWork(t *testing.T) {
	simulated := 5.0
	var failed error
	c := course{run: func(context.Context) (float64, error) { return simulated, failed }}
	require.NoError(t, c.measure(t.Context()))
	require.NoError(t, c.measure(t.Context()))
	require.Len(t, c.took, 2)
	simulated = 6
	require.ErrorContains(t, c.measure(t.Context()), "it is not the same work")
	failed = errors.New("broken")
	require.ErrorIs(t, c.measure(t.Context()), failed)
}

// TestRoundsAreTheSameWork in the simulated world.
func TestRoundsAreTheSameWork(t *testing.T) {
	r := Registry{Subjects: []Subject{{Name: subject.Reference, Ways: []any{InSim(func([]string) (sim.Subject, error) { return &subject.Simulated[*sim.World, *sim.Machine]{}, nil })}}}}
	lifecycle, err := r.benchPlan("lifecycle")
	require.NoError(t, err)
	c := course{run: r.living(lifecycle)}
	require.NoError(t, c.measure(t.Context()))
	require.NoError(t, c.measure(t.Context()))
}
