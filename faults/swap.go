// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"maps"
	"slices"
)

// PutBack says from which machine each gets its disk when swaps end: its own, wherever
// that is, and what is left over where its own is gone with the machine that held it.
// in has the machines that hold another's disk, and whose.
func PutBack(in map[string]string) (from map[string]string) {
	at := map[string]string{}
	for machine, home := range in { // order: no two hold the same one's
		at[home] = machine
	}
	from = map[string]string{}
	var without, left []string
	for _, machine := range slices.Sorted(maps.Keys(in)) {
		if holder := at[machine]; holder != "" {
			from[machine] = holder
		} else {
			without = append(without, machine)
		}
		if _, here := in[in[machine]]; !here {
			left = append(left, machine)
		}
	}
	for i, machine := range without {
		from[machine] = left[i]
	}
	return from
}
