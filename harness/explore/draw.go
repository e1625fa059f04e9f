// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// Draw is one choice of n, from 0; 0 is the simplest. The label says what is
// chosen, as a path: "fault/3/target". The same label is drawn once a plan.
type Draw func(label string, n int) int

// Genome is where a plan's draws come from: each is keyed by its label alone,
// so a graft that changes one part of a plan leaves every other as it was.
type Genome struct {
	Seed  uint64            `json:"seed"`
	Graft map[string]uint64 `json:"graft,omitempty"` // part ("fault/3") → the seed that it is drawn from instead
}

// Draw draws by key.
func (g Genome) Draw(label string, n int) int {
	seed, ok := g.Graft[part(label)]
	if !ok {
		seed = g.Seed
	}
	return int(hash(seed, label) % uint64(n))
}

// part is what a graft replaces: an operation, a fault, the ring, the load.
func part(label string) string {
	parts := strings.SplitN(label, "/", 3)
	if len(parts) == 3 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// parts lists what can be grafted, in order.
func parts() []string {
	all := []string{"ring", "load", "swarm", "temper", "ops", "faults"}
	for i := range mostOps {
		all = append(all, fmt.Sprintf("op/%d", i+1))
	}
	for i := range mostFaults {
		all = append(all, fmt.Sprintf("fault/%d", i+1))
	}
	return all
}

// Mutant is g with one to three of its parts drawn anew, or taken from another
// genome. The seed decides which.
func (g Genome) Mutant(seed uint64, other Genome) Genome {
	child := Genome{Seed: g.Seed, Graft: maps.Clone(g.Graft)}
	if child.Graft == nil {
		child.Graft = map[string]uint64{}
	}
	draw := Genome{Seed: seed}.Draw
	all := parts()
	for i := range 1 + draw("mutate/parts", 3) {
		p := all[draw(fmt.Sprintf("mutate/which/%d", i), len(all))]
		child.Graft[p] = seed
		if draw(fmt.Sprintf("mutate/cross/%d", i), 3) == 0 {
			child.Graft[p] = other.seedOf(p)
		}
	}
	return child
}

func (g Genome) seedOf(part string) uint64 {
	if seed, ok := g.Graft[part]; ok {
		return seed
	}
	return g.Seed
}

// hash is keyed randomness.
func hash(seed uint64, label string) uint64 {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	h.Write(b[:])
	h.Write([]byte(label))
	// FNV leaves the low bits of similar inputs similar: stir (splitmix64).
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// one draws one of the values.
func one[E any](draw Draw, label string, values ...E) E { return values[draw(label, len(values))] }

// weighted draws an index; each has its weight.
func weighted(draw Draw, label string, weights ...int) int {
	total := 0
	for _, w := range weights {
		total += w
	}
	n := draw(label, total)
	return slices.IndexFunc(weights, func(w int) bool { n -= w; return n < 0 })
}
