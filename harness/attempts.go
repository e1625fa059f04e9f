// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/reports"
)

// again runs what did not pass again, one cell after the other with nothing beside it,
// until each is decided.
func (s Suite) again(ctx context.Context, cells []reports.Cell) {
	for i, job := range s.Jobs {
		tried := []reports.Cell{cells[i]}
		for !job.idle() && undecided(tried, s.Attempts) && ctx.Err() == nil {
			p := Progress{Done: len(s.Jobs), All: len(s.Jobs), Cell: job.Plan.Cell, Subject: job.Plan.Subject, Attempt: len(tried) + 1}
			cell := s.job(ctx, job, p.Attempt, func(e ringproof.Event) {
				p.Event, p.Ended = &e, nil
				s.tell(p)
			})
			if ctx.Err() != nil {
				break // what was cut off says nothing
			}
			tried = append(tried, cell)
			p.Event, p.Ended = nil, &cell
			s.tell(p)
		}
		cells[i] = settled(tried)
	}
}

// idle reports whether the job is never run, or its verdict counts for nothing.
func (j Job) idle() bool { return j.NotApplicable != "" || j.Lacking != "" || j.Baseline }

// undecided reports whether one more attempt, of at most so many, could change what the
// cell comes to. Where one has failed, a pass doesn't end it: a bug that shows in every
// second run would be let go by half of them.
func undecided(tried []reports.Cell, most int) bool {
	failed := slices.ContainsFunc(tried, reported(ringproof.Fail))
	passed := slices.ContainsFunc(tried, reported(ringproof.Pass))
	return len(tried) < most && !proven(tried) && (failed || !passed)
}

// proven reports whether the attempts fail the cell: two of them failed, or one did by
// what no slow host explains.
func proven(tried []reports.Cell) bool {
	failed := 0
	for _, c := range tried {
		if slices.ContainsFunc(c.Findings, checks.Proves) {
			return true
		}
		if c.Verdict == ringproof.Fail {
			failed++
		}
	}
	return failed > 1
}

func reported(v ringproof.Verdict) func(reports.Cell) bool {
	return func(c reports.Cell) bool { return c.Verdict == v }
}

// settled is what a cell's attempts come to together. One attempt is what it is.
func settled(tried []reports.Cell) reports.Cell {
	if len(tried) == 1 {
		return tried[0]
	}
	told := telling(tried)
	cell := tried[told]
	for i, c := range tried {
		a := reports.AttemptOf(c)
		a.Decides = i == told
		cell.Attempts = append(cell.Attempts, a)
	}
	if cell.Verdict == ringproof.Fail && !proven(tried) {
		cell.Verdict, cell.Findings = ringproof.Inconclusive, doubted(cell.Findings, len(tried))
	}
	return cell
}

// telling picks the attempt that a reader wants to see: one that proves, else the
// first that failed, else the first that passed, else the last.
func telling(tried []reports.Cell) int {
	for _, wanted := range []func(reports.Cell) bool{
		func(c reports.Cell) bool { return slices.ContainsFunc(c.Findings, checks.Proves) },
		reported(ringproof.Fail), reported(ringproof.Pass),
	} {
		if i := slices.IndexFunc(tried, wanted); i >= 0 {
			return i
		}
	}
	return len(tried) - 1
}

// doubted are the findings of an attempt that no other confirms.
func doubted(findings []ringproof.Finding, attempts int) []ringproof.Finding {
	all := slices.Clone(findings)
	for i, f := range all {
		if f.Verdict == ringproof.Fail {
			all[i].Verdict = ringproof.Inconclusive
			all[i].Message += fmt.Sprintf("; so it was in one attempt of %d, and a slow host can do that", attempts)
		}
	}
	return all
}
