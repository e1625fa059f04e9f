// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/sim"
)

// A world that is said to be the same in every run, and isn't, is refused at its first use, and asked
// again at the next; one that is, is asked once.
func TestAWorldIsTriedBeforeItsFirstUse(t *testing.T) {
	opened, noise := 0, uint64(0)
	open := func(tr Trial) (ringproof.World, error) {
		opened++
		tr.Plan.Seed += noise * uint64(opened)
		return Sim().Open(tr)
	}
	own := Subject{Name: subject.Reference, Ways: []any{InSim(func([]string) (sim.Subject, error) { return &subject.Simulated[*sim.World, *sim.Machine]{}, nil })}}
	world := Sim()
	world.Open = open
	f := runFlags{program: &program{Registry: Registry{Worlds: []World{world}, Subjects: []Subject{own}}}, world: "sim"}
	c := &cobra.Command{}
	c.SetContext(t.Context())
	var said bytes.Buffer
	c.SetErr(&said)
	mark, releases := filepath.Join(t.TempDir(), "same-twice"), map[string]etcdbin.Release{"v3.6.16": {}}

	noise = 1
	err := f.proven(c, mark, releases)
	require.ErrorContains(t, err, "the sim world is refused on this machine")
	require.ErrorContains(t, err, "expected the same run twice")
	_, kept, _ := strings.Cut(err.Error(), "see ")
	defer os.RemoveAll(kept)
	assert.NoFileExists(t, mark)

	noise = 0
	require.NoError(t, f.proven(c, mark, releases))
	assert.FileExists(t, mark)
	assert.Equal(t, 4, opened)
	require.NoError(t, f.proven(c, mark, releases))
	assert.Equal(t, 4, opened)
	assert.Equal(t, 2, strings.Count(said.String(), "before its first use"))
	require.NoError(t, f.proven(c, "", releases), "nothing is to be proven")
}
