// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
)

func certsCommand() *cobra.Command {
	data, asJSON := "", false
	c := &cobra.Command{
		Use:   "certs",
		Short: "list this machine's certificates, and when they end and are renewed",
		Long: `certs lists the authorities that this machine trusts and the certificates that it
shows: who signed each, from when to when it is good, and when the agent renews it.
An authority is never renewed.

The exit code is 1 if one can't be shown, or ends before it is renewed: it is over,
its renewal is overdue, or its authority ends before what it signs. No key is
printed.`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := launcher.Certificates(host.NewReal("", data, "", nil))
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return fmt.Errorf("%s holds no certificate: its ring speaks plainly, or no agent of a ring with TLS ever ran on it; name another with --data", filepath.Join(data, "pki"))
			}
			if err := printCertificates(c.OutOrStdout(), all, asJSON); err != nil {
				return err
			}
			return launcher.InTrouble(all)
		},
	}
	c.Flags().StringVar(&data, "data", defaultData, "data filesystem of this machine")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printCertificates(out io.Writer, all []launcher.Certificate, asJSON bool) error {
	if asJSON {
		return printJSON(out, all)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FILE\tSUBJECT\tSIGNED BY\tFROM\tUNTIL\tRENEWED\tTROUBLE")
	for _, c := range all {
		renewed := day(c.Renewed)
		if c.Subject != "" && c.Renewed.IsZero() {
			renewed = "never"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.File, c.Subject, c.Signer, day(c.From), day(c.Until), renewed, c.Trouble)
	}
	if !slices.ContainsFunc(all, func(c launcher.Certificate) bool { return c.File == launcher.PeersCA }) {
		fmt.Fprintln(w, "peers and clients have one authority, as the ring was bootstrapped before they were parted: let only its machines reach port 2380")
	}
	return w.Flush()
}

func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04Z")
}
