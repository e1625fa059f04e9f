// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is planted in a program is found in it, and in a copy that it makes of itself; in
// one as it was built nothing is.
func TestPlanted(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	_, ok, err := planted(self)
	require.NoError(t, err)
	assert.False(t, ok, "the mark is in the program, and not at its end")

	to := filepath.Join(dir, "ringadm")
	require.NoError(t, plant(self, to, []string{"wrong-victim", "state-new"}))
	mutants, ok, err := planted(to)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, []string{"wrong-victim", "state-new"}, mutants)
	assert.ErrorContains(t, plant(self, to, []string{"no-such-mutant"}), "no-such-mutant")
}
