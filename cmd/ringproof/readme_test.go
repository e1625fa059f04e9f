// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shownRun is a command line of the README and what it prints.
var shownRun = regexp.MustCompile("(?s)\n    \\$ bin/ringproof (run .*?[^\\\\])\n\n```\n(.*?)\n```\n")

// TestReadme runs the command line that the README shows, and wants the output that is
// printed there: a simulated run is the same everywhere. RINGPROOF_GOLDEN=1 writes it.
func TestReadme(t *testing.T) {
	const file = "../../README.md"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	shown := shownRun.FindSubmatchIndex(text)
	require.NotNil(t, shown, "the README shows no run")
	words := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(string(text[shown[2]:shown[3]]), "\\\n", " "), "'", ""))
	c := exec.Command("ringproof", words...)
	c.Dir = t.TempDir()
	printed, err := c.Output()
	require.NoError(t, err)
	said := strings.Trim(string(printed), "\n")
	if os.Getenv("RINGPROOF_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(file, []byte(string(text[:shown[4]])+said+string(text[shown[5]:])), 0o644))
		return
	}
	require.Equal(t, string(text[shown[4]:shown[5]]), said, "make golden writes what is said now")
}
