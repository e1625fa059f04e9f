// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

func TestAnnotate(t *testing.T) {
	cell := func(name string, verdict ringproof.Verdict, message string) Cell {
		return Cell{Name: name, Verdict: verdict, Findings: []ringproof.Finding{{Check: "watch", Verdict: verdict, Message: message}}}
	}
	r := Report{Cells: []Cell{
		cell("lost[a=1,b=2]#1", ringproof.Fail, "expected 100% of the events\n::error::saw 3"),
		cell("unsure#1", ringproof.Inconclusive, "no watch"),
		cell("fine#1", ringproof.Pass, "all seen"),
		{Name: "far#1", NotApplicable: "no clock can be turned here"},
		{Name: "here#1", Skipped: "no user namespaces"},
		{Name: "other#1", Baseline: true, Verdict: ringproof.Fail},
	}}
	r.Cells[0].Replay = "ringproof replay p.yaml"
	var printed bytes.Buffer
	require.NoError(t, Annotate(&printed, r))
	require.Equal(t, `::error title=ringproof%3A lost[a=1%2Cb=2]#1::watch: expected 100%25 of the events ::error::saw 3%0Areplay: ringproof replay p.yaml
::warning title=ringproof%3A unsure#1::watch: no watch
::warning title=ringproof%3A here#1::skipped: no user namespaces
`, printed.String())
}

// TestAnnotateLeavesOutWhatGitHubWould: eleven failures don't hide a warning.
func TestAnnotateLeavesOutWhatGitHubWould(t *testing.T) {
	var r Report
	for i := range mostAnnotations + 1 {
		r.Cells = append(r.Cells, Cell{Name: fmt.Sprint(i), Verdict: ringproof.Fail})
	}
	r.Cells = append(r.Cells, Cell{Name: "unsure"})
	var printed bytes.Buffer
	require.NoError(t, Annotate(&printed, r))
	require.Equal(t, mostAnnotations, bytes.Count(printed.Bytes(), []byte("::error ")))
	require.Equal(t, 1, bytes.Count(printed.Bytes(), []byte("::warning ")))
}

func TestAppendSummary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary")
	require.NoError(t, os.WriteFile(file, []byte("of the step before\n"), 0o644))
	require.NoError(t, AppendSummary(file, Report{Cells: []Cell{{Name: "c", Verdict: ringproof.Pass}}}))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Regexp(t, `^of the step before\n## ringproof: pass`, string(text))
	require.Error(t, AppendSummary(t.TempDir(), Report{}))
}
