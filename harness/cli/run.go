// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/harness/explore"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/internal/virtual"
	"github.com/ringproof/ringproof/reports"
	"github.com/ringproof/ringproof/scenarios"
)

// runFlags are the flags of run and replay.
type runFlags struct {
	*program
	world    string
	out      string
	subject  string
	baseline string
	first    bool
	shard    shard
	cells    []string
	labels   string // a selector
	seed     uint64
	seeds    uint64
	jobs     int
	attempts int
	etcdBin  string
	ringadm  string
	verbose  bool
	without  bool
	twice    bool

	kit   virtual.Kit  // what was built for the world
	over  func() error // why nothing is run after this; nil: something may be
	built string       // somebody's program, where it was built outside; "": it is in the kit
}

func (f *runFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.world, "world", f.Worlds[0].Name, "where to run: "+choices(f.Worlds))
	c.Flags().StringVar(&f.out, "out", "", "directory for the report (default out/TIME)")
	c.Flags().IntVar(&f.jobs, "jobs", abreast(), "cells to run at once; most of a cell is waiting")
	c.Flags().StringVar(&f.etcdBin, "etcd-bin", "", "directory with your own build of etcd, used for every release")
	c.Flags().StringVar(&f.ringadm, "ringadm", "", "the ringadm to put on trial (default: beside ringproof)")
	c.Flags().BoolVar(&f.without, "allow-skipped", false, "let the run pass without the cells that this host can't run; else it is inconclusive")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "tell every event as it happens")
}

// repeats adds the flag of commands that believe a trial only when it was repeated.
func (f *runFlags) repeats(c *cobra.Command) {
	c.Flags().IntVar(&f.attempts, "attempts", 1, "in real time, how often at most to run a cell that doesn't pass, each time but the first alone: what a slow host may explain fails it the second time")
}

func (p *program) runCommand() *cobra.Command {
	f := runFlags{program: p}
	c := &cobra.Command{
		Use:   "run [SCENARIO.yaml...]",
		Short: "run scenarios and judge them; without arguments the shipped ones",
		Example: `  ringproof run
  ringproof run --run 'create[etcd=v3.6.16,size=3]' -v
  ringproof run --selector suite=kubernetes --world virtual
  ringproof run --subject reference+voter-first --run create
  ringproof run --run volume-lost --compare-with reference+reset-all`,
		PreRunE: func(c *cobra.Command, _ []string) error { return counts(c, "jobs", "seeds", "attempts") },
		RunE:    func(c *cobra.Command, args []string) error { return runScenarios(c, f, args) },
	}
	f.add(c)
	f.repeats(c)
	c.Flags().StringVar(&f.subject, "subject", p.own().Name, "what is on trial: "+p.anybody())
	c.Flags().StringVar(&f.baseline, "compare-with", "", "another subject to run the same cells with, which is in no count")
	renamedFlag(c, "beside", "compare-with")
	c.Flags().StringArrayVar(&f.cells, "run", nil, "only cells of this name, or beginning of a name: scenario, scenario[k=v] or scenario[k=v]#seed; repeatable")
	c.Flags().StringVarP(&f.labels, "selector", "l", "", "only scenarios with these labels, as kubectl selects: suite=crashes, suite!=kubernetes, 'suite in (faults, views)'")
	c.Flags().BoolVar(&f.first, "first", false, "only the first cell of each scenario: a short look at all of them")
	c.Flags().Var(&f.shard, "shard", "only this part of the cells, as 2/5 for the second of five: for several machines, or several sittings")
	c.Flags().BoolVar(&f.twice, "verify-determinism", false, "run each cell twice and compare the traces, in a world where a plan is the same in every run")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the first run of each cell")
	c.Flags().Uint64Var(&f.seeds, "seeds", 1, "how many seeds to run each cell with")
	return c
}

func (p *program) replayCommand() *cobra.Command {
	f := runFlags{program: p}
	c := &cobra.Command{
		Use:     "replay PLAN|CELL",
		Short:   "run one plan again: a plan.yaml of a report, or a cell by its name",
		PreRunE: func(c *cobra.Command, _ []string) error { return counts(c, "jobs", "attempts") },
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("replay takes a plan file or a cell's name, as scenario[k=v]#1")
			}
			return replay(c, f, args[0])
		},
	}
	f.add(c)
	f.repeats(c)
	c.Flags().StringVar(&f.subject, "subject", "", "what is on trial (default: what the plan says)")
	return c
}

// planFile matches what is surely a file's name, and no cell's.
var planFile = regexp.MustCompile(`/|\.(ya?ml|json)$`)

func replay(c *cobra.Command, f runFlags, what string) error {
	text, err := os.ReadFile(what)
	if errors.Is(err, os.ErrNotExist) && planFile.MatchString(what) {
		return usage("there is no plan file %s; a report keeps one a cell, in cells/", what)
	}
	if errors.Is(err, os.ErrNotExist) {
		f.cells, f.seed, f.seeds = []string{what}, 1, 1
		if f.subject == "" {
			f.subject = f.own().Name
		}
		return runScenarios(c, f, nil)
	}
	if err != nil {
		return environment(err)
	}
	plan, found := scenarios.ReadPlan(what, text)
	if found.Failed() {
		fmt.Fprint(c.ErrOrStderr(), found)
		return usage("%s is no plan that can be run", what)
	}
	if f.subject != "" {
		plan.Subject, plan.SubjectFile = f.subject, ""
	}
	if e := plan.Expect; e != nil && cmp.Or(plan.World, f.Worlds[0].Name) != f.world {
		plan.Expect = &ringproof.Expect{Verdict: e.Verdict, Check: e.Check} // of another world's run
	}
	plan.World = f.world
	who, err := f.trial(c.ErrOrStderr(), plan)
	if err != nil {
		return err
	}
	who.Enter(&plan)
	return runJobs(c, f, []harness.Job{{Plan: plan, NotApplicable: unable(plan, place{f.in(), who})}})
}

// runScenarios resolves scenarios into jobs and runs them.
func runScenarios(c *cobra.Command, f runFlags, files []string) error {
	if in := f.in(); f.twice && !in.Simulated && !in.Repeatable {
		return usage("--verify-determinism --world %s: no run there is the same as another; leave one of them out", f.world)
	}
	jobs, err := f.chosen(c, files)
	if err != nil {
		return err
	}
	return runJobs(c, f, jobs)
}

// trial is who is on trial in the plan, in the world of the flags.
func (f runFlags) trial(w io.Writer, p ringproof.Plan) (contender, error) {
	in, err := f.worldOf(f.world)
	if err != nil {
		return nil, err
	}
	who, err := f.contenderOf(w, p)
	if err != nil {
		return nil, err
	}
	return who, who.lives(in)
}

// chosen are the jobs that the flags ask for.
func (f runFlags) chosen(c *cobra.Command, files []string) ([]harness.Job, error) {
	if _, err := f.worldOf(f.world); err != nil {
		return nil, err
	}
	loaded, err := load(c.ErrOrStderr(), files)
	if err != nil {
		return nil, err
	}
	who, err := f.trial(c.ErrOrStderr(), ringproof.Plan{Subject: f.subject})
	if err != nil {
		return nil, err
	}
	patterns, err := f.patterns(who, len(files) > 0)
	if err != nil {
		return nil, err
	}
	if shown := who.shown(); len(files)+len(f.cells) == 0 && len(shown) > 0 && !machines.Inside() {
		fmt.Fprintf(c.ErrOrStderr(), "%s runs only the scenarios that show what is wrong with it, %s; --run names others\n", f.subject, strings.Join(shown, ", "))
	}
	if len(files) == 0 && len(patterns) > 0 {
		// The scenario of a known bug fails where all is well, so it runs only when it is named.
		knownBugs, err := scenarios.KnownBugs()
		if err != nil {
			return nil, err
		}
		loaded = append(loaded, knownBugs...)
	}
	if loaded, err = f.labelled(loaded); err != nil {
		return nil, err
	}
	return f.jobsOf(c, loaded, patterns)
}

// labelled are the scenarios that the selector selects.
func (f runFlags) labelled(loaded []*scenarios.Scenario) ([]*scenarios.Scenario, error) {
	wanted, err := labels.Parse(f.labels)
	if err != nil {
		return nil, usage("--selector %s: %w; write suite=crashes, or suite!=kubernetes", f.labels, err)
	}
	var found []*scenarios.Scenario
	there := map[string]bool{}
	for _, s := range loaded {
		there[cmp.Or(labels.Set(s.Labels).String(), "none")] = true
		if wanted.Matches(labels.Set(s.Labels)) {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return nil, usage("--selector %s: no scenario has such labels; there are: %s", f.labels, strings.Join(slices.Sorted(maps.Keys(there)), "; "))
	}
	return found, nil
}

// patterns are the cells asked for. A mutant without a choice of cells is run
// on the scenario that shows it.
func (f runFlags) patterns(who contender, own bool) ([]scenarios.Cell, error) {
	names := f.cells
	if len(names) == 0 && !own {
		names = who.shown()
	}
	var patterns []scenarios.Cell
	for _, name := range names {
		p, err := scenarios.ParseCellName(name)
		if err != nil {
			return nil, usage("%w", err)
		}
		patterns = append(patterns, p)
	}
	return patterns, nil
}

func (f runFlags) jobsOf(c *cobra.Command, loaded []*scenarios.Scenario, patterns []scenarios.Cell) ([]harness.Job, error) {
	var jobs []harness.Job
	who, err := f.trial(c.ErrOrStderr(), ringproof.Plan{Subject: f.subject})
	if err != nil {
		return nil, err
	}
	matched := map[int]bool{}
	cells := 0
	for _, s := range loaded {
		for cell := range f.seeded(s, patterns) {
			if err := c.Context().Err(); err != nil {
				return nil, err // a million seeds take longer to list than anybody waits
			}
			if !selected(cell, patterns, matched) {
				continue
			}
			if cells++; f.shard.holds(cells) {
				found, err := f.resolve(c.ErrOrStderr(), s, cell, who)
				if err != nil {
					return nil, err
				}
				jobs = append(jobs, found...)
			}
			if f.first {
				break
			}
		}
	}
	for i, p := range patterns {
		if !matched[i] {
			return nil, usage("no cell matches %q; %s", p, unmatched(p, loaded))
		}
	}
	return jobs, f.shard.missed(cells)
}

func unmatched(p scenarios.Cell, loaded []*scenarios.Scenario) string {
	var names []string
	for _, s := range loaded {
		names = append(names, s.Name)
	}
	if meant, ok := nearest(p.Scenario, names); ok && meant != p.Scenario {
		return "did you mean " + meant + "?"
	}
	return "ringproof plan prints them all"
}

// seeded goes over the scenario's cells with every seed asked for, those that a
// pattern names included.
func (f runFlags) seeded(s *scenarios.Scenario, patterns []scenarios.Cell) iter.Seq[scenarios.Cell] {
	var named []uint64
	for _, p := range patterns {
		if asked := p.Seed >= f.seed && p.Seed-f.seed < f.seeds; p.Seeded && !asked && !slices.Contains(named, p.Seed) {
			named = append(named, p.Seed)
		}
	}
	return func(yield func(scenarios.Cell) bool) {
		for n := range f.seeds + uint64(len(named)) {
			seed := f.seed + n
			if n >= f.seeds {
				seed = named[n-f.seeds]
			}
			for _, cell := range s.Cells(seed) {
				if !yield(cell) {
					return
				}
			}
		}
	}
}

func selected(cell scenarios.Cell, patterns []scenarios.Cell, matched map[int]bool) bool {
	hit := len(patterns) == 0
	for i, p := range patterns {
		if cell.Matches(p) {
			matched[i], hit = true, true
		}
	}
	return hit
}

func (f runFlags) resolve(w io.Writer, s *scenarios.Scenario, cell scenarios.Cell, who contender) ([]harness.Job, error) {
	plan, found := s.Resolve(cell, f.subject, place{f.in(), who})
	if found.Failed() {
		fmt.Fprint(w, found)
		return nil, usage("%s can't be run", cell)
	}
	who.Enter(&plan)
	job := harness.Job{Plan: plan, NotApplicable: found.Inapplicable(), Lacking: found.Lacking(), Allowed: f.without}
	baseline := f.baselineOf(s)
	if baseline == "" {
		return []harness.Job{job}, nil
	}
	other, err := f.alongside(w, job, baseline)
	return []harness.Job{job, other}, err
}

// alongside is the same job with another on trial, for comparison.
func (f runFlags) alongside(w io.Writer, job harness.Job, name string) (harness.Job, error) {
	who, err := f.trial(w, ringproof.Plan{Subject: name})
	if err != nil {
		return job, err
	}
	who.Enter(&job.Plan)
	job.Baseline = true
	own := unable(job.Plan, place{f.in(), who})
	if own == "" && job.NotApplicable != "" {
		own = "there is nothing to compare with: " + job.NotApplicable
	}
	job.NotApplicable = own
	return job, nil
}

// baselineOf is who runs the same cells for comparison: whom the command line
// names, or the mutant that the scenario's label names.
func (f runFlags) baselineOf(s *scenarios.Scenario) string {
	if label := s.Labels["compare-with"]; f.baseline == "" && label != "" && f.subject == f.own().Name {
		if _, err := f.own().planted([]string{label}); err == nil {
			return f.subject + "+" + label
		}
	}
	return f.baseline
}

// runJobs runs the jobs where they are to run, and reports.
func runJobs(c *cobra.Command, f runFlags, jobs []harness.Job) error {
	return enclosed(c, f, jobs, func(f runFlags, releases map[string]etcdbin.Release) error {
		return conduct(c, f, jobs, releases)
	})
}

// outNow is where a report goes when nobody says.
func outNow() string { return filepath.Join("out", time.Now().UTC().Format("20060102T150405Z")) }

// enclosed makes ready what the jobs need of the network, then does the work
// in a sandbox. Outside of it the work is this same command line again. What is
// simulated needs neither.
func enclosed(c *cobra.Command, f runFlags, jobs []harness.Job, work func(runFlags, map[string]etcdbin.Release) error) error {
	if len(jobs) == 0 {
		return usage("there is nothing to run")
	}
	if own := cmp.Or(f.etcdBin, f.ringadm); own != "" && f.in().Build != nil {
		return usage("%s: in the %s world nothing runs but what was built for it; leave --etcd-bin and --ringadm out, or --world", own, f.world)
	}
	if f.out == "" {
		f.out = outNow()
	}
	if f.in().Simulated {
		f.jobs = 1     // a simulated world has crypto/rand to itself
		f.attempts = 1 // and comes to the same each time
		return work(f, nil)
	}
	if f.in().Repeatable {
		f.attempts = 1
		if !c.Flags().Changed("jobs") {
			f.jobs = runtime.NumCPU() // nothing waits
		}
	}
	releases, err := install(c, &f, jobs)
	if err != nil {
		return errors.Join(notInstalled(err), leaveWord(f, err))
	}
	if f.in().Outside {
		if !c.Flags().Changed("jobs") {
			f.jobs = 1 // all have the same cluster, one after another
		}
		f.over = c.Context().Err
		err := work(f, releases)
		if done := f.in().Done; done != nil {
			return cmp.Or(err, done())
		}
		return err
	}
	if !machines.Inside() && os.Getenv(bare) == "" {
		args := sameWorld(os.Args[1:], c, f)
		code, err := machines.Sandbox(c.Context(), args, os.Environ())
		if err == nil {
			return exited(code)
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return environment(err)
		}
		fmt.Fprintf(c.ErrOrStderr(), "going on without namespaces: %v\n", err)
		os.Setenv(bare, "1")
		return f.run2(c, args)
	}
	if err := f.proven(c, f.kit.Proof(), releases); err != nil {
		return environment(err)
	}
	return work(f, releases)
}

// sameWorld is the command line args for a process that must mean the same world and the same directory,
// whatever was left to this one to choose: the last word on a flag is the one that holds.
func sameWorld(args []string, c *cobra.Command, f runFlags) []string {
	var more []string
	for _, flag := range [][]string{{"world", f.world}, {"out", f.out}} {
		if c.Flag(flag[0]) != nil {
			more = append(more, "--"+flag[0], flag[1])
		}
	}
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	return slices.Insert(slices.Clone(args), end, more...)
}

// run2 runs the command line again in this process, where it now knows that
// there is no sandbox.
func (p *program) run2(c *cobra.Command, args []string) error {
	root := p.command()
	root.SetArgs(args)
	return root.ExecuteContext(c.Context())
}

// exited passes on what the process in the sandbox came to; it has printed.
func exited(code int) error {
	switch code {
	case exitPass:
		return nil
	case exitFail:
		return errVerdict{ringproof.Fail}
	case exitInconclusive:
		return errVerdict{ringproof.Inconclusive}
	}
	os.Exit(code)
	return nil
}

// leaveWord writes a result.json that says why there is no other.
func leaveWord(f runFlags, why error) error {
	return reports.Write(f.out, reports.Report{Error: why.Error(), Subject: f.subject, World: f.world, Started: time.Now().UTC()})
}

// install builds every etcd release that the jobs need, and its tools where they are
// run. Inside the sandbox there is no network, and all are there.
func install(c *cobra.Command, f *runFlags, jobs []harness.Job) (map[string]etcdbin.Release, error) {
	releases := map[string]etcdbin.Release{}
	progress := func(line string) {
		if !machines.Inside() { // where all has been built
			fmt.Fprintln(c.ErrOrStderr(), line)
		}
	}
	if build := f.in().Build; build != nil {
		var err error
		if f.kit, err = build(c.Context(), progress); err != nil {
			return nil, err
		}
		f.ringadm = f.kit.Ringadm
	}
	if f.kit.Ringadm != "" && slices.ContainsFunc(jobs, func(j harness.Job) bool {
		return j.NotApplicable+j.Lacking == "" && j.Plan.Ring.On == ringproof.OnKubernetes
	}) {
		var err error
		if f.kit, err = f.kit.WithKubernetes(c.Context(), progress); err != nil {
			return nil, err
		}
	}
	for _, j := range jobs {
		if j.NotApplicable+j.Lacking != "" {
			continue
		}
		who, err := f.contenderOf(io.Discard, j.Plan)
		if err != nil {
			return nil, err
		}
		if dir := who.main(); dir != "" && f.kit.Programs[dir] == "" {
			if f.kit, err = f.kit.WithProgram(c.Context(), dir, progress); err != nil {
				return nil, err
			}
		}
		for _, version := range j.Plan.Versions() {
			if r, have := releases[version]; have && (r.Etcdctl != "" || !who.tools()) {
				continue
			}
			r, err := f.release(c.Context(), version, who.tools(), progress)
			if err != nil {
				return nil, err
			}
			releases[version] = r
		}
	}
	return releases, nil
}

// release is the release, with its tools if they are run.
func (f runFlags) release(ctx context.Context, version string, tools bool, progress func(string)) (etcdbin.Release, error) {
	if f.etcdBin != "" {
		r, err := etcdbin.FromDir(ctx, f.etcdBin)
		if err == nil && tools && r.Etcdctl == "" {
			err = fmt.Errorf("--etcd-bin %s: the subject runs etcdctl, and there is none", f.etcdBin)
		}
		return r, err
	}
	cache, err := etcdbin.DefaultCache()
	if err != nil {
		return etcdbin.Release{}, err
	}
	if f.kit.Etcd.Dir != "" {
		cache = f.kit.Etcd
	}
	if tools {
		return cache.InstallTools(ctx, version, progress)
	}
	return cache.Install(ctx, version, progress)
}

// conduct runs the jobs and reports.
func conduct(c *cobra.Command, f runFlags, jobs []harness.Job, releases map[string]etcdbin.Release) error {
	report := f.report(jobs[0].Plan.Subject, releases)
	cells, err := f.cellsOf(c, jobs, releases)
	if err != nil {
		return err
	}
	report.Cells = cells
	if err := reports.Write(f.out, report); err != nil {
		return environment(err)
	}
	for i, cell := range report.Cells {
		if how := parted(jobs[i].Plan, cell); how != "" {
			fmt.Fprintln(c.ErrOrStderr(), how)
		}
	}
	if err := announced(c, report); err != nil {
		return environment(err)
	}
	return told(c, f.out, report)
}

// parted says that a saved plan took another way than when it was saved; "": it didn't, or
// that isn't known.
func parted(p ringproof.Plan, now reports.Cell) string {
	if p.Expect == nil || p.Expect.Hash == "" || now.Trace == "" || strings.HasPrefix(now.Trace, p.Expect.Hash) {
		return ""
	}
	hash, _, _ := strings.Cut(now.Trace, ",")
	return fmt.Sprintf("%s took another way than when its plan was saved: trace %s, and %s then. Another build may; where it is the same one, %s is not repeatable", p.Cell, hash, p.Expect.Hash, p.Subject)
}

// report is the report of a run that begins now.
func (f runFlags) report(subject string, releases map[string]etcdbin.Release) reports.Report {
	r := reports.Report{Subject: subject, World: f.world, Command: commandLine(), Started: time.Now().UTC()}
	r.Tools = ringproof.Tools{Ringproof: version(), Go: goVersion(), Etcd: map[string]string{}}
	for v, release := range releases {
		r.Tools.Etcd[v] = release.Digests["etcd"]
	}
	return r
}

// cellsOf runs the jobs, and tells how it goes.
func (f runFlags) cellsOf(c *cobra.Command, jobs []harness.Job, releases map[string]etcdbin.Release) ([]reports.Cell, error) {
	world, err := f.opens(jobs, releases)
	if err == nil {
		err = reports.Prepare(f.out)
	}
	if err != nil {
		return nil, environment(err)
	}
	teller := newTeller(c.ErrOrStderr(), f.verbose)
	defer teller.end()
	s := harness.Suite{Jobs: jobs, Out: f.out, Abreast: f.jobs, Twice: f.twice, Attempts: f.attempts, OnProgress: teller.tell, Replay: f.replayLine, World: world, Seen: f.seen}
	return s.Run(c.Context()), nil
}

// processes is who is on trial in the plan, in the local world.
func (f runFlags) processes(p ringproof.Plan) (trial.Subject, error) {
	who, err := f.contenderOf(io.Discard, p)
	if err != nil {
		return nil, err
	}
	return who.processes(f, p.Ring.On)
}

// opens makes the worlds of the jobs, once it is known that whoever is on trial can be
// started.
func (f runFlags) opens(jobs []harness.Job, releases map[string]etcdbin.Release) (func(ringproof.Plan) (ringproof.World, error), error) {
	in := f.in()
	for _, j := range jobs {
		if in.Simulated {
			break
		}
		if _, err := f.processes(j.Plan); err != nil {
			return nil, err
		}
	}
	return func(p ringproof.Plan) (ringproof.World, error) { return f.enter(p, releases, nil) }, nil
}

// enter opens the world of a plan. traced is told of all that happens in it, line by line,
// where it is the same in every run; nil: nobody is.
func (f runFlags) enter(p ringproof.Plan, releases map[string]etcdbin.Release, traced func(string)) (ringproof.World, error) {
	t, err := f.tried(p)
	if err != nil {
		return nil, err
	}
	who, err := f.contenderOf(io.Discard, p)
	if err != nil {
		return nil, err
	}
	t.main = who.main()
	t.releases, t.kit, t.traced, t.ringadm, t.over, t.program = releases, f.kit, traced, f.findRingadm, f.over, func() (trial.Subject, error) { return f.processes(p) }
	return f.in().Open(t)
}

// tried is the plan with who is on trial in it: one whom a file describes is nobody
// that the registry knows.
func (f runFlags) tried(p ringproof.Plan) (Trial, error) {
	if p.SubjectFile != "" {
		return Trial{Plan: p, Version: version()}, nil
	}
	return f.Registry.trial(p)
}

// seen is what the run of the plan sees in its world's place.
func (f runFlags) seen(p ringproof.Plan, w ringproof.World) ringproof.World {
	t, err := f.tried(p)
	if err != nil {
		return w // its world has not been opened
	}
	return t.seen(w)
}

// findRingadm looks beside this program, where make build puts it.
func (f runFlags) findRingadm() (string, error) {
	path := f.ringadm
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		path = filepath.Join(filepath.Dir(self), "ringadm")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if stat, err := os.Stat(path); err != nil || stat.IsDir() {
		return "", fmt.Errorf("no ringadm at %s: run make build, or name one with --ringadm", path)
	}
	return path, nil
}

func (f runFlags) replayLine(planFile string, p ringproof.Plan) string {
	if p.World == f.Worlds[0].Name { // the default of --world
		return explore.Replay(planFile)
	}
	return explore.Replay(planFile, "--world", p.World)
}

func commandLine() string { return strings.Join(append([]string{"ringproof"}, os.Args[1:]...), " ") }

func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return b.Main.Version
}

func style(w io.Writer) reports.Style {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return reports.Style{}
	}
	width, _, _ := term.GetSize(int(f.Fd()))
	return reports.Style{Color: os.Getenv("NO_COLOR") == "", Width: width}
}

// abreast is how many cells run at once: most of a cell is waiting, so more
// than there are processors, and not so many that real time runs late.
func abreast() int { return min(2*runtime.NumCPU(), 8) }
