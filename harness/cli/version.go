// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what this program was made of.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Revision string `json:"revision,omitempty"`
	Dirty    bool   `json:"dirty"` // made of files that were not committed
}

func goVersion() string { return runtime.Version() }

func thisBuild() build {
	b := build{Version: version(), Go: goVersion()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
	return b
}

// String prints "ringproof v0.1.0 (go1.26.0, 0123456789ab, dirty)".
func (b build) String() string {
	more := b.Go
	if b.Revision != "" {
		more += ", " + b.Revision[:min(12, len(b.Revision))]
	}
	if b.Dirty {
		more += ", dirty"
	}
	return fmt.Sprintf("ringproof %s (%s)", b.Version, more)
}

func versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "what this ringproof was built from",
		Args:  none,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(c.OutOrStdout(), thisBuild())
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), thisBuild())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}
