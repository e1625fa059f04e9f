// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Cell is one run of a scenario: its matrix values and its seed. As a pattern
// it selects cells: with some axes, or none, and with or without a seed.
type Cell struct {
	Scenario string
	Values   map[string]string
	Seed     uint64
	Seeded   bool
}

// String prints scenario[k=v,…]#seed, the axes sorted by name.
func (c Cell) String() string {
	var b strings.Builder
	b.WriteString(c.Scenario)
	if len(c.Values) > 0 {
		var pairs []string
		for _, axis := range sortedKeys(c.Values) {
			pairs = append(pairs, axis+"="+c.Values[axis])
		}
		fmt.Fprintf(&b, "[%s]", strings.Join(pairs, ","))
	}
	if c.Seeded {
		fmt.Fprintf(&b, "#%d", c.Seed)
	}
	return b.String()
}

// ParseCellName reads what String prints. The seed, and the axes, may be left
// out.
func ParseCellName(name string) (Cell, error) {
	rest, seed, seeded := strings.Cut(name, "#")
	scenario, axes, matrix := strings.Cut(rest, "[")
	c := Cell{Scenario: scenario, Seeded: seeded}
	if !isWord(scenario) {
		return Cell{}, misnamed(name, "%q is no scenario name", scenario)
	}
	if seeded {
		n, err := strconv.ParseUint(seed, 10, 64)
		if err != nil {
			return Cell{}, misnamed(name, "the seed %q is no whole number", seed)
		}
		c.Seed = n
	}
	if !matrix {
		return c, nil
	}
	axes, closed := strings.CutSuffix(axes, "]")
	if !closed {
		return Cell{}, misnamed(name, "the bracket isn't closed")
	}
	c.Values = map[string]string{}
	for pair := range strings.SplitSeq(axes, ",") {
		axis, value, ok := strings.Cut(pair, "=")
		if _, twice := c.Values[axis]; !ok || twice || !isWord(axis) || !isWord(value) {
			return Cell{}, misnamed(name, "%q is no axis=value, or stands twice", pair)
		}
		c.Values[axis] = value
	}
	return c, nil
}

func misnamed(name, format string, args ...any) error {
	return fmt.Errorf("cell %q: %s; write scenario, scenario[axis=value,…] or scenario[axis=value,…]#seed", name, fmt.Sprintf(format, args...))
}

// Matches reports whether the pattern selects c: the same scenario, and no axis
// or seed that differs.
func (c Cell) Matches(pattern Cell) bool {
	if c.Scenario != pattern.Scenario || pattern.Seeded && (!c.Seeded || c.Seed != pattern.Seed) {
		return false
	}
	for axis, value := range pattern.Values {
		if c.Values[axis] != value {
			return false
		}
	}
	return true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
