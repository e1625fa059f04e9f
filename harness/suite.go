// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/reports"
	"github.com/ringproof/ringproof/scenarios"
)

// Job is one plan to run, or why its world can't.
type Job struct {
	Plan          ringproof.Plan
	NotApplicable string
	Lacking       string // why this host can't run it, where another could
	Allowed       bool   // if so, the run may pass without it
	Baseline      bool   // for comparison only: it merges into no verdict
}

// Suite is a run of many plans.
type Suite struct {
	Jobs       []Job
	Out        string // directory of the report
	Abreast    int    // how many at once
	Twice      bool   // run each cell twice: one that isn't the same the second time can't be judged
	Attempts   int    // how often at most a cell is run that doesn't pass, each but the first alone; 0 is once
	World      func(ringproof.Plan) (ringproof.World, error)
	Seen       func(ringproof.Plan, ringproof.World) ringproof.World // what a run sees in its world's place; nil: the world
	Replay     func(planFile string, plan ringproof.Plan) string     // the line to paste
	OnProgress func(Progress)
}

// Progress is one thing worth telling while the suite runs.
type Progress struct {
	Done, All int
	Cell      string
	Subject   string
	Attempt   int              // of the cell; 0 is the first
	Event     *ringproof.Event // as it happens
	Ended     *reports.Cell    // the attempt is over
}

// Run runs the jobs and returns their cells, in the order of the jobs. What did not pass
// is attempted again at the end. Cells
// that a cancelled context kept from running say that they were skipped.
func (s Suite) Run(ctx context.Context) []reports.Cell {
	cells := make([]reports.Cell, len(s.Jobs))
	var (
		mu   sync.Mutex
		done int
		all  sync.WaitGroup
	)
	free := make(chan struct{}, max(1, s.Abreast))
	for i, job := range s.Jobs {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			cells[i] = s.job(ctx, job, 1, func(e ringproof.Event) {
				s.tell(Progress{All: len(s.Jobs), Cell: job.Plan.Cell, Subject: job.Plan.Subject, Event: &e})
			})
			mu.Lock()
			defer mu.Unlock()
			done++
			s.tell(Progress{Done: done, All: len(s.Jobs), Cell: job.Plan.Cell, Subject: job.Plan.Subject, Ended: &cells[i]})
		})
	}
	all.Wait()
	s.again(ctx, cells)
	return cells
}

func (s Suite) tell(p Progress) {
	if s.OnProgress != nil {
		s.OnProgress(p)
	}
}

// Interrupted is why a cell was not begun, or not judged, when whoever asked wants no more.
const Interrupted = "the run was interrupted"

// job runs one plan, for the nth time.
func (s Suite) job(ctx context.Context, job Job, n int, told func(ringproof.Event)) reports.Cell {
	p := job.Plan
	blank := reports.Cell{Name: p.Cell, Scenario: p.Scenario, Subject: p.Subject, World: p.World, Seed: p.Seed, Hypothesis: p.Hypothesis, Baseline: job.Baseline}
	switch {
	case job.NotApplicable != "":
		blank.NotApplicable = job.NotApplicable
		return blank
	case job.Lacking != "":
		blank.Skipped, blank.Allowed = job.Lacking, job.Allowed
		return blank
	case ctx.Err() != nil:
		blank.Skipped = Interrupted
		return blank
	}
	cell, err := s.run(ctx, p, n, told)
	if err != nil {
		why := err.Error()
		if ctx.Err() != nil {
			why = Interrupted // and not by what an ended context is called
		}
		blank.Findings = []ringproof.Finding{{Check: "run", Verdict: ringproof.Inconclusive, Message: why}}
		blank.PlanFile, blank.Logs = cell.PlanFile, cell.Logs
		cell = blank
	}
	if cell.PlanFile != "" && s.Replay != nil {
		cell.Replay = s.Replay(filepath.Join(s.Out, cell.PlanFile), p)
	}
	cell.Baseline = job.Baseline
	return cell
}

// run runs a plan. One in which ringproof itself breaks has judged nothing, and takes no other
// along.
func (s Suite) run(ctx context.Context, p ringproof.Plan, n int, told func(ringproof.Event)) (cell reports.Cell, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("ringproof itself broke, which is a bug of it: %v\n%s", broken, debug.Stack())
		}
	}()
	dir, err := s.dir(p, n)
	if err != nil {
		return cell, err
	}
	cell.PlanFile = filepath.Join(dir, "plan.yaml")
	if err := s.writePlan(cell.PlanFile, p); err != nil {
		return cell, err
	}
	world, err := s.World(p)
	if err != nil {
		return cell, err
	}
	began := time.Now()
	h, err := Run(ctx, p, world, Options{OnEvent: told, Seen: s.seen(p)})
	if err != nil {
		var lost error
		cell.Logs, lost = s.keepLogs(dir, world)
		return cell, errors.Join(err, lost)
	}
	if h.Measures == nil {
		h.Measures = map[string]float64{}
	}
	h.Measures["wallSeconds"] = time.Since(began).Seconds()
	again, err := s.repeated(ctx, p, h)
	if err != nil {
		return cell, err
	}
	if cell, err = s.judge(dir, cell, &h, again...); err != nil || cell.Verdict == ringproof.Pass {
		return cell, err
	}
	// What failed has failed, whether there is room for the logs or not.
	if cell.Logs, err = s.keepLogs(dir, world); err != nil {
		cell.Findings = append(cell.Findings, ringproof.Finding{Check: "run", Verdict: ringproof.Inconclusive, Message: err.Error()})
	}
	return cell, nil
}

// repeated runs the plan a second time, if that is wanted, and says if it was another run.
func (s Suite) repeated(ctx context.Context, p ringproof.Plan, before ringproof.History) ([]ringproof.Finding, error) {
	if !s.Twice {
		return nil, nil
	}
	world, err := s.World(p)
	if err != nil {
		return nil, err
	}
	h, err := Run(ctx, p, world, Options{Seen: s.seen(p)})
	if err != nil || h.Trace == before.Trace {
		return nil, err
	}
	return []ringproof.Finding{{Check: "run", Verdict: ringproof.Inconclusive, Message: fmt.Sprintf("expected the same run twice, its trace was %s and then %s; they part where %s", before.Trace, h.Trace, parted(before, h))}}, nil
}

// logged is a world whose processes have logs, by the names of their files. They are asked
// for when the world is closed.
type logged interface{ Logs() map[string][]byte }

// keepLogs writes what the processes of the world logged, and returns where.
func (s Suite) keepLogs(dir string, world ringproof.World) (string, error) {
	l, ok := world.(logged)
	if !ok || len(l.Logs()) == 0 {
		return "", nil
	}
	dir = filepath.Join(dir, "logs")
	if err := os.MkdirAll(filepath.Join(s.Out, dir), 0o755); err != nil {
		return "", fmt.Errorf("keeping logs: %w", err)
	}
	for name, text := range l.Logs() {
		if err := os.WriteFile(filepath.Join(s.Out, dir, name), text, 0o644); err != nil {
			return "", fmt.Errorf("keeping logs: %w", err)
		}
	}
	return dir, nil
}

// seen is what the run of the plan sees in its world's place.
func (s Suite) seen(p ringproof.Plan) func(ringproof.World) ringproof.World {
	if s.Seen == nil {
		return nil
	}
	return func(w ringproof.World) ringproof.World { return s.Seen(p, w) }
}

// judge has the history judged, with what else was found, and keeps it.
func (s Suite) judge(dir string, kept reports.Cell, h *ringproof.History, more ...ringproof.Finding) (reports.Cell, error) {
	findings := append(checks.Judge(h), more...)
	for i, f := range findings {
		if picture, ok := checks.Visualize(h, f); ok {
			findings[i].Attached = filepath.Join(dir, "linearizable.html")
			if err := os.WriteFile(filepath.Join(s.Out, findings[i].Attached), picture, 0o644); err != nil {
				return kept, err
			}
		}
	}
	cell := reports.CellOf(h, findings)
	cell.Missed, cell.Unjudged = checks.Missed(h), checks.Unjudged(h.Plan)
	cell.PlanFile, cell.HistoryFile = kept.PlanFile, filepath.Join(dir, "history.jsonl")
	file, err := os.Create(filepath.Join(s.Out, cell.HistoryFile))
	if err != nil {
		return kept, fmt.Errorf("keeping the history: %w", err)
	}
	return cell, errors.Join(h.Write(file), file.Close())
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9._=+-]+`)

// dir is where the files of a cell's nth attempt are, relative to the report.
func (s Suite) dir(p ringproof.Plan, n int) (string, error) {
	name := unfit.ReplaceAllString(p.Cell, "_")
	if p.Subject != "reference" {
		name += "_" + unfit.ReplaceAllString(p.Subject, "_")
	}
	dir := filepath.Join("cells", name)
	attempt := func(n int) string { return filepath.Join("cells", name, fmt.Sprintf("attempt-%d", n)) }
	if n > 1 {
		dir = attempt(n)
	}
	if err := os.RemoveAll(filepath.Join(s.Out, attempt(n+1))); err != nil { // of an earlier run into the same report
		return dir, err
	}
	return dir, os.MkdirAll(filepath.Join(s.Out, dir), 0o755)
}

func (s Suite) writePlan(name string, p ringproof.Plan) error {
	var text bytes.Buffer
	if err := scenarios.WritePlan(&text, p); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.Out, name), text.Bytes(), 0o644)
}
