// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/scenarios"
)

// Plans generates the plans that explore draws, for property-based tests. The
// seed of the noise is drawn last, and 0 is the simplest of all.
func Plans() *rapid.Generator[ringproof.Plan] {
	return rapid.Custom(func(t *rapid.T) ringproof.Plan {
		draw := func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(t, label) }
		p := Compose(draw, 0)
		return reseeded(p, rapid.Uint64Range(0, 1<<20).Draw(t, "seed"))
	})
}

// reseeded is the plan with another noise.
func reseeded(p ringproof.Plan, seed uint64) ringproof.Plan {
	p.Seed = seed
	p.Cell = scenarios.Cell{Scenario: Scenario, Seed: seed, Seeded: true}.String()
	return p
}
