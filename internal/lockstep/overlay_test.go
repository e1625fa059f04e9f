// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package lockstep

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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

// TestChance: what the runtime draws from the chance that its locks share shows in nothing
// that a process does, or is drawn from the seed's. A place that a new release of Go has and
// this list hasn't is to be looked at first.
func TestChance(t *testing.T) {
	g, err := askGo(t.Context())
	require.NoError(t, err)
	files, err := g.patched()
	require.NoError(t, err)
	of, err := filepath.Glob(filepath.Join(g.GOROOT, "src/runtime/*.go"))
	require.NoError(t, err)
	draws := map[string]int{}
	for _, path := range of {
		name := filepath.Base(path)
		text, patched := files["runtime/"+name]
		if !patched {
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			text = string(whole)
		}
		if n := len(regexp.MustCompile(`(?m)^[^/\n]*\bcheaprand(n|64)?\(`).FindAllString(text, -1)); n > 0 && !strings.HasSuffix(name, "_test.go") {
			draws[name] = n
		}
	}
	assert.Equal(t, map[string]int{
		"rand.go":               5, // where they are defined
		"lock_spinbit.go":       2, // the locks
		"malloc.go":             1, // profiles: of memory,
		"mprof.go":              5, // of waiting,
		"os_linux.go":           1, // and of processors
		"mbitmap.go":            2, // checks of the collector itself
		"mgcmark_greenteagc.go": 1, // whose work to steal: there is one P
		"mgcpacer.go":           1,
		"proc.go":               4, // so here, where it isn't the race detector, or how latencies are sampled
		"symtab.go":             1, // what of a cache without allocations makes room
		"time.go":               1, // and is drawn again
	}, draws)
}
