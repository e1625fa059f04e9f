// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package admin

import (
	"testing"
	"time"
)

// TestSilenceIsWhatWasLookedFor: neither a clock that jumps nor an hour in which
// the lead stood still makes a voter silent for longer than somebody looked.
func TestSilenceIsWhatWasLookedFor(t *testing.T) {
	var o Observer
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, look := range []struct {
		after time.Duration
		there bool
		want  time.Duration
	}{
		{0, true, 0},
		{time.Second, false, 0}, // silent since some time after the last look
		{time.Second, false, time.Second},
		{time.Hour, false, time.Second + mostBetweenLooks},
		{-time.Hour, false, time.Second + mostBetweenLooks},
		{2 * time.Second, false, 3*time.Second + mostBetweenLooks},
		{time.Second, true, 0},
		{time.Second, false, 0},
	} {
		clock = clock.Add(look.after)
		if got := o.missed(7, look.there, o.passed(clock)); got != look.want {
			t.Errorf("look %d: silent for %v, want %v", i+1, got, look.want)
		}
	}
}
