// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/needs"
)

const readme = "../../README.md"

// TestReadme runs the command line that the README shows, and wants the output that is
// printed there: a simulated run is the same everywhere.
func TestReadme(t *testing.T) {
	run := shows(t, readme, "run ")
	run.exactly(t, simulated(t, run))
}

// TestPageOfSearch does the same for what docs/search.md shows of search.
func TestPageOfSearch(t *testing.T) {
	explored := shows(t, "../../docs/search.md", "explore ")
	explored.exactly(t, simulated(t, explored))
}

// TestPageOfSweep does it for a sweep, and TestPageOfShrink for the README's plan made small.
func TestPageOfSweep(t *testing.T) {
	swept := shows(t, "../../docs/search.md", "sweep volume-lost")
	printed, err := swept.command(t.TempDir()).Output()
	require.NoError(t, err)
	swept.mostly(t, string(printed))
}

func TestPageOfShrink(t *testing.T) {
	dir := t.TempDir()
	_ = shows(t, readme, "run ").command(dir).Run()
	shrunk := shows(t, "../../docs/search.md", "shrink ")
	c := shrunk.command(dir)
	var last strings.Builder
	c.Stderr = &last
	require.NoError(t, c.Run())
	shrunk.mostly(t, last.String())
}

// simulated is what a command line that fails prints.
func simulated(t *testing.T, run shown) string {
	t.Helper()
	c := run.command(t.TempDir())
	printed, err := c.Output()
	require.Equal(t, 1, c.ProcessState.ExitCode(), "the run that is shown fails: %v", err)
	return string(printed)
}

// TestReadmesLauncher wants the launcher that the README shows to be the example, and whole:
// lint takes it. RINGPROOF_GOLDEN=1 writes it.
func TestReadmesLauncher(t *testing.T) {
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	launcher, err := os.ReadFile(launcherFile)
	require.NoError(t, err)
	_, below, _ := strings.Cut(string(launcher), "\napiVersion:") // its comment the README has in a sentence
	wanted := between(t, string(text), "launcher", "```yaml\napiVersion:"+below+"```\n")
	if os.Getenv("RINGPROOF_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(readme, []byte(wanted), 0o644))
	} else {
		require.Equal(t, wanted, string(text), "make golden writes what is so now")
	}
	said, err := exec.Command("ringproof", "lint", launcherFile).CombinedOutput()
	require.NoError(t, err, "%s", said)
}

const launcherFile = "../../examples/shell-launcher/one-file.yaml"

// shownScenario is the scenario that the README shows.
var shownScenario = regexp.MustCompile("(?s)```yaml\n(apiVersion: [^\n]*\nkind: Scenario\n.*?)```\n")

// TestReadmesScenario runs the scenario that the README shows.
func TestReadmesScenario(t *testing.T) {
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	shown := shownScenario.FindSubmatch(text)
	require.NotNil(t, shown, "the README shows no scenario")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "my-scenario.yaml"), shown[1], 0o644))
	c := exec.Command("ringproof", "run", "my-scenario.yaml")
	c.Dir = dir
	said, err := c.CombinedOutput()
	require.NoError(t, err, "%s", said)
	assert.Contains(t, string(said), "2 cells: 2 pass")
}

// TestReadmeIsRead: nobody reads a longer one.
func TestReadmeIsRead(t *testing.T) {
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	assert.LessOrEqual(t, strings.Count(string(text), "\n"), 150)
}

// TestAReadersLauncher does what the README says, with nothing but that: in a folder with
// the launcher that it shows and nothing else the planted mistake is found, and its plan is
// made small and fails again.
func TestAReadersLauncher(t *testing.T) {
	needs.RealTime(t)
	needs.Etcd(t)
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	launcher, err := os.ReadFile(launcherFile)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "launcher.yaml"), launcher, 0o644))
	_, after, found := strings.Cut(string(text), "<!-- end -->\n\n")
	require.True(t, found)
	commands, _, _ := strings.Cut(after, "\n\n")
	codes := map[string]int{"run": 1, "shrink": 0, "replay": 1}
	for line := range strings.Lines(commands) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		c := exec.CommandContext(t.Context(), words[0], words[1:]...)
		c.Dir = dir
		said, err := c.CombinedOutput()
		t.Logf("%s\n%s", line, said)
		if strings.Contains(string(said), "going on without namespaces") {
			needs.Lacking(t, "no namespaces here: ringproof doctor says why")
		}
		require.Equal(t, codes[words[1]], c.ProcessState.ExitCode(), "%v", err)
		assert.Contains(t, string(said), "no-identity-reuse")
		delete(codes, words[1])
	}
	assert.Empty(t, codes, "the README shows each")
}
