// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

// Cell is one plan that ran, or why it didn't.
type Cell struct {
	Name       string            `json:"name"` // scenario[k=v,…]#seed
	Scenario   string            `json:"scenario"`
	Subject    string            `json:"subject"`
	World      string            `json:"world"`
	Seed       uint64            `json:"seed"`
	Hypothesis string            `json:"hypothesis,omitempty"`
	Verdict    ringproof.Verdict `json:"verdict"`

	// NotApplicable says why the world can't do the plan. Such a cell neither
	// passes nor fails: it is counted apart and merges into nothing.
	NotApplicable string `json:"notApplicable,omitempty"`
	// Skipped says why a cell that could have run did not. It was asked for
	// and nobody judged it, so it merges as inconclusive.
	Skipped string `json:"skipped,omitempty"`
	// Allowed marks a skipped cell that this host can't run, of a run that was
	// told to do without such cells: then it merges into nothing.
	Allowed bool `json:"allowed,omitempty"`
	// Baseline marks a cell that ran only to be compared with another subject's.
	// It is shown with its verdict and merges into nothing.
	Baseline bool `json:"baseline,omitempty"`

	// Missed are the steps whose fault did not happen as the plan has it.
	Missed []string `json:"missed,omitempty"`
	// Unjudged are the checks that the subject gives nothing to go by, and why: they
	// have neither passed nor failed.
	Unjudged []string `json:"unjudged,omitempty"`
	// Operations are the kinds that were asked for, and Faults those that landed.
	Operations []string `json:"operations,omitempty"`
	Faults     []string `json:"faults,omitempty"`
	// Reached are the mutants on trial whose mistaken code was reached.
	Reached []string `json:"reached,omitempty"`

	Findings     []ringproof.Finding `json:"findings"`
	Measurements Measurements        `json:"measurements"`
	Phases       string              `json:"phases,omitempty"` // what was demanded under faults and after them, and what came of it
	Budget       []ringproof.Budget  `json:"budget,omitempty"` // the fairness ledger's timeline

	PlanFile    string `json:"plan,omitempty"`    // relative to the report's directory
	HistoryFile string `json:"history,omitempty"` // relative to the report's directory
	Logs        string `json:"logs,omitempty"`    // the directory of its processes' logs, relative too; kept of what didn't pass
	Replay      string `json:"replay,omitempty"`  // the whole command line that runs the plan again
	Trace       string `json:"trace,omitempty"`   // what the replay must come to, in a world that repeats itself

	// Attempts are all runs of a cell that took more than one. The cell is the one of
	// them that decides, except that its verdict is theirs together.
	Attempts []Attempt `json:"attempts,omitempty"`

	History *ringproof.History `json:"-"` // what the page draws; nil: no timeline
}

// CellOf makes the cell of a history and the findings on it. The caller adds
// the files and the replay line.
func CellOf(h *ringproof.History, findings []ringproof.Finding) Cell {
	verdicts := make([]ringproof.Verdict, 0, len(findings))
	for _, f := range findings {
		verdicts = append(verdicts, f.Verdict)
	}
	operations, faults := tried(h)
	return Cell{
		Name:         h.Plan.Cell,
		Scenario:     h.Plan.Scenario,
		Subject:      h.Plan.Subject,
		World:        h.Plan.World,
		Seed:         h.Plan.Seed,
		Hypothesis:   h.Plan.Hypothesis,
		Verdict:      ringproof.Merge(verdicts...),
		Findings:     findings,
		Measurements: Measure(h),
		Phases:       phases(h),
		Budget:       h.Evidence.Budget,
		Trace:        h.Trace,
		Reached:      reached(h),
		Operations:   operations,
		Faults:       faults,
		History:      h,
	}
}

// reached are the mutants that say that they did what they do wrong.
func reached(h *ringproof.History) []string {
	var names []string
	for _, e := range h.Events {
		if e.Kind == ringproof.EventMutantReached && !slices.Contains(names, e.Text) {
			names = append(names, e.Text)
		}
	}
	return names
}

// Load reads the cell's history from its file under dir, so that a saved
// report can be drawn again.
func (c *Cell) Load(dir string) error {
	if c.HistoryFile == "" {
		return nil
	}
	file, err := os.Open(filepath.Join(dir, c.HistoryFile))
	if err != nil {
		return fmt.Errorf("loading cell %s: %w", c.Name, err)
	}
	defer file.Close()
	history, err := ringproof.ReadHistory(file)
	if err != nil {
		return fmt.Errorf("loading cell %s: %s: %w", c.Name, c.HistoryFile, err)
	}
	c.History = &history
	return nil
}

// Report is what a run of ringproof came to.
type Report struct {
	Error   string          `json:"error,omitempty"` // why the run could not be made
	Subject string          `json:"subject"`
	World   string          `json:"world"`
	Command string          `json:"command,omitempty"` // the command line of the run
	Started time.Time       `json:"started"`
	Tools   ringproof.Tools `json:"tools"`
	Cells   []Cell          `json:"cells"`
}

// Verdict merges the verdicts of the cells. A report with an error, or without
// a cell that was judged, never passes.
func (r Report) Verdict() ringproof.Verdict {
	var verdicts []ringproof.Verdict
	for _, c := range r.Cells {
		if v, counts := c.merges(); counts && !c.Allowed {
			verdicts = append(verdicts, v)
		}
	}
	if r.Error != "" {
		verdicts = append(verdicts, ringproof.Inconclusive)
	}
	return ringproof.Merge(verdicts...)
}

// Counts tells how many cells came to what. A cell is in one of them. Baseline counts
// those that ran for comparison, Flaky those whose attempts disagree.
type Counts struct {
	Cells         int `json:"cells"`
	Pass          int `json:"pass"`
	Fail          int `json:"fail"`
	Inconclusive  int `json:"inconclusive"`
	NotApplicable int `json:"notApplicable"`
	Skipped       int `json:"skipped"`
	Baseline      int `json:"baseline"`
	Flaky         int `json:"flaky"`
}

// Counts counts the cells.
func (r Report) Counts() Counts {
	n := Counts{Cells: len(r.Cells)}
	slot := map[outcome]*int{
		passed: &n.Pass, failed: &n.Fail, inconclusive: &n.Inconclusive,
		notApplicable: &n.NotApplicable, skipped: &n.Skipped, baseline: &n.Baseline, flaky: &n.Flaky,
	}
	for _, c := range r.Cells {
		*slot[c.outcome()]++
	}
	return n
}

// String prints "18 cells: 17 pass, 0 fail, 0 inconclusive, 1 not applicable".
// Flaky cells, skipped ones and baselines are named when there are any.
func (n Counts) String() string {
	cells := "cells"
	if n.Cells == 1 {
		cells = "cell"
	}
	s := fmt.Sprintf("%d %s: %d pass, %d fail, %d inconclusive, %d not applicable",
		n.Cells, cells, n.Pass, n.Fail, n.Inconclusive, n.NotApplicable)
	if n.Flaky > 0 {
		s += fmt.Sprintf(", %d flaky", n.Flaky)
	}
	if n.Skipped > 0 {
		s += fmt.Sprintf(", %d skipped", n.Skipped)
	}
	if n.Baseline > 0 {
		s += fmt.Sprintf(", %d baseline", n.Baseline)
	}
	return s
}

// unjudged are the checks that were not asked in some cell, and why, once each.
func (r Report) unjudged() []string {
	var all []string
	for _, c := range r.Cells {
		all = append(all, c.Unjudged...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// outcome is a cell's verdict, or why it has none that counts.
type outcome int

const (
	inconclusive outcome = iota
	passed
	failed
	notApplicable
	skipped
	baseline
	flaky
)

func (c Cell) outcome() outcome {
	switch {
	case c.NotApplicable != "":
		return notApplicable
	case c.Skipped != "":
		return skipped
	case c.Baseline:
		return baseline
	case c.disagree():
		return flaky
	}
	return judged(c.Verdict)
}

func judged(v ringproof.Verdict) outcome {
	switch v {
	case ringproof.Pass:
		return passed
	case ringproof.Fail:
		return failed
	}
	return inconclusive
}

// shown is the outcome whose mark a reader sees: a baseline shows its own.
func (c Cell) shown() outcome {
	if o := c.outcome(); o != baseline {
		return o
	}
	return judged(c.Verdict)
}

// merges returns the verdict that the cell brings into the report's.
func (c Cell) merges() (ringproof.Verdict, bool) {
	switch c.outcome() {
	case passed, failed, flaky:
		return c.Verdict, true
	case notApplicable, baseline:
		return ringproof.Inconclusive, false
	}
	return ringproof.Inconclusive, true
}

// String prints the outcome in words.
func (o outcome) String() string {
	return [...]string{"inconclusive", "pass", "fail", "not applicable", "skipped", "baseline", "flaky"}[o]
}

// mark is the outcome as one character.
func (o outcome) mark() string {
	return [...]string{"?", "✓", "✗", "–", "·", "∥", "≈"}[o]
}

// ran reports whether there is something to measure.
func (c Cell) ran() bool { return c.NotApplicable == "" && c.Skipped == "" }

// aside tells the cell apart where its name doesn't: another subject than the
// report's, or one that runs beside it.
func (r Report) aside(c Cell) string {
	switch {
	case c.outcome() == baseline:
		return "baseline: " + plain(c.Subject)
	case c.Subject != r.Subject:
		return plain(c.Subject)
	}
	return ""
}

// reason is why the cell did not run.
func (c Cell) reason() string {
	if c.NotApplicable != "" {
		return c.NotApplicable
	}
	return c.Skipped
}

// troubles returns the findings that are no pass, failures first.
func (c Cell) troubles() []ringproof.Finding {
	var found []ringproof.Finding
	for _, want := range []ringproof.Verdict{ringproof.Fail, ringproof.Inconclusive} {
		for _, f := range c.Findings {
			if f.Verdict == want {
				found = append(found, f)
			}
		}
	}
	return found
}
