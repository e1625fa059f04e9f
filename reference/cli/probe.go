// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof/reference/kube"
)

// lively is how old the last turn of a launcher may be. A turn in a ring of nine of
// which four are silent takes some ten seconds.
const lively = time.Minute

func probeCommand() *cobra.Command {
	run, health := "", ""
	c := &cobra.Command{
		Use:   "probe start|ready|live",
		Short: "say for the kubelet how the member in this pod is",
		Long: `probe is what the kubelet asks in a member's container.

  start  the launcher has begun to take turns
  live   it took one within the last minute. A pod for which the ring has no member
         yet is alive without etcd, and so is one whose ring has no quorum
  ready  etcd has joined and serves. That the ring has a quorum is not asked for:
         without one every pod would be unready, and might be evicted for it

The exit code is 0 for yes and 1 for no.`,
		Args:      exactly(1, "one of start, ready and live"),
		ValidArgs: []string{"start", "ready", "live"},
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(c.ValidArgs, args[0]) {
				return usageError{fmt.Errorf("probe %q: ask for one of start, ready and live", args[0])}
			}
			if args[0] == "ready" {
				return probeReady(c.Context(), health)
			}
			return probeTurns(filepath.Join(run, beatFile), args[0] == "live")
		},
	}
	c.Flags().StringVar(&run, "run", kube.RunPath, "directory that the launcher leaves word in")
	c.Flags().StringVar(&health, "health", fmt.Sprintf("http://127.0.0.1:%d", kube.HealthPort), "where etcd tells of its health")
	return c
}

func probeTurns(file string, live bool) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("the launcher has not taken a turn yet: %w", err)
	}
	switch age := time.Since(info.ModTime()); {
	case live && age > lively:
		return fmt.Errorf("the launcher took its last turn %s ago", age.Round(time.Second))
	case live && age < -lively: // it would have said so anew
		return fmt.Errorf("the launcher took its last turn by a clock that was set since, %s back", -age.Round(time.Second))
	}
	return nil
}

// probeReady asks etcd whether it serves. Releases before v3.5.11 and v3.4.29 have no /readyz, and
// answer with 404: by /health they are asked, which says the same of one that has a leader.
func probeReady(ctx context.Context, health string) error {
	asking, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	code, text, err := ask(asking, health+"/readyz?exclude=linearizable_read")
	if code == http.StatusNotFound {
		code, text, err = ask(asking, health+"/health?serializable=true")
	}
	if err == nil && code != http.StatusOK {
		err = errors.New("etcd is not ready: " + text)
	}
	return err
}

func ask(ctx context.Context, url string) (code int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", usageError{fmt.Errorf("--health: %w", err)}
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("etcd does not tell of its health: %w", err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 500))
	return answer.StatusCode, strings.TrimSpace(string(said)), nil
}
