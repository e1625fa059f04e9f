// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/scenarios"
)

// Drawn is a plan that explore may draw, of the draws of whoever asks: a property-based
// test hands in those of its library. The seed of the noise is drawn last, and 0 is the
// simplest of all.
func Drawn(draw Draw) ringproof.Plan {
	p := Compose(draw, 0)
	return reseeded(p, uint64(draw("seed", 1<<20+1)))
}

// reseeded is the plan with another noise.
func reseeded(p ringproof.Plan, seed uint64) ringproof.Plan {
	p.Seed = seed
	p.Cell = scenarios.Cell{Scenario: Scenario, Seed: seed, Seeded: true}.String()
	return p
}

// Releases are plans of nothing but a ring, one for each release that is drawn: what has
// to be built before drawn plans can run on real etcd, on a platform or machines.
func Releases(subject, platform string) (all []ringproof.Plan) {
	for _, v := range versions {
		all = append(all, ringproof.Plan{Subject: subject, Ring: ringproof.RingSpec{Version: v, On: platform}})
	}
	return all
}
