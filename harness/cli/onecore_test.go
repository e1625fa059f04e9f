// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOneCore: every thread is bound, also those made afterwards. It is a process
// of its own: nobody unbinds it.
func TestOneCore(t *testing.T) {
	const asked = "RINGPROOF_TEST_ONE_CORE"
	if os.Getenv(asked) == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestOneCore$", "-test.v")
		again.Env = append(os.Environ(), asked+"=1")
		out, err := again.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "--- PASS: TestOneCore")
		return
	}
	require.NoError(t, oneCore())
	requireOneCore(t)
	done := make(chan bool)
	for range 8 { // threads that wait in the kernel, so that more are made
		go func() {
			_ = exec.Command("true").Run()
			done <- true
		}()
	}
	for range 8 {
		<-done
	}
	requireOneCore(t)
}

// requireOneCore wants all threads on the same core.
func requireOneCore(t *testing.T) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	found := map[string]bool{}
	for _, thread := range threads {
		text, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/status")
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), "Cpus_allowed_list:")
		cores, _, _ := strings.Cut(rest, "\n")
		found[strings.TrimSpace(cores)] = true
	}
	require.Len(t, found, 1)
	for cores := range found {
		require.NotRegexp(t, "[,-]", cores)
	}
}
