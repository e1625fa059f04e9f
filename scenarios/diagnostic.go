// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// Severity reports whether a scenario can run in spite of a problem.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	// NotApplicable: the scenario is right, and the world can't do it.
	NotApplicable Severity = "not-applicable"
	// Skipped: the scenario is right and the world could do it, but not on this host.
	Skipped Severity = "skipped"
)

// Diagnostic is one problem and its place.
type Diagnostic struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`   // from 1; 0: the file as a whole
	Column   int      `json:"column"` // from 1, in characters
	Width    int      `json:"width"`  // characters that the problem spans
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`
	Message  string   `json:"message"`
	Help     string   `json:"help,omitempty"`
	Source   string   `json:"source,omitempty"` // the line
}

// String prints file:line:col: severity[code]: message, the line with the
// place marked, and the help.
func (d Diagnostic) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s[%s]: %s\n", d.File, d.Line, d.Column, d.Severity, d.Code, d.Message)
	if d.Line > 0 && d.Source != "" {
		fmt.Fprintf(&b, "%5d | %s\n      | %s\n", d.Line, d.Source, d.caret())
	}
	if d.Help != "" {
		fmt.Fprintf(&b, "   help: %s\n", d.Help)
	}
	return b.String()
}

// caret repeats the line's tabs, so that it stands under the place whatever a
// tab's width.
func (d Diagnostic) caret() string {
	var b strings.Builder
	line := []rune(d.Source)
	for i := 0; i < d.Column-1; i++ {
		if i < len(line) && line[i] == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
	}
	width := min(d.Width, len(line)-d.Column+1)
	b.WriteString(strings.Repeat("^", max(width, 1)))
	return b.String()
}

// Diagnostics are the problems of one file, by place.
type Diagnostics []Diagnostic

// cap on what is shown at once: what comes after is mostly consequence.
const maxDiagnostics = 50

// Err returns an error that prints every problem of severity error, or nil.
func (ds Diagnostics) Err() error {
	if !ds.Failed() {
		return nil
	}
	return errors.New(strings.TrimSuffix(ds.String(), "\n"))
}

// Failed reports whether one is an error.
func (ds Diagnostics) Failed() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

// Inapplicable returns why the world can't run the cell, or "".
func (ds Diagnostics) Inapplicable() string { return ds.first(NotApplicable) }

// Lacking returns why this host can't run the cell, or "".
func (ds Diagnostics) Lacking() string { return ds.first(Skipped) }

func (ds Diagnostics) first(severity Severity) string {
	for _, d := range ds {
		if d.Severity == severity {
			return d.Message
		}
	}
	return ""
}

// String prints all of them.
func (ds Diagnostics) String() string {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(d.String())
	}
	return b.String()
}

// ordered sorts by place, drops what was said before, and cuts at the cap.
func (ds Diagnostics) ordered() Diagnostics {
	sorted := slices.Clone(ds)
	slices.SortStableFunc(sorted, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	sorted = slices.CompactFunc(sorted, func(a, b Diagnostic) bool {
		return a.Line == b.Line && a.Column == b.Column && a.Code == b.Code && a.Message == b.Message
	})
	if len(sorted) <= maxDiagnostics {
		return sorted
	}
	rest := Diagnostic{File: sorted[0].File, Severity: Error, Code: "S009", Message: fmt.Sprintf("%d more problems; mend those above first", len(sorted)-maxDiagnostics)}
	last := sorted[maxDiagnostics-1]
	rest.Line, rest.Column = last.Line, last.Column
	return append(sorted[:maxDiagnostics:maxDiagnostics], rest)
}

// place is where something is written.
type place struct{ line, column, width int }

// text is a source file, for diagnostics to quote.
type text struct {
	name  string
	holds string // what the file is to hold
	lines []string
}

// What a file may hold. A plan is read as a scenario is.
const (
	holdsScenario = "scenario"
	holdsPlan     = "plan"
	holdsSubject  = "subject"
)

func newText(name, holds string, src []byte) text {
	var lines []string
	for line := range strings.SplitSeq(strings.ToValidUTF8(string(src), "\uFFFD"), "\n") {
		lines = append(lines, strings.TrimRight(line, "\r"))
	}
	return text{name: name, holds: holds, lines: lines}
}

const maxQuoted = 200 // characters of a line worth showing

func (t text) at(p place, severity Severity, c complaint, help string) Diagnostic {
	d := Diagnostic{File: t.name, Line: p.line, Column: p.column, Width: p.width, Severity: severity, Code: c.code, Message: c.message, Help: help}
	if p.line > 0 && p.line <= len(t.lines) {
		d.Source = t.lines[p.line-1]
		if utf8.RuneCountInString(d.Source) > maxQuoted {
			d.Source = string([]rune(d.Source)[:maxQuoted-1]) + "…"
		}
	}
	if word, ok := nearest(c); ok {
		d.Message += fmt.Sprintf("; did you mean %q?", word)
	}
	if d.Help == "" && len(c.legal) > 0 {
		d.Help = "it is one of " + strings.Join(c.legal, ", ")
	}
	return d
}

// nearest finds what was probably meant: the quoted word of the message, a few
// letters away from something legal.
func nearest(c complaint) (string, bool) {
	_, rest, ok := strings.Cut(c.message, `"`)
	word, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed || len(word) > 100 {
		return "", false
	}
	best, distance := "", max(2, utf8.RuneCountInString(word)/3)+1
	for _, legal := range c.legal {
		if d := levenshtein.ComputeDistance(strings.ToLower(word), strings.ToLower(legal)); d < distance {
			best, distance = legal, d
		}
	}
	return best, best != ""
}
