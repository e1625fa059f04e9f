// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reports"
)

// came is a cell that came to a verdict by one check.
func came(v ringproof.Verdict, check string) reports.Cell {
	return reports.Cell{Verdict: v, HistoryFile: check, Findings: []ringproof.Finding{{Check: check, Verdict: v, Message: "it was " + v.String()}}}
}

func TestWhatAttemptsComeTo(t *testing.T) {
	pass, unsure := came(ringproof.Pass, "converges"), came(ringproof.Inconclusive, "assumptions")
	late, lost := came(ringproof.Fail, "available"), came(ringproof.Fail, "acknowledged-writes-survive")
	const more = true
	for _, c := range []struct {
		why   string
		tried []reports.Cell
		want  ringproof.Verdict
		told  int
		more  bool
	}{
		{"a pass needs no other", []reports.Cell{pass}, ringproof.Pass, 0, !more},
		{"a lost write needs no time to be lost", []reports.Cell{lost}, ringproof.Fail, 0, !more},
		{"a slow host may have failed it", []reports.Cell{late}, ringproof.Fail, 0, more},
		{"twice in two is no host", []reports.Cell{late, late}, ringproof.Fail, 0, !more},
		{"a pass doesn't clear what failed", []reports.Cell{late, pass}, ringproof.Inconclusive, 0, more},
		{"the third shows that it was real", []reports.Cell{late, pass, late}, ringproof.Fail, 0, !more},
		{"the third shows that it was worse", []reports.Cell{late, pass, lost}, ringproof.Fail, 2, !more},
		{"nobody could tell it apart from the host", []reports.Cell{late, pass, pass}, ringproof.Inconclusive, 0, !more},
		{"what could not be judged contradicts no pass", []reports.Cell{unsure, pass}, ringproof.Pass, 1, !more},
		{"never judged is never a pass", []reports.Cell{unsure, unsure, unsure}, ringproof.Inconclusive, 2, !more},
		{"one more may judge it", []reports.Cell{unsure, unsure}, ringproof.Inconclusive, 1, more},
		{"failed once, judged once", []reports.Cell{unsure, late, unsure}, ringproof.Inconclusive, 1, !more},
	} {
		t.Run(c.why, func(t *testing.T) {
			got := settled(c.tried)
			assert.Equal(t, c.want, got.Verdict)
			assert.Equal(t, c.more, undecided(c.tried, 3))
			assert.False(t, undecided(c.tried, len(c.tried)), "never more than asked for")
			var said []ringproof.Verdict
			for _, f := range got.Findings {
				said = append(said, f.Verdict)
			}
			assert.Equal(t, c.want, ringproof.Merge(said...), "the findings come to the cell's verdict")
			assert.Equal(t, c.tried[c.told].HistoryFile, got.HistoryFile)
			if len(c.tried) == 1 {
				assert.Empty(t, got.Attempts)
				return
			}
			require.Len(t, got.Attempts, len(c.tried))
			for i, a := range got.Attempts {
				assert.Equal(t, c.tried[i].Verdict, a.Verdict, "each as it was")
				assert.Equal(t, i == c.told, a.Decides)
			}
		})
	}
}

// TestWhatDoesNotPassIsRunAgain alone, after the rest, and its files are kept beside.
func TestWhatDoesNotPassIsRunAgain(t *testing.T) {
	out, runs := t.TempDir(), map[string]int{}
	var order []string
	baseline := job("e#7")
	baseline.Baseline = true
	stale := filepath.Join(out, "cells/c_7/attempt-2")
	require.NoError(t, os.MkdirAll(stale, 0o755))
	cells := playSuite(t, Suite{
		Jobs: append(jobs("a#7", "b#7", "c#7", "d#7"), baseline), Out: out, Attempts: 3,
		World: func(p ringproof.Plan) (ringproof.World, error) {
			runs[p.Scenario]++
			order = append(order, p.Scenario)
			first := runs[p.Scenario] == 1
			w := &still{began: time.Now(), late: p.Scenario == "a" && first || p.Scenario == "d" || p.Scenario == "e"}
			if p.Scenario == "b" && first {
				w.refuse = errors.New("no bridge")
			}
			return w, nil
		},
		Replay: func(file string, _ ringproof.Plan) string { return "replay " + file },
	})
	assert.Equal(t, map[string]int{"a": 3, "b": 2, "c": 1, "d": 2, "e": 1}, runs)
	assert.Equal(t, []string{"a", "b", "c", "d", "e", "a", "a", "b", "d"}, order)

	assert.Equal(t, ringproof.Inconclusive, cells[0].Verdict)
	assert.Contains(t, cells[0].Findings[len(cells[0].Findings)-1].Message, "so it was in one attempt of 3")
	assert.Equal(t, ringproof.Pass, cells[1].Verdict)
	assert.Equal(t, filepath.Join("cells/b_7/attempt-2", "history.jsonl"), cells[1].HistoryFile)
	assert.Equal(t, "replay "+filepath.Join(out, "cells/b_7/attempt-2/plan.yaml"), cells[1].Replay)
	assert.Empty(t, cells[2].Attempts)
	assert.NoDirExists(t, stale, "of an earlier run")
	assert.Equal(t, ringproof.Fail, cells[3].Verdict)
	assert.Empty(t, cells[4].Attempts, "what counts for nothing is not run again")
	for _, c := range []int{0, 1, 3} {
		for _, a := range cells[c].Attempts {
			assert.FileExists(t, filepath.Join(out, a.PlanFile))
		}
	}

	report := reports.Report{Cells: cells}
	assert.Equal(t, "5 cells: 1 pass, 1 fail, 0 inconclusive, 0 not applicable, 2 flaky, 1 baseline", report.Counts().String())
	assert.Equal(t, ringproof.Inconclusive, reports.Report{Cells: cells[:3]}.Verdict(), "one failed, and nobody knows why")
	assert.Equal(t, ringproof.Pass, reports.Report{Cells: cells[1:3]}.Verdict(), "one was not judged, and then it was")
}
