// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// itself has the test binary be tiny, and the workers that it starts, too.
const itself = "TINY_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(itself) != "" {
		main()
	}
	os.Exit(m.Run())
}

// typed runs a command line, and returns what it printed and its exit code.
func typed(t *testing.T, dir string, args ...string) (printed string, code int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Dir, c.Env = dir, append(os.Environ(), itself+"=1")
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

// TestCommands types what somebody would who has a launcher and this main. Each command
// goes on with what the one before it left.
func TestCommands(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"a subject of its own is the default", []string{"plan", "--run", "leader-killed"}, 0, "kill etcd on leader"},
		{"what it can't do is not applicable", []string{"run", "--run", "flap", "--out", "flap"}, 3, "tiny can't be asked to scale"},
		{"what it does well passes", []string{"run", "--run", "leader-killed", "--out", "run"}, 0, "1 pass"},
		{"a report is drawn again", []string{"report", "run"}, 0, "1 pass"},
		{"a scenario is written", []string{"new", "mine"}, 0, "mine.yaml"},
		{"and found to be right", []string{"lint", "mine.yaml"}, 0, "0 errors"},
		{"the bug is found", []string{"explore", "--seed", "200", "--runs", "20", "--out", "explore"}, 1, "no-identity-reuse"},
		{"it is one lost volume", []string{"shrink", "explore/findings/BUG/plan.yaml", "--out", "small.yaml"}, 0, "volume-loss"},
		{"and is there again", []string{"replay", "small.yaml", "--out", "replay"}, 1, "on one disk"},
		{"a sweep needs a journal", []string{"sweep", "leader-killed"}, 4, "tiny tells of none of its effects"},
		{"there is no real world", []string{"confirm", "small.yaml"}, 2, "no real world"},
		{"nor a mutant", []string{"run", "--subject", "tiny+x"}, 2, `no mutant "x"`},
		{"nor a reference", []string{"run", "--subject", "reference"}, 2, "it is one of tiny"},
		{"who simulates needs nothing", []string{"doctor"}, 0, ""},
	} {
		if c.args[0] == "shrink" {
			found, err := filepath.Glob(filepath.Join(dir, "explore/findings/no-identity-reuse-*/plan.yaml"))
			require.NoError(t, err)
			require.Len(t, found, 1)
			c.args[1] = found[0]
		}
		printed, code := typed(t, dir, c.args...)
		assert.Equal(t, c.code, code, "%s: %v\n%s", c.name, c.args, printed)
		assert.Contains(t, printed, c.says, c.name)
	}
}
