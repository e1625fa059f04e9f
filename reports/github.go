// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// mostAnnotations is how many of each kind GitHub shows of one step.
const mostAnnotations = 10

// Annotate prints a workflow command of GitHub for each cell that did not pass: an
// error for one that failed, a warning for one that could not be judged or was
// skipped. They are shown beside the workflow's run.
// https://docs.github.com/actions/reference/workflow-commands-for-github-actions
func Annotate(w io.Writer, r Report) error {
	told := map[string]int{}
	for _, c := range r.Cells {
		level, text := c.annotation()
		if level == "" || told[level] == mostAnnotations {
			continue
		}
		told[level]++
		if _, err := fmt.Fprintf(w, "::%s title=%s::%s\n", level, ofProperty.Replace("ringproof: "+plain(c.Name)), ofMessage.Replace(text)); err != nil {
			return err
		}
	}
	return nil
}

var (
	ofMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	ofProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func (c Cell) annotation() (level, text string) {
	switch c.outcome() {
	case failed:
		level = "error"
	case inconclusive, flaky:
		level = "warning"
	case skipped:
		return "warning", "skipped: " + plain(c.reason())
	default:
		return "", ""
	}
	var said []string
	for _, f := range c.troubles() {
		said = append(said, fmt.Sprintf("%s%s: %s", f.Check, atText(f), plain(short(f.Message))))
	}
	said = append(said, c.attemptTexts()...)
	if c.Replay != "" {
		said = append(said, "replay: "+plain(c.Replay))
	}
	return level, strings.Join(said, "\n")
}

// AppendSummary adds the report's Markdown to the file, which a step of a GitHub
// workflow names in GITHUB_STEP_SUMMARY.
func AppendSummary(file string, r Report) error {
	text, err := summary(r)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("adding to the step's summary: %w", err)
	}
	if _, err := out.Write(text); err != nil {
		out.Close()
		return fmt.Errorf("adding to the step's summary: %w", err)
	}
	return out.Close()
}
