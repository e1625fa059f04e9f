// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// itself has the test binary be the program.
const itself = "TOYS_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(itself) != "" {
		main()
	}
	os.Exit(m.Run())
}

// typed runs a command line, and returns what it printed and its exit code.
func typed(t *testing.T, args ...string) (printed string, code int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), itself+"=1")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	var ended *exec.ExitError
	if err := c.Run(); errors.As(err, &ended) {
		code = ended.ExitCode()
	} else {
		require.NoError(t, err)
	}
	return out.String(), code
}

const scenario = "testdata/toys.yaml"

// TestFromOutside: what is made from the catalogue is made from its entries from outside too.
func TestFromOutside(t *testing.T) {
	misspelt := filepath.Join(t.TempDir(), "misspelt.yaml")
	text, err := os.ReadFile(scenario)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(misspelt, []byte(strings.NewReplacer("sleep: deep", "sleep: deap", "{word: hello, times: 2}", "{word: hello, times: 4}").Replace(string(text))), 0o644))
	out := t.TempDir()
	for _, c := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"the fault is listed", []string{"list", "faults"}, 0, []string{"nap ", "target for [sleep]"}},
		{"so is the operation", []string{"list", "ops"}, 0, []string{"greet ", "word [times]"}},
		{"and the world", []string{"list", "worlds"}, 0, []string{"toy ", "etcd may nap"}},
		{"the fault is explained", []string{"explain", "nap"}, 0, []string{"(light, deep)", "Always fair", "worlds       toy"}},
		{"so is the operation", []string{"explain", "greet"}, 0, []string{"at most 3", "says the word back"}},
		{"an editor knows both", []string{"schema"}, 0, []string{`"nap": {`, `"greet": {`, `"deep"`}},
		{"they can be written", []string{"lint", scenario}, 0, []string{"0 errors"}},
		{"and misspelt", []string{"lint", misspelt}, 2, []string{`unknown sleep "deap"; did you mean "deep"?`, "times is 4; it may be 1 to 3"}},
		{"a person is told", []string{"plan", "--world", "toy", scenario}, 0, []string{"put leader into a deep sleep, for 3s", "say hello"}},
		{"another world can't", []string{"run", "--world", "sim", "--out", filepath.Join(out, "sim"), scenario}, 3, []string{"the scenario is for toy, not for sim"}},
		{"this one can", []string{"run", "--world", "toy", "--out", filepath.Join(out, "toy"), "-v", scenario}, 0, []string{"1 pass", "fault-landed", "nap of leader for 3s sleep=deep", "greet times=2 word=hello"}},
		{"and draws it", []string{"run", "--world", "toy", "--out", filepath.Join(out, "again"), "--verify-determinism", scenario}, 0, []string{"1 pass"}},
	} {
		printed, code := typed(t, c.args...)
		assert.Equal(t, c.code, code, "%s: %v\n%s", c.name, c.args, printed)
		for _, says := range c.says {
			assert.Contains(t, printed, says, "%s: %v", c.name, c.args)
		}
	}
}

// TestEachTouchesFewFiles holds what ARCHITECTURE.md promises: whatever is new is in four
// files at most, the scenario that uses it among them.
func TestEachTouchesFewFiles(t *testing.T) {
	for what, word := range map[string]string{"fault": `\b[Nn]ap\b`, "operation": `\b[Gg]reet\b`, "subject": `\b[Pp]olite\b`, "world": `\bWorld\(\)|"toy"`} {
		var files []string
		for _, dir := range []string{"../../toys", "."} {
			require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
					return err
				}
				text, err := os.ReadFile(path)
				if regexp.MustCompile(word).Match(text) {
					files = append(files, path)
				}
				return err
			}))
		}
		assert.NotEmpty(t, files, what)
		assert.LessOrEqual(t, len(files), 4, "a %s touches %s", what, files)
	}
}
