// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reports"
)

func reportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "report DIR",
		Short: "draw a saved report again, and print it",
		Long: `report writes index.html, junit.xml and summary.md again from the result.json in
DIR and the histories beside it, and prints the summary. Nothing is run or
judged. It exits as the run did: by the verdict.`,
		Args: exactly(1, "the directory of a report"),
		RunE: func(c *cobra.Command, args []string) error {
			report, err := savedReport(c, args[0])
			if err != nil {
				return err
			}
			if err := reports.Write(args[0], report); err != nil {
				return environment(err)
			}
			return told(c, args[0], report)
		},
	}
}

// savedReport reads a report and its histories. A history that can't be read
// takes its timeline with it, and nothing else.
func savedReport(c *cobra.Command, dir string) (reports.Report, error) {
	report, err := reports.Read(dir)
	if err != nil {
		return report, usage("%w", err)
	}
	for i := range report.Cells {
		if err := report.Cells[i].Load(dir); err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "no timeline: %v\n", err)
		}
	}
	return report, nil
}

// told prints the summary of a report that was written to dir, and ends with
// its verdict.
func told(c *cobra.Command, dir string, report reports.Report) error {
	if err := reports.Terminal(c.OutOrStdout(), report, style(c.OutOrStdout())); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "report: %s\n", filepath.Join(dir, reports.PageFile))
	if v := report.Verdict(); v != ringproof.Pass {
		return errVerdict{v}
	}
	return nil
}
