// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity_test

import (
	"testing"

	"github.com/ringproof/ringproof/sim/fidelity"
)

// TestSimulated plays every script on the models, one after another: a world
// has the program's entropy to itself.
func TestSimulated(t *testing.T) {
	var systems []fidelity.Simulated
	for _, release := range releases {
		systems = append(systems, fidelity.Simulated{Version: release}, fidelity.Simulated{Version: release, Exact: true})
	}
	for _, system := range systems {
		t.Run(system.Name(), func(t *testing.T) {
			known, err := fidelity.Differences()
			if err != nil {
				t.Fatal(err)
			}
			var results []fidelity.Result
			for _, s := range chosen(t) {
				r := known.Mark(s.Play(system))
				results = append(results, r)
				t.Run(s.Name, func(t *testing.T) { tell(t, r) })
			}
			t.Logf("fidelity: %s", fidelity.Summarize(system.Name(), results))
		})
	}
}
