// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package needs says what a test needs beyond Go. A test whose outcome the commit
// alone decides is run by make test, and so by the gate. One that a busy machine can
// change, as it runs real rings on somebody's clock, is a trial: make trials runs it.
package needs

import (
	"flag"
	"os"
	"os/exec"
	"runtime"
	"testing"

	_ "pgregory.net/rapid" // its flags are set below

	"github.com/ringproof/ringproof/internal/etcdbin"
)

// Release is the etcd that tests run.
const Release = "v3.6.16"

// inCI reports whether a test that is skipped is a test that nobody runs.
func inCI() bool { return os.Getenv("CI") == "true" }

// In CI property tests draw from one seed, as the gate says the same of the same commit.
// Everywhere else, and in make trials, each run draws anew; a failure prints its seed.
// Whoever imports rapid in a test imports this package too.
func init() {
	if inCI() && !trials() {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			panic(err)
		}
	}
}

func trials() bool { return os.Getenv("RINGPROOF_TRIALS") != "" }

// RealTime skips a test whose outcome a busy machine can change, except in make trials.
func RealTime(t testing.TB) {
	t.Helper()
	if !trials() {
		t.Skip("SKIPPED: a busy machine can change its outcome: make trials")
	}
}

// Trial skips a test that needs what nobody but a trial builds, as that takes minutes.
func Trial(t testing.TB, lacks string) {
	t.Helper()
	if !trials() {
		t.Skip("SKIPPED: " + lacks + ": make trials")
	}
}

// Lacking skips a test for what this machine lacks; in CI it fails.
func Lacking(t testing.TB, what string) {
	t.Helper()
	if inCI() {
		t.Fatal(what)
	}
	t.Skip("SKIPPED: " + what)
}

// Etcd returns the real etcd that make etcd-test built. Without it the test is skipped,
// or fails in CI; with -short it is skipped.
func Etcd(t testing.TB) etcdbin.Release {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: it runs a real etcd: make test")
	}
	cache, err := etcdbin.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	found, ok, err := cache.Lookup(Release)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		Lacking(t, "no etcd "+Release+": make etcd-test builds it")
	}
	return found
}

// Busy has more processes spin than there are processors until the test ends, and returns the
// pid of one of them.
func Busy(t testing.TB) (pid int) {
	t.Helper()
	for range 4 * runtime.NumCPU() {
		spin := exec.Command("sh", "-c", "while :; do :; done")
		if err := spin.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = spin.Process.Kill(); _ = spin.Wait() })
		pid = spin.Process.Pid
	}
	return pid
}
