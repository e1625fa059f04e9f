// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"fmt"
	"slices"

	"github.com/ringproof/ringproof"
)

// coverage is which operations were tried under which faults, and what came of it. Of
// either, "" stands for cells without any.
type coverage struct {
	Operations []string
	Faults     []string
	tallies    map[[2]string]*tally // by operation and fault
}

// tally counts the cells of one kind by their outcome.
type tally struct{ Passed, Failed, Other int }

func (t *tally) add(o outcome) {
	switch o {
	case passed:
		t.Passed++
	case failed:
		t.Failed++
	default:
		t.Other++
	}
}

func (t tally) sum() int { return t.Passed + t.Failed + t.Other }

// String prints "12", or "10 of 12" when two didn't pass.
func (t tally) String() string {
	if t.Passed == t.sum() {
		return fmt.Sprint(t.Passed)
	}
	return fmt.Sprintf("%d of %d", t.Passed, t.sum())
}

// outcome is the worst of the cells'.
func (t tally) outcome() outcome {
	switch {
	case t.Failed > 0:
		return failed
	case t.Other > 0:
		return inconclusive
	}
	return passed
}

// coverage counts each cell that ran once for each pair of what it tried.
func (r Report) coverage() coverage {
	c := coverage{tallies: map[[2]string]*tally{}}
	for _, cell := range r.Cells {
		if !cell.ran() || cell.Baseline {
			continue
		}
		for _, op := range orNone(cell.Operations) {
			for _, fault := range orNone(cell.Faults) {
				key := [2]string{op, fault}
				if c.tallies[key] == nil {
					c.tallies[key] = &tally{}
				}
				c.tallies[key].add(cell.outcome())
				c.Operations, c.Faults = insert(c.Operations, op), insert(c.Faults, fault)
			}
		}
	}
	return c
}

// At returns what came of the operation under the fault; nil: nobody tried.
func (c coverage) At(op, fault string) *tally { return c.tallies[[2]string{op, fault}] }

func orNone(kinds []string) []string {
	if len(kinds) == 0 {
		return []string{""}
	}
	return kinds
}

// insert keeps the kinds sorted, and each once.
func insert(kinds []string, kind string) []string {
	i, there := slices.BinarySearch(kinds, kind)
	if there {
		return kinds
	}
	return slices.Insert(kinds, i, kind)
}

// tried lists the kinds of operations that were asked for in the run, and of faults that
// landed in it.
func tried(h *ringproof.History) (operations, faults []string) {
	kinds := map[string]string{} // of operations, by step
	for _, s := range h.Plan.Steps {
		if s.Op != nil {
			kinds[s.Name] = string(s.Op.Kind)
		}
	}
	for _, e := range h.Events {
		switch kind := kinds[e.Step]; {
		case e.Kind == ringproof.EventStepBegun && kind != "":
			operations = insert(operations, kind)
		case e.Kind == ringproof.EventFaultLanded:
			faults = insert(faults, string(e.Fault))
		}
	}
	return operations, faults
}

// group is a scenario's cells.
type group struct {
	Scenario string
	Cells    []cellView
	tally    tally
}

// Summary prints "12 pass", or "10 of 12 pass".
func (g group) Summary() string {
	if g.tally.sum() == 0 {
		return "none ran"
	}
	return g.tally.String() + " pass"
}

func (g group) Tone() string { return tone(g.tally.outcome()) }

// grouped puts the cells of a scenario that follow each other together.
func grouped(cells []cellView) (all []*group) {
	for _, c := range cells {
		if len(all) == 0 || all[len(all)-1].Scenario != c.Scenario {
			all = append(all, &group{Scenario: c.Scenario})
		}
		last := all[len(all)-1]
		last.Cells = append(last.Cells, c)
		if !c.Baseline && c.ran() {
			last.tally.add(c.outcome())
		}
	}
	return all
}
