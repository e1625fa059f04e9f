// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// pressed is the toy on a host that takes so much of all time from it.
type pressed struct {
	*toy
	tenths time.Duration
}

func (w pressed) Starved(s ringproof.Span) time.Duration { return s.Length() * w.tenths / 10 }

// TestAStepsDeadlineRunsOnTheTimeTheHostGave: two members are added and promoted,
// four seconds between two changes, and the step has five.
func TestAStepsDeadlineRunsOnTheTimeTheHostGave(t *testing.T) {
	grow := scale("grow", 5)
	grow.Timeout = seconds(5)
	for name, c := range map[string]struct {
		tenths, pace time.Duration
		want         ringproof.EventKind
	}{
		"the host gives all":              {0, 4, ringproof.EventStepFailed},
		"a fifth is lost":                 {2, 4, ringproof.EventStepFailed},
		"nearly all is lost":              {9, 3, ringproof.EventStepDone},
		"all is lost, and there's an end": {10, 10, ringproof.EventStepFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := pressed{&toy{pace: c.pace * time.Second}, c.tenths}
				h, err := Run(t.Context(), ring(grow), w, Options{})
				require.NoError(t, err)
				only(t, h, c.want, "grow")
			})
		})
	}
}
