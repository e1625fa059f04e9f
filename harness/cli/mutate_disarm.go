// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness"
)

// weightRow is a check as a row of the table.
type weightRow struct{ harness.Weight }

func (w weightRow) columns() []string {
	if !w.Asked {
		return []string{w.Check, "(no plan of these mutants has what it judges)"}
	}
	return []string{w.Check, strings.Join(w.Only, " ")}
}

// disarmed prints what each check adds, and fails if one adds nothing.
func disarmed(c *cobra.Command, trials []harness.Trial, asJSON bool) error {
	weights := harness.Weigh(trials)
	if !asJSON {
		fmt.Fprintln(c.OutOrStdout())
	}
	if err := (listed{[]string{"CHECK", "MUTANTS THAT ONLY IT NOTICES"}, rowsOf(weights, func(w harness.Weight) weightRow { return weightRow{w} })}).print(c, asJSON); err != nil {
		return err
	}
	var idle []string
	for _, w := range weights {
		if w.Asked && len(w.Only) == 0 {
			idle = append(idle, w.Check)
		}
	}
	if len(idle) == 0 {
		return nil
	}
	fmt.Fprintf(c.ErrOrStderr(), "nothing shows what %s is for: with it disarmed every mutant is still noticed by another check\n", strings.Join(idle, ", "))
	return errVerdict{ringproof.Fail}
}
