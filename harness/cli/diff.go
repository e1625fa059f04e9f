// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reports"
)

func diffCommand() *cobra.Command {
	var asJSON, traces, across bool
	c := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "what differs between two reports, cell by cell",
		Long: `diff compares two reports cell by cell, as of two releases of the subject, or of
ringproof.

  worse     it passed, or could be judged, and does so no more
  gone      it is in OLD alone
  better    it failed, or could not be judged, and is better now
  new       it is in NEW alone
  retraced  it came to the same by another run: the traces differ. They are counted,
            and listed with --traces

Exit code 1 says that a cell is worse or gone, or new and failed.

With --across the reports are of two worlds, and only what they contradict each other in
is a difference: a cell that one passes and the other fails. Exit code 3 says that no
cell was judged in both.`,
		Example: "  ringproof diff out/before out/now\n  ringproof diff --across out/virtual out/local",
		Args:    exactly(2, "the directories of two reports"),
		RunE: func(c *cobra.Command, args []string) error {
			if across && traces {
				return usage("--across --traces: two worlds never take the same way; leave --traces out")
			}
			var of [2]reports.Report
			for i, dir := range args {
				var err error
				if of[i], err = reports.Read(dir); err != nil {
					return usage("%w", err)
				}
			}
			if across {
				return printContradictions(c, of[0], of[1], asJSON)
			}
			all := reports.Diff(of[0], of[1])
			if err := printDifferences(c, all, asJSON, traces); err != nil {
				return err
			}
			if slices.ContainsFunc(all, alarming) {
				return errVerdict{ringproof.Fail}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&traces, "traces", false, "list the cells that came to the same by another run, too")
	c.Flags().BoolVar(&across, "across", false, "the reports are of two worlds: list what one passes and the other fails")
	c.Flags().BoolVar(&asJSON, "json", false, "print all differences as JSON")
	return c
}

func printContradictions(c *cobra.Command, one, other reports.Report, asJSON bool) error {
	all, both := reports.Across(one, other)
	if err := listDifferences(c, all, asJSON); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s judged in both, %d contradicted\n", ringproof.Counted(both, "cell"), len(all))
	switch {
	case len(all) > 0:
		return errVerdict{ringproof.Fail}
	case both == 0:
		return errVerdict{ringproof.Inconclusive}
	}
	return nil
}

// listDifferences prints differences, if there are any.
func listDifferences(c *cobra.Command, shown []reports.Difference, asJSON bool) error {
	if len(shown) == 0 && !asJSON {
		return nil
	}
	rows := rowsOf(shown, func(d reports.Difference) differenceRow { return differenceRow{d} })
	return listed{[]string{"CHANGE", "CELL", "WORLD", "BEFORE", "NOW", "WHY"}, rows}.print(c, asJSON)
}

// alarming reports whether a difference is one that a release must not bring unseen.
func alarming(d reports.Difference) bool {
	return d.Change == reports.Worse || d.Change == reports.Gone || d.Change == reports.New && d.Now == "fail"
}

// differenceRow is a difference as a row of the table.
type differenceRow struct{ reports.Difference }

func (d differenceRow) columns() []string {
	name := d.Cell
	if d.Subject != "" {
		name += " " + d.Subject
	}
	return []string{d.Change, name, d.World, cmp.Or(d.Before, "-"), cmp.Or(d.Now, "-"), d.Why}
}

func printDifferences(c *cobra.Command, all []reports.Difference, asJSON, traces bool) error {
	count := map[string]int{}
	for _, d := range all {
		count[d.Change]++
	}
	shown := all
	if !asJSON && !traces {
		shown = slices.DeleteFunc(slices.Clone(all), func(d reports.Difference) bool { return d.Change == reports.Retraced })
	}
	if err := listDifferences(c, shown, asJSON); err != nil {
		return err
	}
	var parts []string
	for _, change := range []string{reports.Worse, reports.Gone, reports.Better, reports.New, reports.Retraced} {
		parts = append(parts, fmt.Sprintf("%d %s", count[change], change))
	}
	_, err := fmt.Fprintln(c.ErrOrStderr(), strings.Join(parts, ", "))
	return err
}
