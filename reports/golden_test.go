// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// golden compares a text with its file under testdata. With RINGPROOF_GOLDEN=1
// it writes the file: read the diff, and keep it only if you know what made it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("RINGPROOF_GOLDEN") == "1" {
		require.NoError(t, os.WriteFile(path, got, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "RINGPROOF_GOLDEN=1 go test ./reports writes it")
	require.Equal(t, string(want), string(got), "%s: RINGPROOF_GOLDEN=1 go test ./reports rewrites it; read the diff", path)
}

func TestTerminalTexts(t *testing.T) {
	for name, style := range map[string]Style{"terminal.txt": {}, "terminal-80.txt": {Width: 80}, "terminal-colour.txt": {Color: true, Width: 120}} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, Terminal(&out, growReport(), style))
			golden(t, name, out.Bytes())
		})
	}
}

func TestTerminalTextOfCellsThatDoNotCount(t *testing.T) {
	r := growReport()
	r.Cells[1].Baseline = true
	r.Cells[2] = Cell{Name: "create[etcd=v3.6.16]#7", Subject: "reference", World: "local", Skipped: "interrupted"}
	var out bytes.Buffer
	require.NoError(t, Terminal(&out, r, Style{Width: 100}))
	golden(t, "terminal-baseline.txt", out.Bytes())
}

func TestTerminalSaysWhyTheRunCouldNotBeMade(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Terminal(&out, Report{Error: "building etcd v3.6.16: no network\nand no cache"}, Style{}))
	require.Equal(t, "ringproof\n\nerror: building etcd v3.6.16: no network and no cache\n\n"+
		"verdict: inconclusive  0 cells: 0 pass, 0 fail, 0 inconclusive, 0 not applicable\n", out.String())
}

func TestFilesOfAReport(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Write(dir, growReport()))
	for _, name := range []string{ResultFile, JUnitFile, SummaryFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		golden(t, name, text)
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 4, "no temporary file is left behind")
}

// flakyReport has two cells whose attempts disagree, on a host that stalled.
func flakyReport() Report {
	r := growReport()
	h := referenceStory("reference", 7)
	h.Evidence.Starved = ringproof.Starved{
		{Span: ringproof.Span{From: instant(8), To: instant(8.5)}, Lost: ringproof.Duration(400 * time.Millisecond)},
		{Span: ringproof.Span{From: instant(8.5), To: instant(9)}, Lost: ringproof.Duration(300 * time.Millisecond)},
		{Span: ringproof.Span{From: instant(20), To: instant(20.5)}, Lost: ringproof.Duration(100 * time.Millisecond)},
	}
	h.Evidence.Pressure = ringproof.Pressure{"cpu": ringproof.Duration(12 * time.Second), "io": ringproof.Duration(250 * time.Millisecond)}
	at := instant(9)
	late := CellOf(h, []ringproof.Finding{{Check: "available", Verdict: ringproof.Fail, At: &at, Message: "clients waited 4.1s for an answer, 2s is allowed"}})
	late.HistoryFile = "cells/a/history.jsonl"
	first := AttemptOf(late)
	first.Decides = true
	late.Verdict, late.Findings[0].Verdict = ringproof.Inconclusive, ringproof.Inconclusive
	late.Attempts = []Attempt{first, {Verdict: ringproof.Pass, HistoryFile: "cells/a/attempt-2/history.jsonl"}, {Verdict: ringproof.Pass, HistoryFile: "cells/a/attempt-3/history.jsonl"}}
	judged := r.Cells[0]
	judged.Attempts = []Attempt{AttemptOf(r.Cells[2]), {Verdict: ringproof.Pass, Decides: true, HistoryFile: judged.HistoryFile}}
	r.Cells = []Cell{late, judged}
	return r
}

func TestFlakyCellsAreTold(t *testing.T) {
	r := flakyReport()
	require.Equal(t, ringproof.Inconclusive, r.Verdict())
	var out bytes.Buffer
	require.NoError(t, Terminal(&out, r, Style{}))
	golden(t, "terminal-flaky.txt", out.Bytes())
	out.Reset()
	r.Cells = append(r.Cells, Cell{Name: "once#1", Subject: "reference", Verdict: ringproof.Pass})
	require.NoError(t, Retold(&out, r))
	require.Equal(t, 2, strings.Count(out.String(), "≈ volume-lost"), out.String())
	require.Contains(t, out.String(), "  attempt 2, alone: pass; cells/a/attempt-2/history.jsonl\n")
	require.NotContains(t, out.String(), "once#1")
	r.Cells = r.Cells[:2]
	dir := t.TempDir()
	require.NoError(t, Write(dir, r))
	for name, kept := range map[string]string{JUnitFile: "junit-flaky.xml", SummaryFile: "summary-flaky.md"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		golden(t, kept, text)
	}
	out.Reset()
	require.NoError(t, Annotate(&out, r))
	require.Equal(t, 2, bytes.Count(out.Bytes(), []byte("::warning ")), out.String())
	got, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, r.Cells[0].Attempts, got.Cells[0].Attempts)
	require.Equal(t, r.Cells[0].Measurements, got.Cells[0].Measurements)
	page, err := os.ReadFile(filepath.Join(dir, PageFile))
	require.NoError(t, err)
	require.Contains(t, string(page), `"host":[{"a":8,"b":9,"v":0.7},{"a":20,"b":20.5,"v":0.1}]`)
	require.Contains(t, string(page), "attempt 2, alone: pass")
}

func TestPrepareReplacesNothingOfOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	require.NoError(t, Prepare(dir))
	page := filepath.Join(dir, PageFile)
	require.NoError(t, os.WriteFile(page, []byte("mine"), 0o644))
	require.ErrorContains(t, Prepare(dir), "has index.html and no result.json")
	require.NoError(t, os.Remove(page))
	require.NoError(t, Write(dir, growReport()))
	require.NoError(t, Prepare(dir), "a report is replaced by the next")
}

func TestResultIsReadBack(t *testing.T) {
	dir, want := t.TempDir(), growReport()
	require.NoError(t, Write(dir, want))
	got, err := Read(dir)
	require.NoError(t, err)
	for i := range want.Cells {
		want.Cells[i].History = nil
	}
	require.Equal(t, want, got)
}

func TestResultRefusesAnotherFormat(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ResultFile), []byte(`{"verdict":"pass"}`), 0o644))
	_, err := Read(dir)
	require.ErrorContains(t, err, `format "", not "ringproof-report/v1"`)
}

func TestAnErrorIsWrittenAndNeverPasses(t *testing.T) {
	dir := t.TempDir()
	r := growReport()
	r.Cells, r.Error = r.Cells[:1], "the disk of the host is full"
	r.Cells[0].History.Measures["ratio"] = math.NaN()
	r.Cells[0] = CellOf(r.Cells[0].History, r.Cells[0].Findings)
	require.NoError(t, Write(dir, r))
	var result struct {
		Verdict string
		Error   string
	}
	text, err := os.ReadFile(filepath.Join(dir, ResultFile))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &result))
	require.Equal(t, "inconclusive", result.Verdict)
	require.Equal(t, r.Error, result.Error)
	junit, err := os.ReadFile(filepath.Join(dir, JUnitFile))
	require.NoError(t, err)
	require.Contains(t, string(junit), `<error message="the disk of the host is full" type="environment">`)
}

func TestVerdictOfAReport(t *testing.T) {
	pass, fail, doubt := Cell{Verdict: ringproof.Pass}, Cell{Verdict: ringproof.Fail}, Cell{}
	cannot, late := Cell{NotApplicable: "no Docker"}, Cell{Skipped: "interrupted"}
	lacking := Cell{Skipped: "this host can't do it: no namespaces"}
	allowed := lacking
	allowed.Allowed = true
	compared := Cell{Verdict: ringproof.Fail, Baseline: true}
	for _, c := range []struct {
		why   string
		want  ringproof.Verdict
		cells []Cell
	}{
		{"no cell was judged", ringproof.Inconclusive, nil},
		{"a cell that can't be run is no pass", ringproof.Inconclusive, []Cell{cannot}},
		{"it takes nothing from the others", ringproof.Pass, []Cell{pass, cannot}},
		{"a cell that was skipped leaves the question open", ringproof.Inconclusive, []Cell{pass, late}},
		{"so does one that this host can't run", ringproof.Inconclusive, []Cell{pass, lacking}},
		{"unless the run was told to do without", ringproof.Pass, []Cell{pass, allowed}},
		{"but never without all", ringproof.Inconclusive, []Cell{allowed}},
		{"a baseline is only compared", ringproof.Pass, []Cell{pass, compared}},
		{"a failure beats doubt", ringproof.Fail, []Cell{pass, doubt, fail}},
	} {
		require.Equal(t, c.want, Report{Cells: c.cells}.Verdict(), c.why)
	}
}

// Hostile texts come from etcd's logs, from scenarios and from subjects.
const hostile = "</script><script>alert(1)</script> \x1b[31m <b>|`]]>\x00 &amp; \u2028"

func hostileReport() Report {
	h := referenceStory(hostile, 1)
	h.Plan.Cell, h.Plan.Scenario, h.Plan.Hypothesis = hostile, hostile, hostile
	h.Plan.Steps[0].Name = hostile
	for i := range h.Events {
		h.Events[i].Text, h.Events[i].Step = hostile, hostile
	}
	h.Events = append([]ringproof.Event{{Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultMachineLoss, Machine: hostile}}, h.Events...)
	h.Evidence.Budget[0].What, h.Trace = hostile, hostile
	for i := range h.Observations {
		for j := range h.Observations[i].Members {
			h.Observations[i].Members[j].Version = hostile
		}
	}
	c := CellOf(h, []ringproof.Finding{{Check: hostile, Verdict: ringproof.Fail, Message: hostile, Evidence: []string{hostile}, Attached: "javascript:alert(1)"}})
	c.Replay, c.PlanFile = hostile, "cells/a#b?c.json"
	return Report{Subject: hostile, World: hostile, Error: hostile, Command: hostile, Cells: []Cell{c, {Name: hostile, NotApplicable: hostile}}}
}

func TestJUnitTakesHostileTexts(t *testing.T) {
	text, err := junitXML(hostileReport())
	require.NoError(t, err)
	var suites struct {
		Suites []struct {
			Cases []struct {
				Failure *struct {
					Text string `xml:",chardata"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal(text, &suites))
	require.Contains(t, suites.Suites[1].Cases[0].Failure.Text, "]]>")
}

func TestTerminalTakesHostileTexts(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Terminal(&out, hostileReport(), Style{}))
	require.NotContains(t, out.String(), "\x1b", "a subject's text doesn't steer the terminal")
}

func TestSummaryStaysBelowGitHubsLimit(t *testing.T) {
	r := hostileReport()
	r.Cells[0].Findings[0].Evidence = []string{strings.Repeat("x", 100_000)}
	for range 100 {
		r.Cells = append(r.Cells, r.Cells[0])
	}
	text, err := summary(r)
	require.NoError(t, err)
	require.Less(t, len(text), 1<<20)
	require.Contains(t, string(text), "parts are left out")
	require.NotContains(t, string(text), "<script>")
}
