// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/scenarios"
)

// TestKnownBugs: each tells a story, lints clean, and is two cells that differ
// in the release alone. None is shipped: where all is well it fails.
func TestKnownBugs(t *testing.T) {
	all, err := scenarios.KnownBugs()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), 10)
	shipped, err := scenarios.Shipped()
	require.NoError(t, err)
	for _, s := range shipped {
		assert.Nil(t, s.KnownBug, s.Name)
	}
	for _, s := range all {
		require.NotNil(t, s.KnownBug, s.Name)
		assert.Empty(t, s.Lint(nil), s.Name)
		assert.Len(t, s.Cells(1), 2, s.Name)
		assert.NotEqual(t, s.KnownBug.Affected, s.KnownBug.Fixed, s.Name)
		text, err := os.ReadFile(strings.TrimPrefix(s.File, "scenarios/"))
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(string(text), "# "), "%s doesn't open with its story", s.File)
	}
}
