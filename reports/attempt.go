// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// Attempt is one run of a cell that took more than one. Every attempt but the first
// ran alone, with no other cell beside it.
type Attempt struct {
	Verdict  ringproof.Verdict `json:"verdict"`
	Decides  bool              `json:"decides,omitempty"`  // the cell's findings, figures and files are this one's
	Troubles []string          `json:"troubles,omitempty"` // its findings that are no pass, a line each
	Stalled  float64           `json:"stalledSeconds"`     // for how many seconds the host kept it waiting

	PlanFile    string `json:"plan,omitempty"`    // as the cell's
	HistoryFile string `json:"history,omitempty"` // as the cell's
	Logs        string `json:"logs,omitempty"`    // as the cell's
	Replay      string `json:"replay,omitempty"`  // as the cell's
}

// AttemptOf is the attempt that the cell of one run is.
func AttemptOf(c Cell) Attempt {
	a := Attempt{Verdict: c.Verdict, Stalled: c.Measurements.HostStalledSeconds,
		PlanFile: c.PlanFile, HistoryFile: c.HistoryFile, Logs: c.Logs, Replay: c.Replay}
	for _, f := range c.troubles() {
		a.Troubles = append(a.Troubles, fmt.Sprintf("%s by %s%s: %s", f.Verdict, f.Check, atText(f), plain(f.Message)))
	}
	return a
}

// Retold prints the cells that took more than one attempt, for who prints no summary.
func Retold(w io.Writer, r Report) error {
	t := &terminal{}
	for _, c := range r.Cells {
		if len(c.Attempts) > 0 {
			t.line(c.shown().mark() + " " + label(c, r.aside(c)))
			t.attempts(c)
		}
	}
	_, err := w.Write(t.out.Bytes())
	return err
}

// disagree reports whether an attempt passed and another didn't, and none of them
// decides: the cell is flaky. Its verdict is still a pass where no attempt failed,
// as one that could not be judged contradicts nothing.
func (c Cell) disagree() bool {
	return c.Verdict != ringproof.Fail && slices.ContainsFunc(c.Attempts, func(a Attempt) bool { return a.Verdict == ringproof.Pass })
}

// attemptTexts tell of each attempt in a line, with the troubles of those that the
// cell's own findings don't show.
func (c Cell) attemptTexts() (texts []string) {
	for i, a := range c.Attempts {
		text := fmt.Sprintf("attempt %d", i+1)
		if i > 0 {
			text += ", alone"
		}
		parts := []string{text + ": " + a.Verdict.String()}
		if a.Stalled > 0 {
			parts = append(parts, "the host stalled "+secs(&a.Stalled))
		}
		if !a.Decides {
			parts = append(parts, a.Troubles...)
		}
		if a.HistoryFile != "" {
			parts = append(parts, a.HistoryFile)
		}
		texts = append(texts, plain(strings.Join(parts, "; ")))
	}
	return texts
}
