// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/suite"
	"github.com/ringproof/ringproof/reports"
)

// TestGauge plays rounds of cells that came to what is written, and wants each
// trial judged by its own check.
func TestGauge(t *testing.T) {
	fail := func(check string) ringproof.Finding { return ringproof.Finding{Check: check, Verdict: ringproof.Fail} }
	failed := func(checks ...string) reports.Cell {
		c := reports.Cell{Verdict: ringproof.Fail}
		for _, name := range checks {
			c.Findings = append(c.Findings, fail(name))
		}
		return c
	}
	passed, unsure := reports.Cell{Verdict: ringproof.Pass}, reports.Cell{}
	for name, c := range map[string]struct {
		kind  string
		jobs  int
		cells []reports.Cell // that come to be run
		want  string
	}{
		"caught at once, and the second cell spared": {mutant, 2, []reports.Cell{failed("converges", "mine")}, caught},
		"caught in the second cell":                  {affected, 2, []reports.Cell{passed, failed("mine")}, caught},
		"failed by another check only":               {mutant, 1, []reports.Cell{failed("converges")}, mistaken},
		"passed everywhere":                          {mutant, 2, []reports.Cell{passed, passed}, escaped},
		"not judged once":                            {mutant, 2, []reports.Cell{unsure, passed}, unjudged},
		"not run at all":                             {mutant, 0, nil, unjudged},
		"a mended release passes everywhere":         {fixed, 2, []reports.Cell{passed, passed}, spared},
		"a mended release fails, by whatever check":  {fixed, 2, []reports.Cell{failed("converges")}, accused},
		"a mended release is not judged once":        {fixed, 2, []reports.Cell{passed, unsure}, unjudged},
	} {
		t.Run(name, func(t *testing.T) {
			jobs := make([]suite.Job, c.jobs)
			for i := range jobs {
				jobs[i].Plan.Cell, jobs[i].Plan.Subject = string(rune('a'+i)), "reference+m"
			}
			trials := []trial{newTrial("m", c.kind, "mine", jobs), newTrial("other", mutant, "converges", nil)}
			for _, cell := range c.cells {
				due := next(trials)
				require.Len(t, due, 1)
				cell.Name, cell.Subject = due[0].Plan.Cell, due[0].Plan.Subject
				credit(trials, cell)
			}
			assert.Empty(t, next(trials))
			trials[0].judge()
			assert.Equal(t, c.want, trials[0].Verdict)
			assert.Len(t, trials[0].Cells, len(c.cells))
			assert.Empty(t, trials[1].CaughtBy)
		})
	}
}

func TestNearest(t *testing.T) {
	words := []string{"volume-loss", "machine-loss", "kill"}
	for word, want := range map[string]string{"volume-los": "volume-loss", "Kill": "kill", "kil": "kill", "xyzzy": ""} {
		got, ok := nearest(word, words)
		assert.Equal(t, want, got)
		assert.Equal(t, want != "", ok)
	}
}

func TestSentences(t *testing.T) {
	none := 0
	for want, step := range map[string]ringproof.Step{
		"cut the power of all, for 2s, ended one by one, 3s apart": {Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Target: "all", Scope: "machine", For: ringproof.Duration(2e9), Stagger: ringproof.Duration(3e9)}},
		"kill etcd on leader":                            {Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Target: "leader", Scope: "process"}},
		"fail every store call of all, for 8s":           {Fault: &ringproof.Fault{Kind: ringproof.FaultStoreOutage, For: ringproof.Duration(8e9)}},
		"keep the others from hearing leader":            {Fault: &ringproof.Fault{Kind: ringproof.FaultPartition, Target: "leader", Shape: "one-way"}},
		"crash the agent with the reply lost of promote": {Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Action: "promote", Phase: "reply-lost"}},
		"1s after a member stopped answering (step dark), ask for 4 voters, which must be refused": {
			After: &ringproof.Trigger{Event: ringproof.EventMemberDown, Step: "dark", Delay: ringproof.Duration(1e9)}, Op: &ringproof.Op{Kind: ringproof.OpScale, To: 4, Refused: true}},
		"at the end of grow and crash, expect within 1m 1 voter, 0 learners, equal data everywhere": {
			Join: []string{"grow", "crash"}, Assert: &ringproof.Assert{Within: ringproof.Duration(60e9), Voters: 1, Learners: &none, HashKV: "equal"}},
	} {
		assert.Equal(t, want, sentence(step))
	}
}
