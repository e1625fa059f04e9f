// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shownRun is a command line of a page of the documents, and what it prints.
var shownRun = regexp.MustCompile("(?s)\n    \\$ bin/ringproof ([^\n]*(?:\\\\\n[^\n]*)*)\n\n```\n(.*?)\n```\n")

// shown is what such a page shows.
type shown struct {
	page     string
	text     string
	args     []string
	from, to int // where in the text what it prints stands
}

// shows finds the command line of a page that holds a text.
func shows(t *testing.T, page, holds string) shown {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, at := range shownRun.FindAllSubmatchIndex(text, -1) {
		if line := string(text[at[2]:at[3]]); strings.Contains(line, holds) {
			args := strings.Fields(strings.ReplaceAll(line, "\\\n", " "))
			return shown{page: page, text: string(text), args: unquoted(args), from: at[4], to: at[5]}
		}
	}
	require.Fail(t, "the page shows no such run", "%s: %s", page, holds)
	return shown{}
}

// command is the command line that is shown, in a directory.
func (s shown) command(dir string) *exec.Cmd {
	c := exec.Command("ringproof", s.args...)
	c.Dir = dir
	return c
}

// unquoted joins what quotes hold together, as a shell does.
func unquoted(words []string) (args []string) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		for strings.Count(word, "'")%2 == 1 && i+1 < len(words) {
			i++
			word += " " + words[i]
		}
		args = append(args, strings.ReplaceAll(word, "'", ""))
	}
	return args
}

// exactly wants what the page shows to be what is said, to the blank, at whatever speed.
func (s shown) exactly(t *testing.T, said string) {
	t.Helper()
	was, now := speed.ReplaceAllString(s.text[s.from:s.to], "#"), speed.ReplaceAllString(strings.Trim(said, "\n"), "#")
	if !s.written(t, said, was == now) {
		assert.Equal(t, was, now, golden)
	}
}

// mostly wants each line of the page to be said, but for figures and names; what is said beyond
// them a page needn't show. How slow the host was is left out.
func (s shown) mostly(t *testing.T, said string) {
	t.Helper()
	said = slow.ReplaceAllString(said, "")
	if was, now := masked(s.text[s.from:s.to]), masked(strings.Trim(said, "\n")); !s.written(t, said, slices.Equal(was, now)) {
		assert.Subset(t, now, was, golden)
	}
}

const golden = "make golden writes what is said now"

// written reports whether pages are to be written, and writes what is said if it is other than it was.
func (s shown) written(t *testing.T, said string, same bool) bool {
	t.Helper()
	if os.Getenv("RINGPROOF_GOLDEN") == "" {
		return false
	}
	if !same {
		require.NoError(t, os.WriteFile(s.page, []byte(s.text[:s.from]+strings.Trim(said, "\n")+s.text[s.to:]), 0o644))
	}
	return true
}

// changing matches what differs from run to run in real time, slow what a busy host adds, and speed
// what differs between machines.
var (
	changing = regexp.MustCompile(`\b([0-9a-f]{14,16}|m[0-9])\b|[0-9][0-9.,]*`)
	slow     = regexp.MustCompile(`(?m)^ *host: stalled .*\n`)
	speed    = regexp.MustCompile(`in [0-9.]+s, [0-9,]+ a second`)
)

// masked are the lines without what differs from run to run, each blank as one.
func masked(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(changing.ReplaceAllString(line, "#")), " "))
	}
	return lines
}
