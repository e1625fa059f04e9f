// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"cmp"
	"fmt"
	"html"
	"strings"
)

// GitHub refuses a step summary above 1 MiB; this leaves room for the others
// of the same step.
const mostSummary = 900 << 10

// summary renders Markdown. A cell that would make it too long is left out,
// and the text says so.
func summary(r Report) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "## ringproof: %s\n\n", r.Verdict())
	fmt.Fprintf(&b, "%s\n\n", markdownFacts(r))
	for _, text := range r.unjudged() {
		fmt.Fprintf(&b, "> not judged: %s\n\n", markdown(text))
	}
	if r.Error != "" {
		fmt.Fprintf(&b, "> **error** %s\n\n", markdown(short(r.Error)))
	}
	left := writeWithin(&b, mostSummary/2, markdownHead, len(r.Cells), func(i int) string { return r.Cells[i].markdownRow(r.aside(r.Cells[i])) })
	left += writeWithin(&b, mostSummary*3/4, "", len(r.Cells), func(i int) string { return r.Cells[i].markdownTroubles(r.aside(r.Cells[i])) })
	groups := r.comparisons()
	left += writeWithin(&b, mostSummary, "", len(groups), func(i int) string { return groups[i].markdown() })
	if left > 0 {
		fmt.Fprintf(&b, "\n%d parts are left out to stay below GitHub's limit; all is in %s and %s.\n", left, ResultFile, PageFile)
	}
	return []byte(b.String()), nil
}

// writeWithin writes the head and the parts that fit, and returns how many
// didn't.
func writeWithin(b *strings.Builder, limit int, head string, n int, part func(int) string) (left int) {
	if n > 0 {
		b.WriteString(head)
	}
	for i := range n {
		text := part(i)
		if b.Len()+len(text) > limit {
			left++
			continue
		}
		b.WriteString(text)
	}
	return left
}

const markdownHead = "| | cell | world | longest gap | acknowledged | full strength | others restarted | time |\n" +
	"|---|---|---|--:|--:|--:|--:|--:|\n"

func markdownFacts(r Report) string {
	facts := []string{"**" + r.Counts().String() + "**"}
	for _, f := range [][2]string{{"subject", r.Subject}, {"world", r.World}, {"etcd", etcdText(r.Tools)}, {"started", r.started()}} {
		if f[1] != "" {
			facts = append(facts, f[0]+" "+markdown(f[1]))
		}
	}
	return strings.Join(facts, " · ")
}

func (c Cell) markdownRow(aside string) string {
	name := strings.TrimRight(markdownCode(c.Name)+" "+markdown(aside), " ")
	if !c.ran() {
		return fmt.Sprintf("| %s | %s %s: %s | %s | | | | | |\n", c.shown().mark(), name, c.outcome(), markdown(short(c.reason())), markdown(c.World))
	}
	m := c.Measurements
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", c.shown().mark(), name, markdown(c.World),
		secs(m.LongestGapSeconds), count(m.Acknowledged), secs(m.FullStrengthSeconds), count(m.OthersRestarted), secs(&m.SimulatedSeconds))
}

func (c Cell) markdownTroubles(aside string) string {
	troubles := c.troubles()
	if len(troubles)+len(c.Attempts) == 0 || !c.ran() {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n<details%s><summary>%s <code>%s</code> %s</summary>\n\n", openIf(c.outcome() == failed), c.shown().mark(),
		html.EscapeString(plain(c.Name)), html.EscapeString(aside))
	for _, f := range troubles {
		fmt.Fprintf(&b, "- **%s** %s%s: %s\n", f.Verdict, markdownCode(f.Check), atText(f), markdown(short(f.Message)))
		if len(f.Evidence) > 0 {
			fmt.Fprintf(&b, "\n  <pre>%s</pre>\n\n", strings.ReplaceAll(html.EscapeString(lines(strings.Join(few(f.Evidence), "\n"))), "\n", "&#10;"))
		}
	}
	for _, text := range c.attemptTexts() {
		fmt.Fprintf(&b, "- %s\n", markdown(short(text)))
	}
	if c.Replay != "" {
		fmt.Fprintf(&b, "\n<pre>replay: %s</pre>\n", html.EscapeString(plain(c.Replay)))
	}
	b.WriteString("</details>\n")
	return b.String()
}

func openIf(open bool) string {
	if open {
		return " open"
	}
	return ""
}

func (g comparison) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### Comparison: %s (%s)\n\n", markdownCode(g.Name), markdown(g.World))
	fmt.Fprintf(&b, "| %s |\n|---|---|%s\n", strings.Join(g.heads(), " | "), strings.Repeat("--:|", len(g.heads())-2))
	for _, c := range g.Cells {
		row := g.row(c)
		row[0] = markdown(row[0])
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}

// markdown escapes a text so that it shows as it is, inside a table too.
func markdown(s string) string {
	var b strings.Builder
	for _, r := range plain(s) {
		if strings.ContainsRune("\\`*_{}[]<>#|~$!&@", r) {
			fmt.Fprintf(&b, "&#%d;", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func markdownCode(s string) string {
	return "<code>" + markdown(s) + "</code>"
}

const mostLines, mostRunes = 40, 4000

// few cuts a long list of evidence: the report has all of it.
func few(evidence []string) []string {
	if len(evidence) <= mostLines {
		return evidence
	}
	return append(evidence[:mostLines:mostLines], fmt.Sprintf("… %d more lines", len(evidence)-mostLines))
}

func short(s string) string {
	runes := []rune(s)
	if len(runes) <= mostRunes {
		return cmp.Or(s, "–")
	}
	return string(runes[:mostRunes]) + "…"
}
