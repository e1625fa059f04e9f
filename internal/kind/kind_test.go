// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kind

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhoseClusterItIs(t *testing.T) {
	ended := exec.Command("true")
	require.NoError(t, ended.Run())
	gone := strconv.Itoa(ended.Process.Pid)
	for name, want := range map[string]bool{
		prefix + here() + "-" + gone + "-1": true,
		newName():                           false,
		prefix + here() + "-" + gone:        false,
		prefix + here() + "-mine-1":         false,
		prefix + "elsewhere-" + gone + "-1": false,
		"kind":                              false,
	} {
		assert.Equal(t, want, orphaned(name), name)
	}
}

func TestInotifySaysTheLimit(t *testing.T) {
	found := inotify()
	assert.Regexp(t, `^\d+ instances a user$`, found.Detail)
	assert.Contains(t, found.Fix, "sysctl")
}

// needsKind skips a test where nobody asked for a cluster.
func needsKind(t *testing.T) {
	t.Helper()
	if os.Getenv("RINGPROOF_KIND") == "" {
		t.Skip("SKIPPED: a cluster in Docker takes minutes: make test-kind")
	}
	said := docker(t.Context(), "version")
	require.True(t, said.ok, said.text)
	for _, found := range Doctor(t.Context()) {
		require.True(t, found.OK, "%s: %s; fix: %s", found.Name, found.Detail, found.Fix)
	}
}

// TestInterruptedUpLeavesNothing ends a cluster in the midst of its making.
func TestInterruptedUpLeavesNothing(t *testing.T) {
	needsKind(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Up(ctx, Options{Dir: t.TempDir(), Workers: 1, Log: func(line string) {
		t.Log(line)
		if strings.Contains(line, "Starting control-plane") {
			time.AfterFunc(2*time.Second, cancel)
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	left := docker(t.Context(), "ps", "-aq", "--filter", "name=^"+prefix+here()+"-"+strconv.Itoa(os.Getpid())+"-")
	require.True(t, left.ok, left.text)
	assert.Empty(t, left.text, "containers are left")
}
