// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// What has another name now is still taken by the old one, with a note, for one release.
// So are keys of YAML (S072).

// renamed is the command by its old name, which no help shows.
func renamed(old string, c *cobra.Command) *cobra.Command {
	name, arguments, _ := strings.Cut(c.Use, " ")
	c.Use, c.Deprecated = strings.TrimSpace(old+" "+arguments), "write "+name
	return c
}

// renamedFlag has a flag of the command taken by its old name, too.
func renamedFlag(c *cobra.Command, old, name string) {
	f := c.Flags().Lookup(name)
	c.Flags().VarPF(f.Value, old, "", f.Usage).NoOptDefVal = f.NoOptDefVal
	_ = c.Flags().MarkDeprecated(old, "write --"+name) // which fails for a flag that isn't there
}
