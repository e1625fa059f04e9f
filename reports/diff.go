// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"cmp"
	"fmt"
	"slices"
)

// What became of a cell from one report to the next.
const (
	Worse    = "worse"    // it failed less, or could be judged before
	Gone     = "gone"     // it is in the old report alone
	Better   = "better"   // it passes more than before
	New      = "new"      // it is in the new report alone
	Retraced = "retraced" // it came to the same by another run: the traces differ

	Contradicted = "contradicted" // one world passes what the other fails
)

// changes are all kinds of differences, those first that need a look.
var changes = []string{Worse, Gone, Better, New, Retraced}

// Difference is a cell of which two reports tell otherwise.
type Difference struct {
	Cell    string `json:"cell"`
	Subject string `json:"subject"`
	World   string `json:"world"`
	Change  string `json:"change"`        // Worse, Gone, Better, New or Retraced
	Before  string `json:"before"`        // the outcome in the old report: pass, fail, inconclusive, …; "": it isn't in it
	Now     string `json:"now"`           // the outcome in the new one
	Why     string `json:"why,omitempty"` // the first finding of now that is no pass, or why it did not run
}

// Diff compares two reports cell by cell. A cell is the same in both by its name and its
// world, and by its subject unless it is the report's. The order is that of the kinds, then the new report's, then the
// old one's.
func Diff(old, now Report) []Difference {
	before := map[[3]string]Cell{}
	for _, c := range old.Cells {
		before[old.identity(c)] = c
	}
	all := []Difference{}
	for _, c := range now.Cells {
		was, known := before[now.identity(c)]
		delete(before, now.identity(c))
		if d := differ(was, c, known); d.Change != "" {
			all = append(all, d)
		}
	}
	for _, c := range old.Cells {
		if _, gone := before[old.identity(c)]; gone {
			all = append(all, Difference{Cell: c.Name, Subject: c.Subject, World: c.World, Change: Gone, Before: c.shown().String()})
		}
	}
	slices.SortStableFunc(all, func(a, b Difference) int {
		return cmp.Compare(slices.Index(changes, a.Change), slices.Index(changes, b.Change))
	})
	return all
}

// Across compares reports of two worlds: it tells of the cells that one passes and the other fails, and
// how many were judged in both. One that either world can't have, or couldn't tell, contradicts nothing.
func Across(one, other Report) (all []Difference, both int) {
	known := map[[2]string]Cell{}
	identity := func(r Report, c Cell) [2]string {
		id := r.identity(c)
		return [2]string(id[:2])
	}
	for _, c := range one.Cells {
		known[identity(one, c)] = c
	}
	all = []Difference{}
	for _, c := range other.Cells {
		was, is := known[identity(other, c)]
		if !is || !was.decided() || !c.decided() {
			continue
		}
		both++
		if (was.shown() == failed) == (c.shown() == failed) {
			continue
		}
		fails := c
		if was.shown() == failed {
			fails = was
		}
		all = append(all, Difference{Cell: c.Name, Subject: c.Subject, World: was.World + ", " + c.World, Change: Contradicted, Before: was.shown().String(), Now: c.shown().String(), Why: fails.why()})
	}
	return all, both
}

// decided reports whether the cell was judged to pass or to fail.
func (c Cell) decided() bool { return slices.Contains([]outcome{passed, failed, flaky}, c.shown()) }

// identity is what a cell is known by. Who is on trial may have another name by now.
func (r Report) identity(c Cell) [3]string {
	subject := c.Subject
	if subject == r.Subject {
		subject = ""
	}
	return [3]string{c.Name, subject, c.World}
}

// differ says how the cell of now differs from what it was; nothing: it doesn't.
func differ(was, now Cell, known bool) Difference {
	d := Difference{Cell: now.Name, Subject: now.Subject, World: now.World, Now: now.shown().String(), Why: now.why()}
	if !known {
		d.Change = New
		return d
	}
	d.Before = was.shown().String()
	switch rank := cmp.Compare(now.shown().rank(), was.shown().rank()); {
	case rank < 0:
		d.Change = Worse
	case rank > 0:
		d.Change = Better
	case was.Trace != now.Trace:
		d.Change = Retraced
	}
	return d
}

// rank orders outcomes, the worst first. A cell that did not run is worse than one that
// passed, and no better than one that failed.
func (o outcome) rank() int {
	return slices.Index([]outcome{failed, inconclusive, skipped, notApplicable, flaky, passed}, o)
}

// why is what keeps the cell from a pass; "": nothing does.
func (c Cell) why() string {
	if reason := c.reason(); reason != "" {
		return plain(reason)
	}
	for _, f := range c.troubles() {
		return fmt.Sprintf("%s: %s", f.Check, plain(f.Message))
	}
	return ""
}
