// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// TestCoverage counts a cell in each pair of what it tried, and none that wasn't run or
// ran as a baseline of another.
func TestCoverage(t *testing.T) {
	cell := func(verdict ringproof.Verdict, operations, faults []string) Cell {
		return Cell{Verdict: verdict, Operations: operations, Faults: faults}
	}
	apart := cell(ringproof.Fail, []string{"roll"}, nil)
	apart.Baseline = true
	c := Report{Cells: []Cell{
		cell(ringproof.Pass, []string{"scale", "replace"}, []string{"kill"}),
		cell(ringproof.Fail, []string{"scale"}, []string{"kill", "disk-full"}),
		cell(ringproof.Inconclusive, nil, []string{"kill"}),
		cell(ringproof.Pass, nil, nil),
		{NotApplicable: "no clocks", Operations: []string{"reset"}},
		apart,
	}}.coverage()
	require.Equal(t, []string{"", "replace", "scale"}, c.Operations)
	require.Equal(t, []string{"", "disk-full", "kill"}, c.Faults)
	require.Equal(t, "1 of 2", c.At("scale", "kill").String())
	require.Equal(t, failed, c.At("scale", "kill").outcome())
	require.Equal(t, "1", c.At("replace", "kill").String())
	require.Equal(t, inconclusive, c.At("", "kill").outcome())
	require.Equal(t, passed, c.At("", "").outcome())
	require.Nil(t, c.At("replace", "disk-full"))
}

// TestTried: an operation counts when it was asked for, and a fault where it landed.
func TestTried(t *testing.T) {
	h := &ringproof.History{Plan: ringproof.Plan{Steps: []ringproof.Step{
		{Name: "grow", Op: &ringproof.Op{Kind: ringproof.OpScale}},
		{Name: "never", Op: &ringproof.Op{Kind: ringproof.OpReset}},
		{Name: "lose", Fault: &ringproof.Fault{Kind: ringproof.FaultMachineLoss}},
	}}, Events: []ringproof.Event{
		{Kind: ringproof.EventStepBegun, Step: "grow"},
		{Kind: ringproof.EventStepBegun, Step: "lose"},
		{Kind: ringproof.EventFaultLanded, Step: "lose", Fault: ringproof.FaultKill}, // downgraded
		{Kind: ringproof.EventFaultLanded, Step: "lose", Fault: ringproof.FaultKill},
	}}
	operations, faults := tried(h)
	require.Equal(t, []string{"scale"}, operations)
	require.Equal(t, []string{"kill"}, faults)
}

func TestGrouped(t *testing.T) {
	cell := func(scenario string, verdict ringproof.Verdict, baseline bool) cellView {
		return cellView{Cell: Cell{Scenario: scenario, Verdict: verdict, Baseline: baseline}}
	}
	groups := grouped([]cellView{cell("a", ringproof.Pass, false), cell("a", ringproof.Fail, true), cell("b", ringproof.Pass, false), cell("b", ringproof.Fail, false),
		{Cell: Cell{Scenario: "c", Skipped: "no namespaces"}}})
	require.Len(t, groups, 3)
	for i, want := range []string{"1 pass", "1 of 2 pass", "none ran"} {
		require.Equal(t, want, groups[i].Summary())
	}
	require.Equal(t, "fail", groups[1].Tone())
}
