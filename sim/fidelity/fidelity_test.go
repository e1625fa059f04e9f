// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/sim/fidelity"
)

// releases are those that the transcripts are of. The first is the one that
// they are taken from.
var releases = []string{"v3.6.16", "v3.5.35", "v3.7.3"}

// systems are the models and etcd in process. Each file that has one adds it.
var systems = map[string]func(*testing.T) fidelity.System{}

// TestReleases plays every script on released etcd. With RINGPROOF_GOLDEN=1 it
// writes what the first release prints instead, and what the others print where
// a script has a command for them only; read the difference, twice.
func TestReleases(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: real etcd takes minutes")
	}
	for i, release := range releases {
		t.Run(release, func(t *testing.T) {
			system, ok := newReleased(t, release)
			switch {
			case ok && os.Getenv("RINGPROOF_GOLDEN") != "":
				record(t, system)
			case ok:
				compare(t, system)
			case i == 0 && os.Getenv("CI") == "true":
				t.Fatalf("no etcd %s: make etcd builds it", release)
			default:
				t.Logf("fidelity: no etcd %s: make etcd builds it", release)
			}
		})
	}
}

// TestModels plays every script on everything else that calls itself etcd.
func TestModels(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(systems)) {
		t.Run(name, func(t *testing.T) { compare(t, systems[name](t)) })
	}
}

// chosen are the scripts whose name contains RINGPROOF_SCRIPT.
func chosen(t *testing.T) []fidelity.Script {
	t.Helper()
	all, err := fidelity.Scripts()
	require.NoError(t, err)
	all = slices.DeleteFunc(all, func(s fidelity.Script) bool { return !strings.Contains(s.Name, os.Getenv("RINGPROOF_SCRIPT")) })
	require.NotEmpty(t, all)
	return all
}

// abreast is how many scripts are played at once. They mostly wait, but too
// many elections at once on two cores are lost elections.
const abreast = 12

// abroad calls play for every script, a few at once. t.Parallel would play as
// many as there are processors.
func abroad(t *testing.T, all []fidelity.Script, play func(t *testing.T, s fidelity.Script)) {
	turns := make(chan struct{}, abreast)
	var wait sync.WaitGroup
	for _, s := range all {
		turns <- struct{}{}
		wait.Go(func() {
			defer func() { <-turns }()
			t.Run(s.Name, func(t *testing.T) { play(t, s) })
		})
	}
	wait.Wait()
}

func compare(t *testing.T, system fidelity.System) {
	known, err := fidelity.Differences()
	require.NoError(t, err)
	var mu sync.Mutex
	var results []fidelity.Result
	abroad(t, chosen(t), func(t *testing.T, s fidelity.Script) {
		r := known.Mark(s.Play(system))
		mu.Lock()
		results = append(results, r)
		mu.Unlock()
		tell(t, r)
	})
	t.Logf("fidelity: %s", fidelity.Summarize(system.Name(), results))
}

func tell(t *testing.T, r fidelity.Result) {
	t.Helper()
	if r.Void > 0 {
		t.Logf("fidelity: %s was too slow for %s, and played it %d times", r.System, r.Script, r.Void+1)
	}
	switch {
	case r.Skipped != "":
		t.Logf("fidelity: %s skips %s: %s", r.System, r.Script, r.Skipped)
	case r.Broken != nil:
		t.Errorf("%s on %s: %v", r.Script, r.System, r.Broken)
	case r.Slow != nil:
		t.Errorf("%s on %s: %v", r.Script, r.System, r.Slow)
	case r.Failed() && r.Known != "":
		t.Errorf("%s on %s agrees: strike it from testdata/known.yaml, where it was to differ, since %s", r.Script, r.System, r.Known)
	case r.Failed():
		t.Errorf("%s differs.\n%s", r.System, r.Differs)
	}
}

// record writes what a system printed into the scripts.
func record(t *testing.T, system fidelity.System) {
	abroad(t, chosen(t), func(t *testing.T, s fidelity.Script) {
		path := filepath.Join("testdata", s.Name)
		text, err := os.ReadFile(path) // another release may have written it since the build
		require.NoError(t, err)
		s, err = fidelity.Parse(s.Name, string(text))
		require.NoError(t, err)
		written, err := s.Rewritten(system, releases[0])
		require.NoError(t, err)
		if written != "" {
			require.NoError(t, os.WriteFile(path, []byte(written), 0o644))
		}
	})
}
