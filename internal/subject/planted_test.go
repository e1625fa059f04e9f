// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
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
	require.NoError(t, plant(self, to, []string{"--mutant=wrong-victim", "--faults=/f"}))
	flags, ok, err := planted(to)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, []string{"--mutant=wrong-victim", "--faults=/f"}, flags)
	_, err = (&Pods{Self: self, Mutants: []string{"no-such-mutant"}}).Image(ringproof.Plan{}, "ringadm", dir)
	assert.ErrorContains(t, err, "no-such-mutant")
}
