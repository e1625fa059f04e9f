// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package lockstep

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPatches: each string that is replaced stands once in the standard library of this Go.
// Whoever follows a new release of Go begins here.
func TestPatches(t *testing.T) {
	g, err := askGo(t.Context())
	require.NoError(t, err)
	require.NoError(t, g.fits())
	_, err = g.patched()
	require.NoError(t, err)
}
