// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

func TestMeasureTheReference(t *testing.T) {
	m := Measure(stalledStory("reference", 7))
	require.InDelta(t, 0.80, *m.LongestGapSeconds, 0.05)
	require.InDelta(t, 5.59, *m.LongestGapAtSeconds, 0.03)
	require.Equal(t, 1.42, *m.CreateSeconds)
	require.Equal(t, 0.9, *m.FullStrengthSeconds, "from the heal of the pause at 27s to the convergence at 27.9s")
	require.Equal(t, 1, m.LeaderChanges)
	require.Zero(t, m.OthersRestarted)
	require.Equal(t, 2000, m.Acknowledged+m.Failed+m.Unknown)
	require.Equal(t, 2, m.FaultsLanded)
	require.Equal(t, 40.0, m.SimulatedSeconds)
	require.Equal(t, 41.2, *m.WallSeconds)
}

func TestMeasureFullStrength(t *testing.T) {
	require.Equal(t, 13.3, *Measure(referenceStory("reference", 7)).FullStrengthSeconds, "from the loss at 5.6s to the convergence at 18.9s")
}

func TestMeasureCountsTheOthersThatRestarted(t *testing.T) {
	require.Equal(t, 3, Measure(resetStory("reference+reset-all", 7)).OthersRestarted)
}

func TestMeasureNothing(t *testing.T) {
	m := Measure(&ringproof.History{Tools: ringproof.Tools{Virtual: true}})
	require.Equal(t, Measurements{}, m, "what was not measured is null, not zero")
}

// op asks at one moment and is answered, or not, at another (seconds).
func op(call, back float64, acked bool) ringproof.Operation {
	o := ringproof.Operation{Call: instant(call), Return: instant(back)}
	if acked {
		o.Response = &ringproof.Response{}
	}
	return o
}

func TestLongestGap(t *testing.T) {
	never := op(2, 2, false)
	never.Return = ringproof.Forever
	stale := op(4, 4.1, true)
	stale.Request.Serializable = true
	for _, c := range []struct {
		why      string
		from, to float64
		ops      []ringproof.Operation
	}{
		{"one answer: the wait for it", 1, 2, []ringproof.Operation{op(1, 2, true)}},
		{"from an answer to the next, while somebody waited", 2, 7, []ringproof.Operation{op(1, 2, true), op(1.5, 7, true)}},
		{"nobody asked from 2s to 6s", 1, 2, []ringproof.Operation{op(1, 2, true), op(6, 6.5, true)}},
		{"errors are no answers", 2, 9, []ringproof.Operation{op(1, 2, true), op(2, 3, false), op(4, 5, false), op(6, 9, true)}},
		{"the last error ends it when no answer comes", 2, 8, []ringproof.Operation{op(1, 2, true), op(2.0, 5, false), op(5, 8, false)}},
		{"a cut-off member's stale answer doesn't end it", 2, 9, []ringproof.Operation{op(1, 2, true), op(2, 9, true), stale}},
		{"an operation that never returned waits to the end", 1.1, 10, []ringproof.Operation{op(1, 1.1, true), op(1.0, 1.05, true), op(1.1, 9, false), never}},
	} {
		h := &ringproof.History{Operations: c.ops, Events: []ringproof.Event{{Kind: ringproof.EventRunEnds, At: instant(10)}}}
		from, to, asked := longestGap(h)
		require.True(t, asked, c.why)
		require.Equal(t, []float64{c.from, c.to}, []float64{from.Seconds(), to.Seconds()}, c.why)
	}
}

func TestLongestGapBeginsOnceThereIsARing(t *testing.T) {
	h := &ringproof.History{Operations: []ringproof.Operation{op(0, 4, false), op(3, 5.5, true)},
		Events: []ringproof.Event{{Kind: ringproof.EventRingCreated, At: instant(5)}}}
	from, to, _ := longestGap(h)
	require.Equal(t, 500*time.Millisecond, to.Sub(from))
}

func TestRestartsThatWereAskedForAreNotCounted(t *testing.T) {
	start := func(at float64, machine string) ringproof.Event {
		return ringproof.Event{At: instant(at), Kind: ringproof.EventProcessStarted, Machine: machine}
	}
	step := func(at float64, kind ringproof.EventKind, name string) ringproof.Event {
		return ringproof.Event{At: instant(at), Kind: kind, Step: name}
	}
	h := &ringproof.History{
		Plan: ringproof.Plan{Ring: ringproof.RingSpec{Size: 3}, Steps: []ringproof.Step{
			{Name: "roll", Op: &ringproof.Op{Kind: ringproof.OpRoll}},
			{Name: "shrink", Op: &ringproof.Op{Kind: ringproof.OpScale, To: 1}},
		}},
		Events: []ringproof.Event{
			start(0, "m1"), start(0, "m2"),
			step(1, ringproof.EventStepBegun, "roll"), start(2, "m1"), step(3, ringproof.EventStepDone, "roll"),
			step(4, ringproof.EventStepBegun, "shrink"), {At: instant(5), Kind: ringproof.EventMemberRemoved, Machine: "m2"},
			start(6, "m2"), start(7, "m1"),
		},
	}
	require.Equal(t, 1, othersRestarted(h), "m1 at 7s; m2 at 6s is used anew")
}

func TestQuantile(t *testing.T) {
	values := []time.Duration{1, 2, 3, 4}
	require.Equal(t, []time.Duration{2, 4, 1}, []time.Duration{quantile(values, 0.5), quantile(values, 0.99), quantile(values, 0)})
}
