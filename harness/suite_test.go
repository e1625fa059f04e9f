// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reports"
	"github.com/ringproof/ringproof/scenarios"
)

// still is a world in which nothing happens: its ring is as it was asked for,
// from the beginning. It runs in the time of a synctest bubble.
type still struct {
	plan   ringproof.Plan
	began  time.Time
	refuse error // Start's
	spoilt error // Evidence's
	late   bool  // it never has a ring
	ended  func()
	tasks  sync.WaitGroup
}

var _ ringproof.World = (*still)(nil)

func (w *still) Name() string           { return "still" }
func (w *still) Now() ringproof.Instant { return ringproof.Instant(time.Since(w.began)) }
func (w *still) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
func (w *still) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}
func (w *still) Go(ctx context.Context, _ string, f func(context.Context)) {
	w.tasks.Go(func() { f(ctx) })
}
func (w *still) Supports(ringproof.Step) error { return nil }
func (w *still) Start(_ context.Context, p ringproof.Plan, _ ringproof.Recorder) error {
	w.plan = p
	return w.refuse
}
func (w *still) Do(context.Context, ringproof.Step, []string) (string, error) { return "", nil }
func (w *still) Heal(context.Context, ringproof.Step, []string) error         { return nil }
func (w *still) Observe(context.Context) (ringproof.Observation, error) {
	o := ringproof.Observation{At: w.Now() + 1, Fresh: !w.late}
	for i := 1; i <= w.plan.Ring.Size; i++ {
		name := fmt.Sprintf("m%d", i)
		o.Machines = append(o.Machines, ringproof.MachineView{Name: name, Up: true, Disk: 1, Etcd: true, Agent: true})
		o.Members = append(o.Members, ringproof.MemberView{ID: ringproof.MemberID(i), Name: name, Machine: name, Serving: !w.late, Leader: i == 1, ClusterID: 7, Term: 2})
	}
	return o, nil
}
func (w *still) Client(context.Context, int) (ringproof.Client, error) {
	return nil, errors.New("there is none")
}
func (w *still) Evidence(ctx context.Context) (ringproof.Evidence, error) {
	o, err := w.Observe(ctx)
	return ringproof.Evidence{Final: o}, errors.Join(err, w.spoilt)
}
func (w *still) Tools() ringproof.Tools { return ringproof.Tools{Ringproof: "test"} }
func (w *still) Close() error {
	w.tasks.Wait()
	if w.ended != nil {
		w.ended()
	}
	return nil
}

// own is a still world that must be driven, and tells how it went.
type own struct {
	*still
	over bool
}

func (w *own) Drive(ctx context.Context, f func(context.Context)) error {
	f(ctx)
	w.over = true
	return nil
}

func (w *own) Traced() string {
	if !w.over {
		return "not over"
	}
	return "9f86d081884c7d65, 48213 events"
}

// TestTheTraceIsKept: of a world that has one, once its run is over.
func TestTheTraceIsKept(t *testing.T) {
	out := t.TempDir()
	cells := playSuite(t, Suite{Jobs: jobs("a#7"), Out: out, World: func(ringproof.Plan) (ringproof.World, error) {
		return &own{still: &still{began: time.Now()}}, nil
	}})
	assert.Equal(t, "9f86d081884c7d65, 48213 events", cells[0].Trace)
	assert.Contains(t, cells[0].Phases, "no fault in ")
	require.Len(t, cells[0].Budget, 1)
	assert.Equal(t, "membership: 3 voters", cells[0].Budget[0].What)
	require.NoError(t, cells[0].Load(out))
	assert.Equal(t, cells[0].Trace, cells[0].History.Trace)
	assert.Equal(t, cells[0].Budget, cells[0].History.Evidence.Budget)
}

// job is a plan of a ring that only has to converge.
func job(name string) Job {
	return Job{Plan: ringproof.Plan{
		Cell: name, Scenario: name[:strings.IndexAny(name, "[#")], Seed: 7, Subject: "reference", World: "still", Hypothesis: "It stays.",
		Ring: ringproof.RingSpec{Size: 3, Machines: 3, Version: "v3.6.16"}, Workload: ringproof.Workload{Profile: "none"},
		Invariants: []ringproof.Invariant{{Check: "converges"}},
	}}
}

func jobs(names ...string) []Job {
	var all []Job
	for _, name := range names {
		all = append(all, job(name))
	}
	return all
}

// playSuite runs the suite in a bubble of virtual time.
func playSuite(t *testing.T, s Suite) []reports.Cell {
	t.Helper()
	var cells []reports.Cell
	if s.World == nil {
		s.World = func(ringproof.Plan) (ringproof.World, error) { return &still{began: time.Now()}, nil }
	}
	synctest.Test(t, func(t *testing.T) { cells = s.Run(t.Context()) })
	return cells
}

func names(cells []reports.Cell) []string {
	var all []string
	for _, c := range cells {
		all = append(all, c.Name)
	}
	return all
}

// wordy is a still world whose processes have logs.
type wordy struct{ *still }

func (wordy) Logs() map[string][]byte { return map[string][]byte{"m1.etcd": []byte("it says why")} }

// TestLogsAreKeptOfWhatDoesNotPass, and what can't be kept changes no verdict.
func TestLogsAreKeptOfWhatDoesNotPass(t *testing.T) {
	out := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(out, "cells/c_7"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(out, "cells/c_7/logs"), nil, 0o600)) // somebody's file
	cells := playSuite(t, Suite{Jobs: jobs("a#7", "b#7", "c#7"), Out: out, World: func(p ringproof.Plan) (ringproof.World, error) {
		return wordy{&still{began: time.Now(), late: p.Scenario != "b"}}, nil
	}})
	text, err := os.ReadFile(filepath.Join(out, cells[0].Logs, "m1.etcd"))
	require.NoError(t, err)
	assert.Equal(t, "it says why", string(text))
	assert.Equal(t, ringproof.Pass, cells[1].Verdict)
	assert.Empty(t, cells[1].Logs)
	assert.Equal(t, cells[0].Verdict, cells[2].Verdict)
	assert.Empty(t, cells[2].Logs)
	last := cells[2].Findings[len(cells[2].Findings)-1]
	assert.Contains(t, last.Message, "keeping logs")
	assert.NotEmpty(t, cells[2].HistoryFile)
}

// TestCellsAreInTheOrderOfTheJobs, though the first takes longest.
func TestCellsAreInTheOrderOfTheJobs(t *testing.T) {
	var told []Progress
	cells := playSuite(t, Suite{
		Jobs: jobs("a[x=1]#7", "b#7", "c#7"), Out: t.TempDir(), Abreast: 3,
		World: func(p ringproof.Plan) (ringproof.World, error) {
			return &still{began: time.Now(), late: p.Scenario == "a"}, nil
		},
		OnProgress: func(p Progress) {
			if p.Ended != nil {
				told = append(told, p)
			}
		},
	})
	assert.Equal(t, []string{"a[x=1]#7", "b#7", "c#7"}, names(cells))
	require.Len(t, told, 3)
	for i, p := range told {
		assert.Equal(t, []int{i + 1, 3}, []int{p.Done, p.All})
		assert.Equal(t, p.Cell, p.Ended.Name)
		assert.Equal(t, "reference", p.Subject)
	}
	assert.Equal(t, "a[x=1]#7", told[2].Cell)
	assert.Equal(t, []ringproof.Verdict{ringproof.Pass, ringproof.Pass}, []ringproof.Verdict{cells[1].Verdict, cells[2].Verdict}, "%v", cells[1].Findings)
	assert.Equal(t, ringproof.Fail, cells[0].Verdict, "%v", cells[0].Findings)
}

func TestJobsAbreast(t *testing.T) {
	for _, abreast := range []int{0, 1, 2, 5} {
		var running, most atomic.Int32
		events := map[string]int{}
		var mu sync.Mutex
		playSuite(t, Suite{
			Jobs: jobs("a#7", "b#7", "c#7", "d#7", "e#7"), Out: t.TempDir(), Abreast: abreast,
			World: func(ringproof.Plan) (ringproof.World, error) {
				most.Store(max(most.Load(), running.Add(1)))
				return &still{began: time.Now(), ended: func() { running.Add(-1) }}, nil
			},
			OnProgress: func(p Progress) {
				mu.Lock()
				defer mu.Unlock()
				if p.Event != nil {
					events[p.Cell]++
				}
			},
		})
		assert.EqualValues(t, max(1, abreast), most.Load(), "abreast %d", abreast)
		assert.Zero(t, running.Load())
		assert.Len(t, events, 5, "events are told of each cell")
	}
}

func TestWhatIsKept(t *testing.T) {
	out := t.TempDir()
	mutant := job("a-b[etcd=v3.6.16,victim=m2]#7")
	mutant.Plan.Subject, mutant.Baseline = "reference+voter-first", true
	cells := playSuite(t, Suite{
		Jobs: []Job{job("a-b[etcd=v3.6.16,victim=m2]#7"), mutant}, Out: out,
		Replay: func(file string, p ringproof.Plan) string { return "replay " + file + " " + p.Subject },
	})
	const dir = "cells/a-b_etcd=v3.6.16_victim=m2_7"
	assert.Equal(t, dir+"/plan.yaml", cells[0].PlanFile)
	assert.Equal(t, dir+"_reference+voter-first/plan.yaml", cells[1].PlanFile)
	assert.Equal(t, []bool{false, true}, []bool{cells[0].Baseline, cells[1].Baseline})
	for i, c := range cells {
		assert.Equal(t, "replay "+filepath.Join(out, c.PlanFile)+" "+c.Subject, c.Replay)
		text, err := os.ReadFile(filepath.Join(out, c.PlanFile))
		require.NoError(t, err)
		plan, found := scenarios.ReadPlan(c.PlanFile, text)
		require.False(t, found.Failed(), "%s", found)
		assert.Equal(t, c.Name, plan.Cell)
		assert.Equal(t, c.Subject, plan.Subject)

		assert.Equal(t, filepath.Join(filepath.Dir(c.PlanFile), "history.jsonl"), c.HistoryFile)
		file, err := os.Open(filepath.Join(out, c.HistoryFile))
		require.NoError(t, err)
		defer file.Close()
		h, err := ringproof.ReadHistory(file)
		require.NoError(t, err)
		assert.Equal(t, c.Name, h.Plan.Cell)
		assert.NotEmpty(t, h.Events)
		assert.Greater(t, h.Measures["wallSeconds"], 1.0)
		assert.Equal(t, "converges", cells[i].Findings[len(cells[i].Findings)-1].Check)
	}
}

// TestAnErrorIsInconclusive: a run that could not be carried out says nothing
// of the subject. Its plan is kept, to try again.
func TestAnErrorIsInconclusive(t *testing.T) {
	for what, c := range map[string]struct {
		world func(ringproof.Plan) (ringproof.World, error)
		want  string
	}{
		"no world": {func(ringproof.Plan) (ringproof.World, error) { return nil, errors.New("no etcd v3.6.16") }, "no etcd v3.6.16"},
		"no start": {func(ringproof.Plan) (ringproof.World, error) {
			return &still{began: time.Now(), refuse: errors.New("no bridge")}, nil
		}, "starting the still world: no bridge"},
		"no evidence": {func(ringproof.Plan) (ringproof.World, error) {
			return &still{began: time.Now(), spoilt: errors.New("no disk")}, nil
		}, "no disk"},
	} {
		t.Run(what, func(t *testing.T) {
			out := t.TempDir()
			j := job("a#7")
			j.Baseline = true
			cells := playSuite(t, Suite{Jobs: []Job{j}, Out: out, World: c.world, Replay: func(file string, _ ringproof.Plan) string { return "replay " + file }})
			cell := cells[0]
			assert.Equal(t, ringproof.Inconclusive, cell.Verdict)
			assert.Equal(t, []ringproof.Finding{{Check: "run", Verdict: ringproof.Inconclusive, Message: c.want}}, cell.Findings)
			assert.FileExists(t, filepath.Join(out, cell.PlanFile))
			assert.Equal(t, "replay "+filepath.Join(out, cell.PlanFile), cell.Replay)
			assert.Empty(t, cell.HistoryFile)
			assert.Equal(t, []string{"a#7", "a", "reference", "still", "It stays."}, []string{cell.Name, cell.Scenario, cell.Subject, cell.World, cell.Hypothesis})
			assert.EqualValues(t, 7, cell.Seed)
			assert.True(t, cell.Baseline)
		})
	}
}

// TestAReportThatCannotBeKept: somebody's file is where the cells should be.
func TestAReportThatCannotBeKept(t *testing.T) {
	out := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(out, "cells"), nil, 0o600))
	cells := playSuite(t, Suite{Jobs: jobs("a#7"), Out: out, Replay: func(string, ringproof.Plan) string { return "replay" }})
	assert.Equal(t, ringproof.Inconclusive, cells[0].Verdict)
	require.Len(t, cells[0].Findings, 1)
	assert.Contains(t, cells[0].Findings[0].Message, "not a directory")
	assert.Empty(t, cells[0].PlanFile)
	assert.Empty(t, cells[0].Replay, "there is no plan to replay")
}

func TestCancelSkipsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := Suite{Jobs: jobs("a#7", "b#7", "c#7"), Out: t.TempDir(), Abreast: 1}
		s.World = func(p ringproof.Plan) (ringproof.World, error) {
			if p.Cell == "b#7" {
				time.AfterFunc(time.Second, cancel)
			}
			return &still{began: time.Now()}, nil
		}
		began := time.Now()
		cells := s.Run(ctx)
		require.Less(t, time.Since(began), 10*time.Second)
		require.Equal(t, []string{"a#7", "b#7", "c#7"}, names(cells))
		require.Equal(t, ringproof.Pass, cells[0].Verdict)
		require.Empty(t, cells[0].Skipped)
		require.Equal(t, ringproof.Inconclusive, cells[1].Verdict)
		require.Equal(t, Interrupted, cells[1].Findings[0].Message)
		require.FileExists(t, filepath.Join(s.Out, cells[1].PlanFile))
		require.Equal(t, "the run was interrupted", cells[2].Skipped)
		require.Empty(t, cells[2].PlanFile)
		require.Equal(t, ringproof.Inconclusive, cells[2].Verdict)
	})
}

// TestWhatThisHostLacksIsSkipped: it is asked for, and another host can do it.
func TestWhatThisHostLacksIsSkipped(t *testing.T) {
	lacking := job("a#7")
	lacking.Lacking = "this host can't do it: no namespaces"
	allowed := lacking
	allowed.Allowed = true
	for want, j := range map[ringproof.Verdict]Job{ringproof.Inconclusive: lacking, ringproof.Pass: allowed} {
		cells := playSuite(t, Suite{Jobs: []Job{j}, Out: t.TempDir(), World: func(ringproof.Plan) (ringproof.World, error) {
			t.Error("what can't be done is not begun")
			return nil, errors.New("unreachable")
		}})
		assert.Equal(t, lacking.Lacking, cells[0].Skipped)
		report := reports.Report{Cells: append(cells, reports.Cell{Verdict: ringproof.Pass})}
		assert.Equal(t, want, report.Verdict())
		assert.Equal(t, 1, report.Counts().Skipped)
	}
}

func TestNotApplicable(t *testing.T) {
	out := t.TempDir()
	cannot := job("a#7")
	cannot.NotApplicable, cannot.Baseline = "partition: no namespaces", true
	cells := playSuite(t, Suite{Jobs: []Job{cannot}, Out: out, World: func(ringproof.Plan) (ringproof.World, error) {
		t.Error("what can't be done is not begun")
		return nil, errors.New("unreachable")
	}})
	assert.Equal(t, "partition: no namespaces", cells[0].NotApplicable)
	assert.Equal(t, "a#7", cells[0].Name)
	assert.True(t, cells[0].Baseline)
	assert.Empty(t, cells[0].Findings)
	assert.NoDirExists(t, filepath.Join(out, "cells"))
}
