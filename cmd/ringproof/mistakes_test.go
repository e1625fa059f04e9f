// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/needs"
)

// mistake is a line of the reference made wrong, and what fails then. A mutant wraps what the reference
// sees and does; what lies inside it can only be taken out of its text.
type mistake struct {
	what  string // what comes of it
	file  string
	lines [][2]string // what stands there, once, and what would
	shown []string    // the command whose exit code is 1 then
}

// readMistakes reads testdata/mistakes.list, whose head says how it is written.
func readMistakes(t *testing.T) (all []mistake) {
	t.Helper()
	text, err := os.ReadFile("testdata/mistakes.list")
	require.NoError(t, err)
	_, blocks, _ := strings.Cut(string(text), "\n\n")
	for block := range strings.SplitSeq(strings.TrimSpace(blocks), "\n\n") {
		var m mistake
		for line := range strings.Lines(block) {
			word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			switch word {
			case "#":
				m.what = strings.TrimPrefix(m.what+" "+rest, " ")
			case "in":
				m.file = rest
			case "-":
				m.lines = append(m.lines, [2]string{rest, ""})
			case "+":
				m.lines[len(m.lines)-1][1] = rest
			case "shown":
				m.shown = strings.Fields(rest)
			default:
				t.Fatalf("%q begins no line of a mistake: it is one of #, in, -, + and shown", word)
			}
		}
		all = append(all, m)
	}
	return all
}

// planted returns the file with the mistake in it.
func (m mistake) planted(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "..", m.file))
	require.NoError(t, err)
	text := string(source)
	for _, line := range m.lines {
		require.Equal(t, 1, strings.Count(text, line[0]), "%s has no longer one %q: write anew what the mistake is, or drop it if nobody can make it any more", m.file, line[0])
		text = strings.Replace(text, line[0], line[1], 1)
	}
	return text
}

// build makes ringproof with the mistake in its reference.
func (m mistake) build(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	dir := t.TempDir()
	wrong, overlay, program := filepath.Join(dir, "wrong.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "ringproof")
	require.NoError(t, os.WriteFile(wrong, []byte(m.planted(t)), 0o600))
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): wrong}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, text, 0o600))
	cmd := exec.Command("go", "build", "-overlay", overlay, "-o", program, "./cmd/ringproof")
	cmd.Dir = root
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	return program
}

// TestMistakesStand holds each mistake to the text that it is made in.
func TestMistakesStand(t *testing.T) {
	for _, m := range readMistakes(t) {
		t.Run(m.what, func(t *testing.T) {
			assert.NotEmpty(t, m.shown)
			assert.NotEqual(t, "", m.planted(t))
		})
	}
}

// TestMistakesAreShown: the reference passes each of these commands, as TestRegressions and the shipped
// scenarios do, and fails it with its mistake.
func TestMistakesAreShown(t *testing.T) {
	needs.Trial(t, "a build of ringproof for each mistake")
	for _, m := range readMistakes(t) {
		t.Run(m.what, func(t *testing.T) {
			cmd := exec.Command(m.build(t), append(m.shown, "--out", filepath.Join(t.TempDir(), "out"))...)
			cmd.Dir = filepath.Join("..", "..")
			said, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.True(t, errors.As(err, &exit) && exit.ExitCode() == 1, "%v with %v:\n%s", m.shown, err, said)
		})
	}
}
