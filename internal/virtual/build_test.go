// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package virtual

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/needs"
)

// TestDoctor: the gate goes by the last word of what doctor says.
func TestDoctor(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	found := Doctor(t.Context())
	if !found.OK {
		needs.Lacking(t, found.Detail)
	}
	assert.Contains(t, found.Detail, "nothing is built yet")
	kit, _, err := lay(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(kit.kubernetes()), 0o700))
	require.NoError(t, os.WriteFile(kit.kubernetes(), nil, 0o700))
	assert.Equal(t, "built already: Kubernetes", Doctor(t.Context()).Detail)
}
