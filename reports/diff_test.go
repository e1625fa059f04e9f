// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

func TestDiff(t *testing.T) {
	failed := []ringproof.Finding{{Check: "available", Verdict: ringproof.Fail, Message: "expected an answer"}}
	cell := func(name string, v ringproof.Verdict, trace string) Cell {
		c := Cell{Name: name, Subject: "reference", World: "sim", Verdict: v, Trace: trace}
		if v == ringproof.Fail {
			c.Findings = failed
		}
		return c
	}
	skip := cell("skipped", ringproof.Inconclusive, "")
	skip.Skipped = "no namespaces"
	compared := cell("compared", ringproof.Fail, "1")
	compared.Baseline, compared.Subject = true, "reference+mutant"
	elsewhere := cell("as it was", ringproof.Fail, "1")
	elsewhere.World = "virtual"
	old := Report{Subject: "reference", Cells: []Cell{
		cell("as it was", ringproof.Pass, "1"), cell("worse", ringproof.Pass, "2"), cell("better", ringproof.Fail, "3"),
		cell("gone", ringproof.Pass, "4"), cell("retraced", ringproof.Pass, "5"), cell("skipped", ringproof.Pass, "6"),
		cell("doubted", ringproof.Fail, "7"), compared,
	}}
	now := Report{Subject: "reference@2", Cells: []Cell{
		cell("retraced", ringproof.Pass, "55"), cell("new", ringproof.Pass, "8"), cell("better", ringproof.Pass, "33"), elsewhere,
		cell("as it was", ringproof.Pass, "1"), cell("worse", ringproof.Fail, "22"), skip, cell("doubted", ringproof.Inconclusive, "7"), compared,
	}}
	for i := range now.Cells {
		if !now.Cells[i].Baseline {
			now.Cells[i].Subject = now.Subject
		}
	}
	got := [][4]string{}
	for _, d := range Diff(old, now) {
		got = append(got, [4]string{d.Change, d.Cell, d.Before + "→" + d.Now, d.Why})
	}
	assert.Equal(t, [][4]string{
		{Worse, "worse", "pass→fail", "available: expected an answer"},
		{Worse, "skipped", "pass→skipped", "no namespaces"},
		{Gone, "gone", "pass→", ""},
		{Better, "better", "fail→pass", ""},
		{Better, "doubted", "fail→inconclusive", ""},
		{New, "new", "→pass", ""},
		{New, "as it was", "→fail", "available: expected an answer"}, // in another world
		{Retraced, "retraced", "pass→pass", ""},
	}, got)
	assert.Equal(t, []Difference{}, Diff(now, now))
}

// TestAcross: two worlds contradict each other where one passes what the other fails, and nowhere else.
func TestAcross(t *testing.T) {
	cell := func(world, name string, v ringproof.Verdict) Cell {
		c := Cell{Name: name, Subject: "reference", World: world, Verdict: v, Trace: world}
		if v == ringproof.Fail {
			c.Findings = []ringproof.Finding{{Check: "available", Verdict: ringproof.Fail, Message: "in " + world}}
		}
		return c
	}
	lacking := cell("local", "lacking", ringproof.Inconclusive)
	lacking.NotApplicable = "only in virtual time"
	virtual := Report{Subject: "reference", Cells: []Cell{
		cell("virtual", "both pass", ringproof.Pass), cell("virtual", "both fail", ringproof.Fail), cell("virtual", "slow", ringproof.Fail),
		cell("virtual", "fails here", ringproof.Fail), cell("virtual", "fails there", ringproof.Pass), cell("virtual", "lacking", ringproof.Fail), cell("virtual", "here alone", ringproof.Fail),
	}}
	local := Report{Subject: "reference", Cells: []Cell{
		cell("local", "both pass", ringproof.Pass), cell("local", "both fail", ringproof.Fail), cell("local", "slow", ringproof.Inconclusive),
		cell("local", "fails here", ringproof.Pass), cell("local", "fails there", ringproof.Fail), lacking,
	}}
	all, both := Across(virtual, local)
	assert.Equal(t, 4, both)
	assert.Equal(t, []Difference{
		{Cell: "fails here", Subject: "reference", World: "virtual, local", Change: Contradicted, Before: "fail", Now: "pass", Why: "available: in virtual"},
		{Cell: "fails there", Subject: "reference", World: "virtual, local", Change: Contradicted, Before: "pass", Now: "fail", Why: "available: in local"},
	}, all)
}
