// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

func shipped(t *testing.T) []Script {
	t.Helper()
	all, err := Scripts()
	require.NoError(t, err)
	return all
}

// TestScriptsAreDatadriven reads every script with datadriven itself. A parser
// that skips a command would make the command agree with everything.
func TestScriptsAreDatadriven(t *testing.T) {
	require.NoError(t, flag.Set("datadriven-quiet", "true"))
	for _, s := range shipped(t) {
		i := 0
		datadriven.RunTestAny(t, filepath.Join("testdata", s.Name), func(t testing.TB, d *datadriven.TestData) string {
			require.Less(t, i, len(s.steps), "%s", d.Pos)
			st := s.steps[i]
			i++
			assert.Equal(t, d.Cmd, st.call.name, "%s", d.Pos)
			assert.Equal(t, d.Input, strings.Join(st.call.input, "\n"), "%s", d.Pos)
			assert.Equal(t, d.Expected, st.want, "%s", d.Pos)
			return d.Expected
		})
		assert.Len(t, s.steps, i, "%s", s.Name)
	}
}

// TestScriptsAreComplete: a command that was never recorded would differ on
// the one release that it is for, which may not be here.
func TestScriptsAreComplete(t *testing.T) {
	silent := map[string]bool{"needs": true, "only": true, "elapse": true}
	areas := map[string]int{}
	all := shipped(t)
	for _, s := range all {
		area, _, _ := strings.Cut(s.Name, "/")
		areas[area]++
		for _, st := range s.steps {
			assert.Equal(t, silent[st.call.name], st.want == "", "testdata/%s:%d", s.Name, st.line)
		}
		text := s.text(nil)
		again, err := Parse(s.Name, text)
		require.NoError(t, err)
		assert.Equal(t, text, again.text(nil), "%s: what is written is read back", s.Name)
	}
	assert.GreaterOrEqual(t, len(all), 60)
	for _, area := range strings.Fields("bootstrap membership learners refusals restarts wiped-disks snapshots transactions leases watches compaction versions maintenance partitions") {
		assert.NotZero(t, areas[area], area)
	}
}

func TestMistakesInScripts(t *testing.T) {
	for text, want := range map[string]string{
		"ring a\n":                                  "x:1: the command has no line of four dashes below it",
		"# c\n\nfrobnicate a\n----\n":               "x:3: frobnicate: there is no such command",
		"get k\n----\n\nget k revv=1\n----":         "x:4: the command has no line",
		"get k revv=1\n----\n":                      "x:1: get: no option revv; there are on, rev,",
		"get k rev=1 rev=2\n----\n":                 "x:1: get: rev is given twice",
		"get\n----\n":                               "x:1: get: takes 1 to 4 words, and has 0",
		"needs luck\n----\n":                        "x:1: needs luck: there is no such need",
		"start a\n----\n\nget k hurry=soon\n----\n": "x:4: get: hurry=soon is no time; say how long, as in hurry=5s",
		"start a\n----\n\nget k hurry=0s\n----\n":   "x:4: get: hurry=0s is no time",
		"get k hurry=5s\n----\n":                    "x:1: get: hurry is measured from the last ring, start, join, grant, keep-alive, and none is above it",
	} {
		_, err := Parse("x", text)
		require.ErrorContains(t, err, want, "%q", text)
	}
}

// still is a system on which nothing happens, but time.
type still struct {
	Machines
	release string
	broken  error
}

func (s still) Name() string    { return s.release }
func (s still) Release() string { return s.release }

func (s still) Lacks(need Need) string {
	if need == NeedTLS {
		return "no certificates"
	}
	return ""
}

func (s still) Play(_ Script, play func(context.Context, Machines)) error {
	if s.broken == nil {
		play(context.Background(), s)
	}
	return s.broken
}

func (still) Elapse(context.Context, time.Duration) error { return nil }

func TestResults(t *testing.T) {
	broken := errors.New("no machines")
	known := Known{{Script: "x", System: "v3.7", Reason: "it is young"}}
	for _, c := range []struct {
		text   string
		system still
		want   string
		failed bool
	}{
		{"elapse 1s\n----\n", still{release: "v3.6.16"}, "agree", false},
		{"elapse 1s\n----\nboom\n", still{release: "v3.6.16"}, "differ", true},
		{"elapse 1s\n----\nboom\n", still{release: "v3.7.3"}, "known", false},
		{"elapse 1s\n----\n", still{release: "v3.7.3"}, "agree", true}, // the list must shrink
		{"elapse 1s in=3.7\n----\nboom\n", still{release: "v3.6.16"}, "agree", false},
		{"elapse 1s in=3.7,3.6\n----\nboom\n", still{release: "v3.6.16"}, "differ", true},
		{"needs tls\n----\n\nelapse 1s\n----\nboom\n", still{release: "v3.6.16"}, "skipped", false},
		{"only 3.5\n----\n\nelapse 1s\n----\nboom\n", still{release: "v3.6.16"}, "skipped", false},
		{"elapse 1s\n----\n", still{release: "v3.6.16", broken: broken}, "differ", true},
	} {
		script, err := Parse("x", c.text)
		require.NoError(t, err)
		r := known.Mark(script.Play(c.system))
		s := Summarize("x", []Result{r})
		counts := map[string]int{"agree": s.Agree, "differ": s.Differ, "known": s.Known, "skipped": s.Skipped}
		assert.Equal(t, 1, counts[c.want], "%q: %v", c.text, s)
		assert.Equal(t, 1, s.Agree+s.Differ+s.Known+s.Skipped, "%q", c.text)
		assert.Equal(t, c.failed, len(s.Failures) == 1, "%q", c.text)
	}
}

// TestRewritten: a release writes what it is asked for, and leaves to the
// others what is theirs.
func TestRewritten(t *testing.T) {
	const before = "# why\nelapse 1s\n----\nold\n\nelapse 1s in=3.5\n----\nold\n"
	script, err := Parse("x", before)
	require.NoError(t, err)
	for release, want := range map[string]string{
		"v3.6.16": "# why\nelapse 1s\n----\n\nelapse 1s in=3.5\n----\nold\n",
		"v3.5.35": "# why\nelapse 1s\n----\nold\n\nelapse 1s in=3.5\n----\n",
		"v3.7.3":  "",
	} {
		text, err := script.Rewritten(still{release: release}, "v3.6.16")
		require.NoError(t, err)
		assert.Equal(t, want, text, release)
	}
}

func TestNames(t *testing.T) {
	n := newNames()
	at := func(url string) string { return strings.TrimPrefix(url, "http://") }
	member := func(id uint64, url string) {
		n.member(&etcdserverpb.Member{ID: id, PeerURLs: []string{url}}, at)
	}
	member(0x8e9e05c52164694d, "http://a")
	member(0x8e9e05c52164694e, "http://a")
	member(0x8e9e05c52164694d, "http://moved")
	n.ring(0xcdf818194e3a8c32)
	n.swap("http://127.0.0.1:23", "http://short")
	n.swap("http://127.0.0.1:2380", "http://a.peer")
	for text, want := range map[string]string{
		"member 8e9e05c52164694d has already been bootstrapped":              "member <a> has already been bootstrapped",
		fmt.Sprintf("memberID:%d alarm:NOSPACE", uint64(0x8e9e05c52164694e)): "memberID:<a'> alarm:NOSPACE",
		"cdf818194e3a8c32": "<ring1>",
		"cdf818194e3a8c33": "cdf818194e3a8c33", // nobody has heard of it: it must show
		"at http://127.0.0.1:2380 and http://127.0.0.1:23":                       "at http://a.peer and http://short",
		"error: rpc error: code = Unavailable desc = connection error: dial tcp": "error: unavailable",
		"revision 7":                 "revision 7",
		"etcdserver: leader changed": "etcdserver: leader changed",
		"tocommit(8) is out of range [lastIndex(0)]. Was": "tocommit(N) is out of range [lastIndex(M)]. Was",
	} {
		assert.Equal(t, want, n.tidy(text))
	}
	assert.Equal(t, "a", n.machine(0x8e9e05c52164694e))
}
