// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGlossary wants docs/glossary.md to be what explain knows. RINGPROOF_GOLDEN=1 writes it.
func TestGlossary(t *testing.T) {
	const file = "../../docs/glossary.md"
	var wanted bytes.Buffer
	writeGlossary(&wanted)
	if os.Getenv("RINGPROOF_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(file, wanted.Bytes(), 0o644))
		return
	}
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, wanted.String(), string(written), "make golden writes what explain knows")
}
