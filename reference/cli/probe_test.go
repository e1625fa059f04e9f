// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The clock of a pod may be years from that of the filesystem: then the kernel's own times
// say nothing.
func TestALauncherThatTakesNoTurnsIsNotAlive(t *testing.T) {
	f := launchFlags{run: t.TempDir()}
	file := filepath.Join(f.run, beatFile)
	require.ErrorContains(t, probeTurns(file, false), "has not taken a turn yet")

	require.NoError(t, f.stamp(time.Now().Add(-2*lively)))
	require.NoError(t, probeTurns(file, false), "it has begun")
	require.ErrorContains(t, probeTurns(file, true), "took its last turn 2m0s ago")

	require.NoError(t, f.stamp(time.Now()))
	require.NoError(t, probeTurns(file, true))

	// A clock that was set back by an hour, and a launcher that hangs since.
	require.NoError(t, f.stamp(time.Now().Add(time.Hour)))
	require.ErrorContains(t, probeTurns(file, true), "by a clock that was set since")
}

// Releases before v3.5.11 have no /readyz: their pods were never ready, so that no client was led to
// them, and none was ever evicted.
func TestReadinessOfAReleaseWithoutReadyz(t *testing.T) {
	for name, c := range map[string]struct {
		readyz, health int
		refused        string
	}{
		"ready":                 {readyz: 200, health: 500},
		"not ready":             {readyz: 503, health: 200, refused: "etcd is not ready: /readyz is 503"},
		"older, and ready":      {readyz: 404, health: 200},
		"older, and not ready":  {readyz: 404, health: 503, refused: "etcd is not ready: /health is 503"},
		"nobody that has these": {readyz: 404, health: 404, refused: "etcd is not ready: /health is 404"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]int{"/readyz": c.readyz, "/health": c.health}
			etcd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(answers[r.URL.Path])
				fmt.Fprintf(w, "%s is %d", r.URL.Path, answers[r.URL.Path])
			}))
			defer etcd.Close()
			err := probeReady(t.Context(), etcd.URL)
			if c.refused == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.refused)
		})
	}
}
