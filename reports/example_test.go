// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports_test

import (
	"fmt"
	"os"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reports"
)

// What a run came to, for a terminal. Write makes the page and the files for machines.
func ExampleTerminal() {
	r := reports.Report{Subject: "reference", World: "sim", Cells: []reports.Cell{
		{Name: "create#1", Subject: "reference", World: "sim", Verdict: ringproof.Pass},
		{Name: "flap#1", Subject: "reference", World: "sim", Verdict: ringproof.Fail, Findings: []ringproof.Finding{
			{Check: "learner-first", Verdict: ringproof.Fail, Message: "expected m4 to enter as a learner, it entered as a voter"},
		}},
	}}
	if err := reports.Terminal(os.Stdout, r, reports.Style{Width: 80}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ringproof  sim · reference
	//
	//   ✓ create#1  gap –  0 acked  0.00s
	//   ✗ flap#1    gap –  0 acked  0.00s
	//
	// ✗ flap#1
	//   fail  learner-first
	//     expected m4 to enter as a learner, it entered as a voter
	//
	// verdict: fail  2 cells: 1 pass, 1 fail, 0 inconclusive, 0 not applicable
}

// What differs from the report before.
func ExampleDiff() {
	cell := func(v ringproof.Verdict) reports.Report {
		return reports.Report{Cells: []reports.Cell{{Name: "flap#1", World: "sim", Verdict: v}}}
	}
	for _, d := range reports.Diff(cell(ringproof.Pass), cell(ringproof.Fail)) {
		fmt.Println(d.Change, d.Cell, d.Before, d.Now)
	}
	// Output: worse flap#1 pass fail
}
