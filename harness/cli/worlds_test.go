// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package cli

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// TestAWorldRefusesWhatItCannotDo: before a cell runs, not in its midst.
func TestAWorldRefusesWhatItCannotDo(t *testing.T) {
	for _, w := range []World{Sim(), Virtual(), Local()} {
		for _, e := range faults.All() {
			if !slices.Contains(e.Worlds, w.Name) {
				require.Error(t, w.Supports(ringproof.Step{Name: "x", Fault: &ringproof.Fault{Kind: e.Kind}}), "%s in %s", e.Kind, w.Name)
			}
		}
	}
}
