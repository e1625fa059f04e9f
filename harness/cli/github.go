// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof/reports"
)

// announced tells GitHub of a report, in a workflow of its: what did not pass is
// annotated, and the step's summary gets the whole.
func announced(c *cobra.Command, report reports.Report) error {
	if os.Getenv("GITHUB_ACTIONS") != "true" {
		return nil
	}
	err := reports.Annotate(c.OutOrStdout(), report)
	if file := os.Getenv("GITHUB_STEP_SUMMARY"); file != "" {
		err = errors.Join(err, reports.AppendSummary(file, report))
	}
	return err
}
