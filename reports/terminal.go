// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/ringproof/ringproof"
)

// Style is what the caller knows of the terminal: whether it takes colour
// (NO_COLOR says no) and how many columns it has; 0 is no limit.
type Style struct {
	Color bool
	Width int
}

// Terminal prints the summary: a line for each cell, then the cells that did
// not pass with their evidence, then the comparisons, then the verdict.
func Terminal(w io.Writer, r Report, style Style) error {
	t := &terminal{style: style}
	t.head(r)
	t.cells(r)
	t.unjudged(r)
	for _, c := range r.Cells {
		t.troubles(c, r.aside(c))
	}
	for _, g := range r.comparisons() {
		t.comparison(g)
	}
	if r.Error != "" {
		t.paragraph(t.paint(red, "error: "), "       ", plain(r.Error))
		t.line("")
	}
	if text := r.stalled(); text != "" {
		t.line("host: " + text)
	}
	verdict := r.Verdict()
	t.line(fmt.Sprintf("verdict: %s  %s", t.paint(hue(judged(verdict)), verdict.String()), r.Counts()))
	_, err := w.Write(t.out.Bytes())
	return err
}

type terminal struct {
	style Style
	out   bytes.Buffer
}

// The colours, as SGR parameters of the terminal's own palette. The marks tell
// the same without them.
const (
	bold  = "1"
	dim   = "2"
	red   = "1;31"
	green = "32"
	amber = "33"
)

func hue(o outcome) string {
	return map[outcome]string{passed: green, failed: red, inconclusive: amber, flaky: amber}[o]
}

func (t *terminal) paint(hue, text string) string {
	if !t.style.Color || hue == "" {
		return text
	}
	return "\x1b[" + hue + "m" + text + "\x1b[0m"
}

func (t *terminal) line(s string) {
	t.out.WriteString(strings.TrimRight(s, " "))
	t.out.WriteByte('\n')
}

func (t *terminal) head(r Report) {
	facts := []string{}
	for _, f := range []string{r.World, r.Subject, etcdFacts(r.Tools)} {
		if f != "" {
			facts = append(facts, plain(f))
		}
	}
	t.paragraph(t.paint(bold, "ringproof")+"  ", "           ", strings.Join(facts, " · "))
	t.line("")
}

func etcdFacts(tools ringproof.Tools) string {
	if len(tools.Etcd) == 0 {
		return ""
	}
	return "etcd " + etcdText(tools)
}

// row is a cell's line: the name, then the figures in columns.
type row struct {
	cell    Cell
	name    string
	figures []string
}

func rowOf(c Cell, aside string) row {
	r := row{cell: c, name: label(c, aside)}
	if c.ran() {
		m := c.Measurements
		r.figures = []string{"gap " + secs(m.LongestGapSeconds), count(m.Acknowledged) + " acked", secs(&m.SimulatedSeconds)}
	}
	return r
}

func label(c Cell, aside string) string {
	return strings.TrimRight(plain(c.Name)+"  "+aside, " ")
}

// cells aligns the figures. When names and figures don't fit in the width,
// the figures get a line of their own: a name is never cut, as one pastes it.
func (t *terminal) cells(r Report) {
	rows := make([]row, 0, len(r.Cells))
	names, widths := 0, [3]int{}
	for _, c := range r.Cells {
		one := rowOf(c, r.aside(c))
		rows = append(rows, one)
		for i, f := range one.figures {
			names = max(names, width(one.name))
			widths[i] = max(widths[i], width(f))
		}
	}
	total := 4 + names + 2 + widths[0] + 2 + widths[1] + 2 + widths[2]
	wrap := t.style.Width > 0 && total > t.style.Width
	for _, r := range rows {
		t.cell(r, names, widths, wrap)
	}
	if len(rows) > 0 {
		t.line("")
	}
}

// unjudged prints what no cell was judged by: a pass says nothing of it.
func (t *terminal) unjudged(r Report) {
	for _, text := range r.unjudged() {
		t.paragraph("  not judged: ", "              ", plain(text))
	}
	if len(r.unjudged()) > 0 {
		t.line("")
	}
}

func (t *terminal) cell(r row, names int, widths [3]int, wrap bool) {
	shown := r.cell.shown()
	mark := "  " + t.paint(hue(shown), shown.mark()) + " "
	if r.figures == nil {
		t.line(mark + r.name)
		t.paragraph("      ", "      ", r.cell.outcome().String()+": "+plain(r.cell.reason()))
		return
	}
	var b strings.Builder
	for i, f := range r.figures {
		b.WriteString("  " + strings.Repeat(" ", widths[i]-width(f)) + f)
	}
	if wrap {
		t.line(mark + r.name)
		t.line("    " + t.paint(dim, b.String()))
		return
	}
	t.line(mark + pad(r.name, names) + t.paint(dim, b.String()))
}

// troubles prints a cell that did not pass, ending with the line to paste.
func (t *terminal) troubles(c Cell, aside string) {
	if !c.ran() || c.shown() == passed {
		return
	}
	shown := c.shown()
	t.line(t.paint(hue(shown), shown.mark()+" ") + t.paint(bold, label(c, aside)))
	troubles := c.troubles()
	if len(troubles) == 0 && c.Verdict != ringproof.Pass {
		t.line("  no check judged this cell")
	}
	for _, f := range troubles {
		t.finding(f)
	}
	t.attempts(c)
	if text := c.Measurements.stalled(); text != "" {
		t.line("  host: " + text)
	}
	t.phases(c)
	if c.Logs != "" {
		t.line("  logs: " + plain(c.Logs) + ", in the directory of the report")
	}
	if c.Replay != "" {
		t.line("  replay: " + plain(c.Replay))
	}
	if c.Trace != "" {
		t.line("  trace: " + plain(c.Trace))
	}
	t.line("")
}

func (t *terminal) attempts(c Cell) {
	for _, text := range c.attemptTexts() {
		t.paragraph("  ", "    ", text)
	}
}

// shortBudget is how many lines of the ledger a terminal shows: a run of many
// memberships would push its findings out of sight, and the page has them all.
const shortBudget = 8

// phases prints the phases and, when it is short, the ledger's timeline.
func (t *terminal) phases(c Cell) {
	if c.Phases != "" {
		t.paragraph("  phases: ", "          ", plain(c.Phases))
	}
	if n := len(c.Budget); n > shortBudget {
		t.line(fmt.Sprintf("  budget: %d entries, see %s", n, PageFile))
		return
	}
	for i, b := range c.Budget {
		head := "          "
		if i == 0 {
			head = "  budget: "
		}
		t.paragraph(head+fmt.Sprintf("%9.3fs  used %s  ", b.At.Seconds(), spent(b)), strings.Repeat(" ", 35), plain(b.What))
	}
}

func (t *terminal) finding(f ringproof.Finding) {
	head := "  " + t.paint(hue(judged(f.Verdict)), f.Verdict.String()) + "  " + t.paint(bold, plain(f.Check))
	t.line(head + t.paint(dim, atText(f)))
	t.paragraph("    ", "    ", plain(f.Message))
	for _, e := range few(f.Evidence) {
		t.line(t.paint(dim, "      │ ") + plain(e))
	}
	if f.Attached != "" {
		t.line("      see " + plain(f.Attached))
	}
}

func (t *terminal) comparison(g comparison) {
	t.line(t.paint(bold, "comparison") + "  " + plain(g.Name) + "  " + plain(g.World))
	table := [][]string{g.heads()}
	for _, c := range g.Cells {
		table = append(table, g.row(c))
	}
	widths := columnWidths(table)
	for i, cells := range table {
		var b strings.Builder
		for j, text := range cells {
			if j < 2 {
				b.WriteString("  " + pad(text, widths[j]))
				continue
			}
			b.WriteString("  " + strings.Repeat(" ", widths[j]-width(text)) + text)
		}
		if i == 0 {
			t.line(t.paint(dim, strings.TrimRight(b.String(), " ")))
			continue
		}
		t.line(b.String())
	}
	t.line("")
}

func columnWidths(table [][]string) []int {
	widths := make([]int, len(table[0]))
	for _, cells := range table {
		for i, text := range cells {
			widths[i] = max(widths[i], width(text))
		}
	}
	return widths
}

// paragraph wraps the text at the width: first stands before the first line,
// rest, which is as wide, before the others.
func (t *terminal) paragraph(first, rest, text string) {
	line, column := first, width(rest)
	for i, word := range strings.Fields(text) {
		if i > 0 && t.style.Width > 0 && column+1+width(word) > t.style.Width {
			t.line(line)
			line, column = rest, width(rest)
		} else if i > 0 {
			line, column = line+" ", column+1
		}
		line, column = line+word, column+width(word)
	}
	t.line(line)
}

func width(s string) int { return utf8.RuneCountInString(s) }

func pad(s string, to int) string { return s + strings.Repeat(" ", max(to-width(s), 0)) }
