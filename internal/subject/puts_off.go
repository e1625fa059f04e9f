// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"time"

	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// In the end all is well: only who waited for it knows.
var putsOff = Mutant{
	Name:     "puts-off",
	Hazard:   "What is asked for is begun only after a minute of looking at it.",
	Source:   "controllers that resync once in a while, and miss the event",
	Check:    "steps",
	Scenario: "replace-planned[victim=follower]",
	layer: func() layer {
		return layer{brain: func(h host.Host, b auto.Brain) auto.Brain {
			decide, since := b.Next, time.Time{}
			b.Next = func(spec ring.Spec, o ring.Observed) ring.Decision {
				d := decide(spec, o)
				switch {
				case !is(d, ring.AddLearner):
					since = time.Time{}
				case since.IsZero():
					since = h.Now()
				}
				if is(d, ring.AddLearner) && h.Now().Sub(since) < resync {
					return wait("the next look at what is asked for is not due")
				}
				return d
			}
			return b
		}}
	},
}

const resync = 70 * time.Second
