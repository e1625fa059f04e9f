// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What was measured must be of the mutants that there are: one that was added
// since has no figures, and the list would say nothing of it.
func TestEveryMutantWasMeasured(t *testing.T) {
	kept, err := costs()
	require.NoError(t, err)
	assert.Len(t, kept.Starts, 5)
	assert.Len(t, kept.Mutants, len(registry.Subjects[0].Mutants))
	for _, m := range registry.Subjects[0].Mutants {
		f, ok := kept.Of(m.Name)
		assert.True(t, ok, "%s was not measured: make found", m.Name)
		assert.Positive(t, f.Seeds, "%s was not found by its scenario", m.Name)
	}
}
