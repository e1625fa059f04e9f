// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package lockstep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/needs"
)

// life is the program of testdata, built for a world.
var life = sync.OnceValues(func() (string, error) {
	overlay, err := overlaid()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "life-")
	if err != nil {
		return "", err
	}
	built = dir
	return filepath.Join(dir, "life"), build(overlay, "testdata/life", filepath.Join(dir, "life"))
})

func overlaid() (Overlay, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Overlay{}, err
	}
	return MakeOverlay(context.Background(), filepath.Join(cache, "ringproof", "virtual"))
}

func build(overlay Overlay, main, to string) error {
	build := exec.Command("go", "build", "-overlay", overlay.File, "-o", to, "./"+main)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}

// built is the directory of the program; "": no test has wanted it.
var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// lived runs the program in a world of its own, and returns what it printed.
func lived(t *testing.T, o Options, as string) (Outcome, string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: it builds the standard library: make test")
	}
	path, err := life()
	if errors.Is(err, errors.ErrUnsupported) {
		needs.Lacking(t, err.Error())
	}
	require.NoError(t, err)
	return livedAs(t, o, path, as)
}

// livedAs does so with any program.
func livedAs(t *testing.T, o Options, path, as string) (Outcome, string, error) {
	t.Helper()
	in, out, err := os.Pipe()
	require.NoError(t, err)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	var text bytes.Buffer
	read := make(chan error, 1)
	go func() { _, err := text.ReadFrom(in); read <- err }()
	o.Dir = filepath.Join(t.TempDir(), "world")
	var outcome Outcome
	var failed error
	over := make(chan struct{})
	go func() {
		defer close(over)
		outcome, failed = Run(t.Context(), o, Program{Path: path, Args: []string{path, as}, Env: []string{"TMPDIR=" + os.TempDir()}, Host: 1, Files: []*os.File{null, out, out}})
	}()
	<-over
	out.Close()
	require.NoError(t, errors.Join(<-read, in.Close()))
	assert.NoDirExists(t, o.Dir, "what the coordinator kept")
	return outcome, text.String(), failed
}

// TestLife: what a kernel does for programs a coordinator does, in virtual time. Each line is what
// the program of testdata says, and when.
func TestLife(t *testing.T) {
	for as, lines := range map[string][]string{
		"pipes":   {"0s <nil>", "0s line 0", "1.001s line 1", "2.001s line 2", "3.001s exit status 3", `6.001s "line 0\nline 1\nline 2\n" exit status 3`},
		"fed":     {"0s <nil>", "1.001s fed bit 0", "2.001s fed bit 1", "3.001s fed bit 2", "3.001s <nil>"},
		"foreign": {`1ms "in no time\n" <nil>`},
		"talk": {"1ms Get \"http://10.0.0.7\": dial tcp 10.0.0.7:80: connect: connection refused", "1ms <nil>", "104ms you are 10.0.0.1:33770, <nil>", "104ms <nil>",
			"104ms signal: killed", "105ms Get \"http://10.0.0.7\": dial tcp 10.0.0.7:80: connect: connection refused"},
		"signals": {"0s <nil>", "1s <nil>", "1.001s heard terminated", "1.001s signal: terminated, signal: terminated"},
		"fault": {"2ms <nil>", "104ms cut: <nil>", "2.104s Get \"http://10.0.0.7\": context deadline exceeded", "2.105s mend: <nil>", "2.107s you are 10.0.0.1:33770, <nil>",
			"2.109s signal: <nil>", "4.109s Get \"http://10.0.0.7\": context deadline exceeded", "4.111s signal: <nil>", "4.112s you are 10.0.0.1:33771, <nil>", "4.112s 1 run",
			"4.113s off: <nil>", "6.113s Get \"http://10.0.0.7\": context deadline exceeded", "6.113s 0 run, signal: killed, host is down",
			"6.115s <nil>", "6.115s <nil>", "6.217s you are 10.0.0.1:33772, <nil>", `6.219s ordering shout: there is no deed "shout"`},
		"slow": {"2ms <nil>", "104ms <nil>", "906ms you are 10.0.0.1:33770, <nil>", "908ms <nil>", "909ms you are 10.0.0.1:33770, <nil>", "911ms <nil>", "912ms you are 10.0.0.1:33770, <nil>", "914ms <nil>", "915ms you are 10.0.0.1:33770, <nil>"},
		// A dial is tried again after a second, and what comes and goes after a fifth of one.
		"lossy": {"2ms <nil>", "104ms <nil>", `2.104s Get "http://10.0.0.7": context deadline exceeded`, "3.106s you are 10.0.0.1:33771, <nil>", "3.307s you are 10.0.0.1:33771, <nil>",
			"3.309s <nil>", "3.31s you are 10.0.0.1:33771, <nil>", "3.311s you are 10.0.0.1:33771, <nil>", "3.313s you are 10.0.0.1:33771, <nil>",
			"3.314s <nil>", "3.316s you are 10.0.0.1:33771, <nil>"},
		"unheard": {"2ms <nil>", "104ms cut: <nil>", "2.104s dial tcp 10.0.0.7:80: i/o timeout", "2.105s mend: <nil>", "3.107s cut: <nil>", "4.109s mend: <nil>",
			"met 10.0.0.1:33771", "4.109s <nil>", "heard 0 bytes, <nil>"},
		"disk":    {"2ms <nil>", "synced in 0s, <nil>", "6ms synced in 0s, <nil>, <nil>", "synced in 2s, <nil>", "4.01s synced in 2s, <nil>, <nil>", "synced in 0s, <nil>", "4.014s synced in 0s, <nil>, <nil>"},
		"clock":   {"4ms <nil>", "1.004s it is 10m1s later"},
		"suspend": {"2ms <nil>", "2.004s sleep: <nil>", "1m2.005s wake: <nil>", "slept 10s by the one, 1m10s by the other clock", "2m2.005s <nil>"},
		// Whoever fills a pipe waits for a reader that runs when the writer has become idle.
		"hearkens": {"1ms true 0 <nil>", "1.001s false 1 exit status 2"},
	} {
		t.Run(as, func(t *testing.T) {
			o, said, err := lived(t, Options{Seed: 1}, as)
			require.NoError(t, err)
			assert.Zero(t, o.Status)
			assert.Equal(t, strings.Join(lines, "\n"), strings.TrimSpace(said))
		})
	}
}

// TestBeside: a program is in lockstep whatever of the standard library it imports.
func TestBeside(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: it builds the standard library: make test")
	}
	overlay, err := overlaid()
	if errors.Is(err, errors.ErrUnsupported) {
		needs.Lacking(t, err.Error())
	}
	require.NoError(t, err)
	main, err := filepath.Abs("testdata/alone")
	require.NoError(t, err)
	overlay, err = overlay.Beside(main)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "alone")
	require.NoError(t, build(overlay, "testdata/alone", path))
	o, said, err := livedAs(t, Options{Seed: 1}, path, "alone")
	require.NoError(t, err)
	assert.Equal(t, "slept 1h0m0s\n", said)
	assert.GreaterOrEqual(t, o.Virtual, time.Hour)
}

// TestRepeats: a world is the same in every run, to the byte and the nanosecond, whatever the host
// does beside it, and another with another seed.
func TestRepeats(t *testing.T) {
	first, _, err := lived(t, Options{Seed: 1}, "fault")
	require.NoError(t, err)
	var over atomic.Bool
	for range 4 {
		go func() {
			for !over.Load() {
			}
		}()
	}
	defer over.Store(true)
	for range 5 {
		o, _, err := lived(t, Options{Seed: 1}, "fault")
		require.NoError(t, err)
		assert.Equal(t, first, o)
	}
	other, _, err := lived(t, Options{Seed: 2}, "fault")
	require.NoError(t, err)
	assert.NotEqual(t, first.Hash, other.Hash)
}

// TestWorldsBeside: a world is the same beside others in one process of the host. Between
// its fork and its exec a process of theirs has copies of all that is open here.
func TestWorldsBeside(t *testing.T) {
	first, _, err := lived(t, Options{Seed: 1}, "many")
	require.NoError(t, err)
	var beside sync.WaitGroup
	for range 4 {
		beside.Go(func() {
			for range 2 {
				o, _, err := lived(t, Options{Seed: 1}, "many")
				assert.NoError(t, err)
				assert.Equal(t, first, o)
			}
		})
	}
	beside.Wait()
}

// TestDisksTakeTime: two processes meet in a directory, and which comes first is the seed's choice.
func TestDisksTakeTime(t *testing.T) {
	firsts := map[string]bool{}
	for seed := range uint64(8) {
		_, said, err := lived(t, Options{Seed: seed}, "meet")
		require.NoError(t, err)
		line, _, _ := strings.Cut(said, "\n")
		firsts[line] = true
	}
	assert.Equal(t, map[string]bool{"first: 2": true, "first: 3": true}, firsts)
}

// TestStuck: a world that can't go on says where each goroutine is.
func TestStuck(t *testing.T) {
	for as, wants := range map[string]string{"spin": "main.spin", "wait": "main.wait"} {
		o, said, err := lived(t, Options{Patience: 5 * time.Second}, as)
		require.ErrorIs(t, err, ErrStuck, "%+v", o)
		assert.Contains(t, said, wants)
	}
}

// TestHeavy: a process that allocates in no time ends the world before the host runs out of memory.
func TestHeavy(t *testing.T) {
	_, said, err := lived(t, Options{Memory: 256 << 20}, "hoard")
	require.ErrorIs(t, err, ErrStuck)
	assert.Contains(t, err.Error(), "took more than 256 MiB of memory")
	assert.Contains(t, said, "main.hoard")
}

// TestNags: a goroutine that never waits for another is no end of the world if it says so
// each time.
func TestNags(t *testing.T) {
	_, said, err := lived(t, Options{Patience: 5 * time.Second}, "nag")
	require.NoError(t, err)
	assert.Contains(t, said, "answered")
}

// TestPresses: nor one that waits for time to pass, if it makes a timer each time.
func TestPresses(t *testing.T) {
	_, said, err := lived(t, Options{Patience: 20 * time.Second}, "press")
	require.NoError(t, err)
	assert.Contains(t, said, "answered")
}

// TestInterrupted: a world ends with its context, and leaves nothing.
func TestInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: it builds the standard library: make test")
	}
	path, err := life()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	over := make(chan error)
	go func() {
		_, err := Run(ctx, Options{Dir: filepath.Join(t.TempDir(), "world")}, Program{Path: path, Args: []string{path, "sleep"}, Host: 1})
		over <- err
	}()
	require.ErrorIs(t, <-over, context.Canceled)
}
