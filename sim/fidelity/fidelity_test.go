// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/sim/fidelity"
)

// releases are those that the transcripts are of. The first is the one that
// they are taken from.
var releases = []string{"v3.6.16", "v3.5.35", "v3.7.3"}

// systems are the models and etcd in process. Each file that has one adds it.
var systems = map[string]func(*testing.T) fidelity.System{}

// chosenReleases are those that RINGPROOF_RELEASES names, between commas, or the first.
func chosenReleases(t *testing.T) []string {
	needs.RealTime(t)
	named := os.Getenv("RINGPROOF_RELEASES")
	if named == "" {
		return releases[:1]
	}
	all := strings.Split(named, ",")
	require.Subset(t, releases, all, "RINGPROOF_RELEASES names a release that no script is of")
	return all
}

// TestModels plays every script on everything else that calls itself etcd.
func TestModels(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(systems)) {
		t.Run(name, func(t *testing.T) { compare(t, systems[name](t), chosen(t)) })
	}
}

// chosen are the scripts whose name contains RINGPROOF_SCRIPT, or one of its words
// between commas.
func chosen(t *testing.T) []fidelity.Script {
	t.Helper()
	all, err := fidelity.Scripts()
	require.NoError(t, err)
	words := strings.Split(os.Getenv("RINGPROOF_SCRIPT"), ",")
	all = slices.DeleteFunc(all, func(s fidelity.Script) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(s.Name, word) })
	})
	require.NotEmpty(t, all)
	return all
}

// abreast is how many scripts are played at once. They mostly wait, but too
// many elections at once on two cores are lost elections.
const abreast = 12

// abroad calls play for every script, a few at once. t.Parallel would play as
// many as there are processors.
func abroad(t *testing.T, all []fidelity.Script, abreast int, play func(t *testing.T, s fidelity.Script)) {
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

// compare plays a few scripts at once, and once more alone what failed while the
// machine was short of processors: an etcd that is not run loses its lead, and that
// says nothing of etcd.
func compare(t *testing.T, system fidelity.System, scripts []fidelity.Script) {
	known, err := fidelity.Differences()
	require.NoError(t, err)
	var mu sync.Mutex
	var results []fidelity.Result
	var again []fidelity.Script
	abroad(t, scripts, abreast, func(t *testing.T, s fidelity.Script) {
		began := newPressure()
		r := known.Mark(s.Play(system))
		mu.Lock()
		defer mu.Unlock()
		if r.Failed() && began.short() {
			t.Logf("fidelity: %s had too little of the machine for %s", system.Name(), s.Name)
			again = append(again, s)
			return
		}
		results = append(results, r)
		tell(t, r)
	})
	for _, s := range again {
		t.Run(s.Name+"/alone", func(t *testing.T) {
			r := alone(system, s, known)
			results = append(results, r)
			tell(t, r)
		})
	}
	t.Logf("fidelity: %s", fidelity.Summarize(system.Name(), results))
}

// plays is how often a script is played alone: a machine that is short of processors
// so often is so the next time.
const plays = 3

// alone plays a script, and again while the machine is short of processors,
// as then others run on it: a failure is then one of the machine.
func alone(system fidelity.System, s fidelity.Script, known fidelity.Known) fidelity.Result {
	for void := 1; ; void++ {
		began := newPressure()
		r := known.Mark(s.Play(system))
		r.Void += void
		switch {
		case !r.Failed() || !began.short():
			return r
		case void == plays:
			r.Slow = fmt.Errorf("it had too little of the machine in each of %d plays: play RINGPROOF_SCRIPT=%s where less runs; the last time: %s%v", void+1, s.Name, r.Differs, r.Broken)
			return r
		}
	}
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
		t.Skipf("could not tell: %s on %s: %v", r.Script, r.System, r.Slow)
	case r.Failed() && r.Known != "":
		t.Errorf("%s on %s agrees: strike it from testdata/known.yaml, where it was to differ, since %s", r.Script, r.System, r.Known)
	case r.Failed():
		t.Errorf("%s differs.\n%s", r.System, r.Differs)
	}
}

// record writes what a system printed into the scripts.
func record(t *testing.T, system fidelity.System) {
	abroad(t, chosen(t), abreast, func(t *testing.T, s fidelity.Script) {
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
