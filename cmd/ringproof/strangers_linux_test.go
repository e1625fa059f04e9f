// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/reports"
)

const launchers = "../../examples/shell-launcher/"

// resultRead is what these tests read of a result.json.
type resultRead struct {
	Subject string
	Cells   []cellRead
}

type cellRead struct {
	Subject, Verdict, NotApplicable string
	Unjudged                        []string
	Findings                        []finding
}

type finding struct{ Check, Verdict string }

// strange runs a command line where the examples are found, and returns its report,
// what it printed and its exit code.
func strange(t *testing.T, args ...string) (report resultRead, printed string, code int) {
	t.Helper()
	needs.RealTime(t)
	needs.Etcd(t)
	dir := t.TempDir()
	for _, name := range []string{"examples", "bin"} {
		from, err := filepath.Abs("../../" + name)
		require.NoError(t, errors.Join(err, os.Symlink(from, filepath.Join(dir, name))))
	}
	c := exec.CommandContext(t.Context(), "ringproof", args...)
	var said, complained bytes.Buffer
	c.Stdout, c.Stderr, c.Dir = &said, &complained, dir
	var ended *exec.ExitError
	if err := c.Run(); errors.As(err, &ended) {
		code = ended.ExitCode()
	} else {
		require.NoError(t, err)
	}
	if strings.Contains(complained.String(), "going on without namespaces") {
		needs.Lacking(t, "no namespaces here: ringproof doctor says why")
	}
	t.Logf("%s\n%s", &said, &complained)
	text, err := os.ReadFile(filepath.Join(dir, args[len(args)-1], reports.ResultFile))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &report))
	return report, strings.Trim(said.String(), "\n"), code
}

// TestAStrangersLauncher runs what docs/subjects.md shows: a launcher of a few shell
// lines passes, and one with a planted mistake is found by the check that names what it
// does. What is printed there is what was printed once; figures and names of members
// differ.
func TestAStrangersLauncher(t *testing.T) {
	run := shows(t, subjectsPage, "wiping")
	report, said, code := strange(t, run.args...)
	run.mostly(t, said)
	assert.Equal(t, 1, code)
	require.Len(t, report.Cells, 4)
	inapplicable, bad, good := report.Cells[0], report.Cells[2], report.Cells[3] // flap, and leader-killed
	assert.Equal(t, []string{"wiping-launcher", "wiping-launcher", "shell-launcher"}, []string{report.Subject, bad.Subject, good.Subject})
	assert.Equal(t, "pass", good.Verdict)
	assert.Equal(t, "fail", bad.Verdict)
	assert.Contains(t, verdicts(bad.Findings), "no-identity-reuse fail")
	assert.NotContains(t, verdicts(good.Findings), "one-lead pass", "nobody told who leads")
	assert.Equal(t, []string{"one-lead: shell-launcher never tells of leads and action-begun"}, good.Unjudged)
	assert.Contains(t, inapplicable.NotApplicable, "wiping-launcher can't be asked to scale")
}

func verdicts(findings []finding) (all []string) {
	for _, f := range findings {
		all = append(all, f.Check+" "+f.Verdict)
	}
	return all
}

// TestAStrangersOperator has an operator shrink a ring in virtual time, beside one with a
// planted mistake, which is found by the checks that name what it does: it ends the etcds
// of members that vote, and the ring never answers again. The page shows that run.
func TestAStrangersOperator(t *testing.T) {
	before := changed(t, "../../examples/etcd-operator")
	run := shows(t, subjectsPage, "shrink-first")
	cells, said := compared(t, run.args...)
	run.mostly(t, said)
	bad, good := cells[0], cells[1]
	assert.Subset(t, verdicts(bad.Findings), []string{"work-bounded fail", "available fail", "converges fail"})
	assert.Equal(t, "pass", good.Verdict, "%v", good.Findings)
	assert.Equal(t, before, changed(t, "../../examples/etcd-operator"), "something was written in its tree")
}

// TestPageOfConfirm takes what docs/search.md finds in sim to real etcd in virtual time.
func TestPageOfConfirm(t *testing.T) {
	dir, page := t.TempDir(), "../../docs/search.md"
	_ = shows(t, page, "explore ").command(dir).Run()
	confirmed := shows(t, page, "confirm ")
	c := confirmed.command("../..")
	c.Args = append(c.Args, "--out", filepath.Join(dir, "confirmed"))
	c.Args[2] = filepath.Join(dir, c.Args[2])
	printed, err := c.Output()
	require.NoError(t, err, "%s", printed)
	said, _, _ := strings.Cut(string(printed), "report: ")
	confirmed.mostly(t, said)
}

// TestALauncherInGo has a launcher of somebody's in virtual time, beside one with a planted
// mistake: it takes the log of an etcd that was killed for broken, and begins anew.
func TestALauncherInGo(t *testing.T) {
	cells, _ := compared(t, beside("scenarios/leader-killed.yaml", "examples/go-launcher/begin-anew.yaml", "examples/go-launcher/subject.yaml")...)
	assert.Contains(t, verdicts(cells[0].Findings), "no-identity-reuse fail")
	assert.Equal(t, "pass", cells[1].Verdict, "%v", cells[1].Findings)
}

// TestAnOperatorThatDies has an operator die after a write, beside one that knows what it was
// about by its own memory alone.
func TestAnOperatorThatDies(t *testing.T) {
	cells, _ := compared(t, beside("examples/etcd-operator/grow-cut.yaml", "examples/etcd-operator/in-memory.yaml", "examples/etcd-operator/subject.yaml")...)
	assert.Contains(t, verdicts(cells[0].Findings), "converges fail")
	assert.Equal(t, "pass", cells[1].Verdict, "%v", cells[1].Findings)
}

// beside is a command line that tries a subject beside another, in virtual time.
func beside(scenario, subject, baseline string) []string {
	return []string{"run", scenario, "--world", "virtual", "--subject", subject, "--compare-with", baseline, "--out", "out/beside"}
}

// compared runs a scenario in virtual time with a subject that fails it, beside one without the
// mistake, into a directory of the test's own.
func compared(t *testing.T, args ...string) (cells []cellRead, said string) {
	t.Helper()
	needs.RealTime(t) // not for its time, which is virtual: a control plane may have to be built
	shown, out := args[len(args)-1], t.TempDir()
	c := exec.CommandContext(t.Context(), "ringproof", append(slices.Clone(args[:len(args)-1]), out)...)
	c.Dir = "../.." // below which the sources are that are built again
	var printed, complained bytes.Buffer
	c.Stdout, c.Stderr = &printed, &complained
	err := c.Run()
	t.Logf("%s\n%s", &printed, &complained)
	if strings.Contains(complained.String(), "going on without namespaces") {
		needs.Lacking(t, "no namespaces here: ringproof doctor says why")
	}
	var ended *exec.ExitError
	require.ErrorAs(t, err, &ended)
	assert.Equal(t, 1, ended.ExitCode())
	text, err := os.ReadFile(filepath.Join(out, reports.ResultFile))
	require.NoError(t, err)
	var report resultRead
	require.NoError(t, json.Unmarshal(text, &report))
	require.Len(t, report.Cells, 2)
	return report.Cells, strings.ReplaceAll(printed.String(), out, shown)
}

// changed are the files below a directory that git knows otherwise, or not at all.
func changed(t *testing.T, dir string) string {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), "git", "-C", dir, "status", "--porcelain", "--ignored", ".").Output()
	require.NoError(t, err)
	return string(said)
}

// TestOperationsOfAStranger has the reference tried as a stranger would describe it:
// its operations are asked, and what it refuses is told from what it can't do.
func TestOperationsOfAStranger(t *testing.T) {
	needs.RealTime(t)
	needs.Etcd(t)
	if _, err := os.Stat("../../bin/ringadm"); err != nil {
		needs.Lacking(t, "no bin/ringadm: make build makes it")
	}
	report, _, code := strange(t, "run", "--world", "local", "--subject", "examples/ringadm/subject.yaml", "--run", "flap", "--run", "volume-lost", "--out", "out")
	assert.Equal(t, 0, code)
	require.Len(t, report.Cells, 2)
	assert.Contains(t, verdicts(report.Cells[0].Findings), "refusals pass")
	assert.Contains(t, verdicts(report.Cells[1].Findings), "no-identity-reuse pass")
}

// TestAStrangerIsLeftNowhere interrupts a run in which a stranger's launchers and their
// etcds are at work, and looks for what is left of them.
func TestAStrangerIsLeftNowhere(t *testing.T) {
	needs.RealTime(t)
	needs.Etcd(t)
	mark := "RINGPROOF_TEST_MARK=" + t.TempDir()
	dir := t.TempDir()
	text, err := os.ReadFile(launchers + "subject.yaml")
	require.NoError(t, err)
	marked := strings.Replace(string(text), "    env:\n", "    env:\n      "+strings.Replace(mark, "=", ": ", 1)+"\n", 1)
	script, err := os.ReadFile(launchers + "launch.sh")
	require.NoError(t, err)
	require.NoError(t, errors.Join(os.WriteFile(filepath.Join(dir, "subject.yaml"), []byte(marked), 0o644), os.WriteFile(filepath.Join(dir, "launch.sh"), script, 0o755)))
	mounts, links := mounted(t), interfaces(t)

	c := exec.CommandContext(t.Context(), "ringproof", "run", "--world", "local", "--subject", filepath.Join(dir, "subject.yaml"), "--run", "rolling-restart", "--out", filepath.Join(dir, "out"))
	var complained bytes.Buffer
	c.Stderr = &complained
	require.NoError(t, c.Start())
	require.Eventually(t, func() bool { return bearing(mark)["etcd"] == 3 }, 30*time.Second, 50*time.Millisecond, "%v", bearing(mark))
	require.NoError(t, c.Process.Signal(os.Interrupt))
	var ended *exec.ExitError
	require.ErrorAs(t, c.Wait(), &ended)
	assert.Equal(t, 130, ended.ExitCode(), "%s", &complained)
	assert.Empty(t, bearing(mark), "processes were left")
	assert.Equal(t, mounts, mounted(t))
	assert.Equal(t, links, interfaces(t))
}

// bearing counts the processes with the mark in their environment, by the name of their
// program.
func bearing(mark string) map[string]int {
	found := map[string]int{}
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range all {
		text, _ := os.ReadFile(file)
		if strings.Contains("\x00"+string(text), "\x00"+mark+"\x00") {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
			found[strings.TrimSpace(string(name))]++
		}
	}
	return found
}

func mounted(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	return string(text)
}

func interfaces(t *testing.T) (names []string) {
	t.Helper()
	all, err := net.Interfaces()
	require.NoError(t, err)
	for _, one := range all {
		names = append(names, one.Name)
	}
	return names
}
