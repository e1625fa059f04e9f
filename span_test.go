// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"testing"
	"time"
)

func second(n float64) Instant { return Instant(n * float64(time.Second)) }

func TestSpansThatOverlapHaveNoOrder(t *testing.T) {
	removed, cleared, later := Span{second(1), second(4)}, Span{second(3), second(3.5)}, Span{second(4), second(5)}
	if removed.Before(cleared) || cleared.Before(removed) {
		t.Error("expected no order of two spans that overlap")
	}
	if !removed.Before(later) || later.Before(removed) {
		t.Error("expected an order of two spans that only touch")
	}
}

func TestADeadlineRunsOnTheTimeThatTheHostGave(t *testing.T) {
	all := Starved{
		{Span{second(10), second(12)}, Duration(time.Second)},
		{Span{second(20), second(24)}, Duration(4 * time.Second)},
	}
	for name, c := range map[string]struct {
		starved Starved
		span    Span
		within  time.Duration
		want    Verdict
	}{
		"kept":                               {all, Span{0, second(15)}, 15 * time.Second, Pass},
		"an outage of 20s on a quiet host":   {nil, Span{0, second(20)}, 15 * time.Second, Fail},
		"the same beside 2s of starvation":   {Starved{{Span{second(5), second(7)}, Duration(2 * time.Second)}}, Span{0, second(20)}, 15 * time.Second, Fail},
		"an overrun within the starvation":   {all, Span{second(9), second(25)}, 15 * time.Second, Inconclusive},
		"starvation that came before":        {all, Span{second(12), second(19)}, 6 * time.Second, Fail},
		"half of a stretch lost, half of it": {all, Span{second(11), second(12)}, 600 * time.Millisecond, Inconclusive},
		"never all of it":                    {all, Span{second(20), second(24)}, 300 * time.Millisecond, Fail},
	} {
		if got := c.starved.Overran(c.span, c.within); got != c.want {
			t.Errorf("%s: expected %s, got %s", name, c.want, got)
		}
	}
}
