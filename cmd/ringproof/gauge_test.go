// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/suite"
	"github.com/ringproof/ringproof/reports"
)

// TestGauge plays rounds of cells that came to what is written, and wants each
// mutant judged by its own check.
func TestGauge(t *testing.T) {
	fail := func(check string) ringproof.Finding { return ringproof.Finding{Check: check, Verdict: ringproof.Fail} }
	cell := func(v ringproof.Verdict, findings ...ringproof.Finding) reports.Cell {
		return reports.Cell{Name: "c", Subject: "reference+m", Verdict: v, Findings: findings, Replay: "ringproof replay p"}
	}
	for name, c := range map[string]struct {
		cells []reports.Cell
		jobs  int
		want  string
		ran   int
	}{
		"caught at once, and the second cell spared": {[]reports.Cell{cell(ringproof.Fail, fail("converges"), fail("mine"))}, 2, caught, 1},
		"caught in the second cell":                  {[]reports.Cell{cell(ringproof.Pass), cell(ringproof.Fail, fail("mine"))}, 2, caught, 2},
		"failed by another check only":               {[]reports.Cell{cell(ringproof.Fail, fail("converges"))}, 1, mistaken, 1},
		"passed everywhere":                          {[]reports.Cell{cell(ringproof.Pass), cell(ringproof.Pass)}, 2, escaped, 2},
		"not judged once":                            {[]reports.Cell{cell(ringproof.Inconclusive), cell(ringproof.Pass)}, 2, unjudged, 2},
		"interrupted":                                {nil, 1, unjudged, 0},
	} {
		t.Run(name, func(t *testing.T) {
			catches := []catch{{Mutant: "m", Check: "mine", jobs: make([]suite.Job, c.jobs)}, {Mutant: "other", Check: "converges"}}
			for _, cell := range c.cells {
				assert.Len(t, next(catches), 1)
				credit(catches, cell)
			}
			if len(c.cells) == c.jobs || c.want == caught {
				assert.Empty(t, next(catches))
			}
			catches[0].judge()
			assert.Equal(t, c.want, catches[0].Verdict)
			assert.Len(t, catches[0].Cells, c.ran)
			assert.Empty(t, catches[1].CaughtBy)
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
