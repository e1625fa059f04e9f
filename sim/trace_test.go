// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestTheFirstDifferenceIsInTheWindow, wherever it is: in an event's time, or in
// what was noted of it, also of the last event before a mark.
func TestTheFirstDifferenceIsInTheWindow(t *testing.T) {
	trace := func(events, odd int, noted bool) Trace {
		x := newTrace()
		for n := 1; n <= events; n++ {
			who := uint64(1)
			if n == odd && !noted {
				who++
			}
			x.event(0, kindTimer, who)
			if n == odd && noted {
				x.note("odd")
			}
		}
		return x
	}
	near := rapid.Custom(func(t *rapid.T) int {
		return max(1, rapid.IntRange(0, 4).Draw(t, "marks")*markEvery+rapid.IntRange(-2, 2).Draw(t, "beside"))
	})
	rapid.Check(t, func(t *rapid.T) {
		events, odd := near.Draw(t, "events"), near.Draw(t, "odd")
		longer := near.Draw(t, "longer")
		a, b := trace(events, 0, false), trace(longer, odd, rapid.Bool().Draw(t, "noted"))
		first := min(odd, min(events, longer)+1)
		from, to, parted := a.Parted(&b)
		if odd > longer && events == longer {
			require.False(t, parted)
			return
		}
		require.True(t, parted)
		assert.LessOrEqual(t, from, first)
		assert.Less(t, first, to)
		assert.LessOrEqual(t, to-from, 4*markEvery+4)
	})
}

// TestOnlyTheWindowIsTold, with what was noted of its events.
func TestOnlyTheWindowIsTold(t *testing.T) {
	var told []string
	x := newTrace()
	x.OnLine, x.From, x.To = func(line string) { told = append(told, line) }, 2, 4
	made := 0
	for range 5 {
		x.event(7, kindPacket, 3)
		x.note("noted")
		x.aside(func() string { made++; return "aside" })
	}
	require.Len(t, told, 6)
	assert.Regexp(t, `^2 7ns packet process 3 [0-9a-f]{16}$`, told[0])
	assert.Equal(t, []string{"      noted", "      aside"}, told[1:3])
	assert.Equal(t, 2, made, "nobody asked for the others")
	silent := newTrace()
	for range 5 {
		silent.event(7, kindPacket, 3)
		silent.note("noted")
	}
	assert.Equal(t, silent.Hash, x.Hash, "whoever watches changes nothing")
}
