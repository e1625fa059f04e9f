// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package fidelity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/lockstep"
	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/sim/fidelity"
)

// numbered is a machine of a world in lockstep: its address, and the environment of what
// runs on it.
func numbered(n int) (ip string, env []string) {
	return lockstep.Address(byte(n)).String(), append(os.Environ(), fmt.Sprintf("%s=%d", lockstep.MachineEnv, n))
}

// play is what this program is to do where it is the seat of a world.
type play struct {
	Name, Text, Release string
	Binaries            map[string]string
}

// said is what came of it.
type said struct{ Skipped, Differs, Broken string }

// playEnv names the environment variable with a play in JSON.
const playEnv = "RINGPROOF_PLAY"

// TestInVirtualTime plays the scripts on released etcd where a busy machine changes nothing,
// each twice: they must be one run. The program of this test is itself the seat of each world.
func TestInVirtualTime(t *testing.T) {
	if job := os.Getenv(playEnv); job != "" {
		require.NoError(t, playInside(t, job))
		return
	}
	inVirtualTime(t, func(t *testing.T, w virtualTime) {
		known, err := fidelity.Differences()
		require.NoError(t, err)
		var mu sync.Mutex
		var results []fidelity.Result
		abroad(t, chosen(t), 2, func(t *testing.T, s fidelity.Script) {
			text, err := os.ReadFile(filepath.Join("testdata", s.Name))
			require.NoError(t, err)
			r := known.Mark(w.play(t, s.Name, string(text)))
			mu.Lock()
			defer mu.Unlock()
			results = append(results, r)
			tell(t, r)
		})
		t.Logf("fidelity: %s", fidelity.Summarize(w.name(), results))
	})
}

// playInside plays a script in the world that this process is in, and prints what came of it.
func playInside(t *testing.T, job string) error {
	var p play
	if err := json.Unmarshal([]byte(job), &p); err != nil {
		return err
	}
	script, err := fidelity.Parse(p.Name, p.Text)
	if err != nil {
		return err
	}
	r := script.Play(&released{t: t, release: p.Release, dir: t.TempDir(), binaries: p.Binaries, lockstep: true})
	of := said{Skipped: r.Skipped, Differs: r.Differs}
	if err := errors.Join(r.Broken, r.Slow); err != nil {
		of.Broken = err.Error()
	}
	return json.NewEncoder(os.Stderr).Encode(of)
}

// virtualTime is what worlds of a release are made of.
type virtualTime struct {
	release  string
	seat     string // the path of this program, built for a world
	binaries map[string]string
}

func (w virtualTime) name() string { return "virtual-" + w.release }

// inVirtualTime calls play for each release that is to be played on. What that needs is
// built, which takes minutes the first time.
func inVirtualTime(t *testing.T, play func(*testing.T, virtualTime)) {
	all := chosenReleases(t)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	overlay, err := lockstep.MakeOverlay(t.Context(), filepath.Join(cache, "ringproof", "virtual"))
	if errors.Is(err, errors.ErrUnsupported) {
		needs.Lacking(t, err.Error())
	}
	require.NoError(t, err)
	seat := filepath.Join(t.TempDir(), "seat.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay.File, "-o", seat, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	told, err := build.CombinedOutput()
	require.NoError(t, err, "%s", told)
	etcds := etcdbin.Cache{Dir: filepath.Join(filepath.Dir(overlay.File), "etcd"), Flags: []string{"-overlay", overlay.File}}
	binaries := map[string]string{}
	for _, release := range releases {
		etcd, err := etcds.Install(t.Context(), release, nil)
		require.NoError(t, err)
		binaries[release] = etcd.Etcd
	}
	for _, release := range all {
		t.Run(release, func(t *testing.T) { play(t, virtualTime{release, seat, binaries}) })
	}
}

// play plays a script in a world of its own, twice.
func (w virtualTime) play(t require.TestingT, name, text string) fidelity.Result {
	dir, err := os.MkdirTemp("", "script")
	require.NoError(t, err)
	first, hash := w.live(t, dir, name, text)
	if _, again := w.live(t, dir, name, text); first.Broken == "" && again != hash {
		first.Broken = fmt.Sprintf("two runs of it differ: %016x and %016x", hash, again)
	}
	r := fidelity.Result{Script: name, System: w.name(), Skipped: first.Skipped, Differs: first.Differs}
	if first.Broken != "" {
		r.Broken = errors.New(first.Broken)
	}
	return r
}

// live plays a script once in a directory of its own, and removes it; the hash is that of
// all that happened.
func (w virtualTime) live(t require.TestingT, dir, name, text string) (of said, hash uint64) {
	job, err := json.Marshal(play{name, text, w.release, w.binaries})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	defer os.RemoveAll(dir)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	out, err := os.Create(filepath.Join(dir, "said"))
	require.NoError(t, err)
	defer out.Close()
	seed := fnv.New64a()
	seed.Write([]byte(name))
	var failed error
	over := make(chan struct{})
	go func() { // it ends with its thread
		defer close(over)
		var o lockstep.Outcome
		o, failed = lockstep.Run(context.Background(), lockstep.Options{Seed: seed.Sum64(), Dir: filepath.Join(dir, "world")}, lockstep.Program{
			Path: w.seat, Args: []string{w.seat, "-test.run=^TestInVirtualTime$", "-test.timeout=0"}, Host: 1,
			Env: []string{playEnv + "=" + string(job), "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, Files: []*os.File{null, null, out},
		})
		hash = o.Hash
	}()
	<-over
	printed, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	for line := range bytes.Lines(printed) {
		if failed == nil && json.Unmarshal(line, &of) == nil {
			return of, hash
		}
	}
	of.Broken = fmt.Sprintf("its seat said nothing: %v: %s", failed, printed)
	return of, hash
}
