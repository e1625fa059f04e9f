// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/ringproof/ringproof"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"secs": secs, "count": count, "plain": plain, "href": href, "at": atText, "when": ringproof.Step.When, "what": ringproof.Step.String, "spent": spent,
}).Parse(pageText))

// pageView is what the page's template sees.
type pageView struct {
	Report
	Policy      string // the page's content security policy
	Style       template.CSS
	Script      template.JS
	Outcome     outcome
	Hypothesis  string // when every cell has the same
	Cells       []cellView
	Groups      []*group // of the cells, by scenario
	Coverage    coverage
	Comparisons []comparison
}

type cellView struct {
	Cell
	ID       string
	Aside    string
	Open     bool
	Timeline template.JS // "" without a history
	Plan     *planView
}

// planView is the plan as the page shows it.
type planView struct {
	ringproof.Plan
	Text string // the whole plan as JSON
}

// page renders the one file that a person opens. Its policy allows what the
// page itself carries, by hash, and no request at all.
func page(r Report) ([]byte, error) {
	view := pageView{
		Report: r, Policy: policy(), Style: template.CSS(pageStyle), Script: template.JS(pageScript),
		Outcome: judged(r.Verdict()), Hypothesis: r.hypothesis(), Comparisons: r.comparisons(), Coverage: r.coverage(),
	}
	open := r.firstToOpen()
	for i, c := range r.Cells {
		cell, err := cellView{Cell: c, ID: fmt.Sprintf("cell-%d", i+1), Aside: r.aside(c), Open: i == open}.drawn()
		if err != nil {
			return nil, fmt.Errorf("drawing cell %s: %w", c.Name, err)
		}
		view.Cells = append(view.Cells, cell)
	}
	view.Groups = grouped(view.Cells)
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, view)
	return out.Bytes(), err
}

func policy() string {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; base-uri 'none'; form-action 'none'; style-src " + hash(pageStyle) + "; script-src " + hash(pageScript)
}

// firstToOpen picks the cell that a reader came for: the first that failed,
// else the first that is inconclusive, else the first that ran.
func (r Report) firstToOpen() int {
	for _, want := range []outcome{failed, flaky, inconclusive, passed} {
		for i, c := range r.Cells {
			if c.outcome() == want {
				return i
			}
		}
	}
	return -1
}

// hypothesis is the one that all cells share, or "".
func (r Report) hypothesis() string {
	shared := ""
	for _, c := range r.Cells {
		if c.Hypothesis == "" {
			continue
		}
		if shared != "" && c.Hypothesis != shared {
			return ""
		}
		shared = c.Hypothesis
	}
	return shared
}

// drawn adds what the history shows.
func (view cellView) drawn() (cellView, error) {
	c := view.Cell
	if c.History == nil {
		return view, nil
	}
	// Marshal writes <, > and & as \u003c and so on: no text in the
	// history can end the script element that holds it.
	picture, err := json.Marshal(timelineOf(c.History, c.Findings))
	if err != nil {
		return view, err
	}
	whole, err := json.MarshalIndent(c.History.Plan, "", "  ")
	view.Timeline = template.JS(picture)
	view.Plan = &planView{Plan: c.History.Plan, Text: string(whole)}
	return view, err
}

// href makes a link of a file's path: # and ? are parts of cell names.
func href(path string) string {
	return (&url.URL{Path: filepath.ToSlash(path)}).String()
}

// What the template asks of a cell.

func (c cellView) Mark() string   { return c.shown().mark() }
func (c cellView) Tone() string   { return tone(c.shown()) }
func (c cellView) Word() string   { return c.outcome().String() }
func (c cellView) Ran() bool      { return c.ran() }
func (c cellView) Reason() string { return c.reason() }

// Troubles and Passes part the findings: what passed is listed by name only.
func (c cellView) Troubles() []ringproof.Finding { return c.troubles() }

func (c cellView) Passes() []ringproof.Finding {
	var found []ringproof.Finding
	for _, f := range c.Findings {
		if f.Verdict == ringproof.Pass {
			found = append(found, f)
		}
	}
	return found
}

// Attempted tells of each attempt.
func (c cellView) Attempted() []string { return c.attemptTexts() }

func (c cellView) Figures() [][3]string { return c.Measurements.figures() }

func (v pageView) Mark() string    { return v.Outcome.mark() }
func (v pageView) Tone() string    { return tone(v.Outcome) }
func (v pageView) Totals() string  { return v.Counts().String() }
func (v pageView) Stalled() string { return v.Report.stalled() }
func (v pageView) Begun() string   { return v.started() }

func (g comparison) Heads() []string     { return g.heads() }
func (g comparison) Row(c Cell) []string { return g.row(c) }
func (g comparison) Tone(c Cell) string  { return tone(judged(c.Verdict)) }

func (t tally) Tone() string { return tone(t.outcome()) }

// tone is the outcome as a class of the style sheet.
func tone(o outcome) string { return strings.ReplaceAll(o.String(), " ", "-") }

// Facts are what a plan starts from, in a reader's words.
func (p planView) Facts() [][2]string {
	ring, load := p.Ring, p.Workload
	facts := [][2]string{
		{"ring", fmt.Sprintf("%s on %s, etcd %s, %s", ringproof.Counted(ring.Size, "voter"), ringproof.Counted(ring.Machines, "machine"), ring.Version, ring.Security)},
		{"workload", fmt.Sprintf("%s: %s, %s, %g operations a second", load.Profile, ringproof.Counted(load.Clients, "client"), ringproof.Counted(load.Keys, "key"), load.Rate)},
		{"assumes", fmt.Sprintf("at least %d acknowledged operations", p.Assumptions.MinAcked)},
		{"invariants", invariantText(p.Invariants)},
	}
	if p.Assumptions.FaultsFired {
		facts[2][1] += ", every fault landed"
	}
	if p.Assumptions.StepsTried {
		facts[2][1] += ", every operation was tried"
	}
	return facts
}

func invariantText(all []ringproof.Invariant) string {
	texts := make([]string, 0, len(all))
	for _, i := range all {
		text := i.Check
		for _, name := range sortedNames(i.Params) {
			text += " " + name + "=" + i.Params[name]
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
