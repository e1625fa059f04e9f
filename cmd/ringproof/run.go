// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/internal/suite"
	"github.com/ringproof/ringproof/reports"
	"github.com/ringproof/ringproof/scenarios"
	"github.com/ringproof/ringproof/sim"
)

// runFlags are the flags of run and replay.
type runFlags struct {
	world   string
	out     string
	subject string
	beside  string
	first   bool
	cells   []string
	seed    uint64
	seeds   uint64
	jobs    int
	etcdBin string
	ringadm string
	verbose bool
}

func (f *runFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.world, "world", "sim", "where to run: sim (simulated, in virtual time) or local (real etcd on this host)")
	c.Flags().StringVar(&f.out, "out", "", "directory for the report (default out/TIME)")
	c.Flags().IntVar(&f.jobs, "jobs", abreast(), "cells to run at once; most of a cell is waiting")
	c.Flags().StringVar(&f.etcdBin, "etcd-bin", "", "directory with your own build of etcd, used for every release")
	c.Flags().StringVar(&f.ringadm, "ringadm", "", "the ringadm to put on trial (default: beside ringproof)")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "tell every event as it happens")
}

func runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [SCENARIO.yaml...]",
		Short: "run scenarios and judge them; without arguments the shipped ones",
		Example: `  ringproof run
  ringproof run --run 'create[etcd=v3.6.16,size=3]' -v
  ringproof run --subject reference+voter-first --run create
  ringproof run --run volume-lost --beside reference+reset-all`,
		RunE: func(c *cobra.Command, args []string) error { return runScenarios(c, f, args) },
	}
	f.add(c)
	c.Flags().StringVar(&f.subject, "subject", "reference", "what is on trial: reference, or reference+MUTANT (see list mutants)")
	c.Flags().StringVar(&f.beside, "beside", "", "another subject to run the same cells with, for comparison")
	c.Flags().StringArrayVar(&f.cells, "run", nil, "only cells of this name, or beginning of a name: scenario, scenario[k=v] or scenario[k=v]#seed; repeatable")
	c.Flags().BoolVar(&f.first, "first", false, "only the first cell of each scenario: a short look at all of them")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the first run of each cell")
	c.Flags().Uint64Var(&f.seeds, "seeds", 1, "how many seeds to run each cell with")
	return c
}

func replayCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "replay PLAN|CELL",
		Short: "run one plan again: a plan.yaml of a report, or a cell by its name",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("replay takes a plan file or a cell's name, as scenario[k=v]#1")
			}
			return replay(c, f, args[0])
		},
	}
	f.add(c)
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
			f.subject = "reference"
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
		plan.Subject = f.subject
	}
	if _, err := subject.Parse(plan.Subject); err != nil {
		return usage("%w", err)
	}
	return runJobs(c, f, []suite.Job{{Plan: plan}})
}

// runScenarios resolves scenarios into jobs and runs them.
func runScenarios(c *cobra.Command, f runFlags, files []string) error {
	jobs, err := f.chosen(c, files)
	if err != nil {
		return err
	}
	return runJobs(c, f, jobs)
}

// chosen are the jobs that the flags ask for.
func (f runFlags) chosen(c *cobra.Command, files []string) ([]suite.Job, error) {
	if err := known(f.world); err != nil {
		return nil, err
	}
	loaded, err := load(c.ErrOrStderr(), files)
	if err != nil {
		return nil, err
	}
	mutants, err := subject.Parse(f.subject)
	if err == nil && f.beside != "" {
		_, err = subject.Parse(f.beside)
	}
	if err != nil {
		return nil, usage("%w", err)
	}
	patterns, err := f.patterns(mutants, len(files) > 0)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 && len(patterns) > 0 {
		// A canary fails where all is well, so it runs only when it is named.
		canaries, err := scenarios.Canaries()
		if err != nil {
			return nil, err
		}
		loaded = append(loaded, canaries...)
	}
	return f.jobsOf(c, loaded, patterns)
}

// patterns are the cells asked for. A mutant without a choice of cells is run
// on the scenario that shows its harm.
func (f runFlags) patterns(mutants []subject.Mutant, own bool) ([]scenarios.Cell, error) {
	names := f.cells
	if len(names) == 0 && !own {
		for _, m := range mutants {
			names = append(names, m.Scenario)
		}
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

func (f runFlags) jobsOf(c *cobra.Command, loaded []*scenarios.Scenario, patterns []scenarios.Cell) ([]suite.Job, error) {
	var jobs []suite.Job
	world := place{f.world}
	matched := map[int]bool{}
	for _, s := range loaded {
		for _, cell := range f.seeded(s, patterns) {
			if !selected(cell, patterns, matched) {
				continue
			}
			found, err := f.resolve(c.ErrOrStderr(), s, cell, world)
			if err != nil {
				return nil, err
			}
			if jobs = append(jobs, found...); f.first {
				break
			}
		}
	}
	for i, p := range patterns {
		if !matched[i] {
			return nil, usage("no cell matches %q; %s", p, unmatched(p, loaded))
		}
	}
	return jobs, nil
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

// seeded lists the scenario's cells with every seed asked for, those that a
// pattern names included.
func (f runFlags) seeded(s *scenarios.Scenario, patterns []scenarios.Cell) []scenarios.Cell {
	var seeds []uint64
	for n := range f.seeds {
		seeds = append(seeds, f.seed+n)
	}
	for _, p := range patterns {
		if p.Seeded && !slices.Contains(seeds, p.Seed) {
			seeds = append(seeds, p.Seed)
		}
	}
	var cells []scenarios.Cell
	for _, seed := range seeds {
		cells = append(cells, s.Cells(seed)...)
	}
	return cells
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

func (f runFlags) resolve(w io.Writer, s *scenarios.Scenario, cell scenarios.Cell, world place) ([]suite.Job, error) {
	plan, found := s.Resolve(cell, f.subject, world)
	if found.Failed() {
		fmt.Fprint(w, found)
		return nil, usage("%s can't be run", cell)
	}
	job := suite.Job{Plan: plan, NotApplicable: found.Inapplicable()}
	beside := f.besides(s)
	if beside == "" {
		return []suite.Job{job}, nil
	}
	other := job
	other.Plan.Subject, other.Beside = beside, true
	return []suite.Job{job, other}, nil
}

// besides is who runs the same cells for comparison: whom the command line
// names, or whom the scenario's label names beside the reference.
func (f runFlags) besides(s *scenarios.Scenario) string {
	if label := s.Labels["beside"]; f.beside == "" && f.subject == "reference" && label != "" {
		return f.subject + "+" + label
	}
	return f.beside
}

// place is the world as resolving needs to know it: what this host can do.
type place struct{ name string }

func (p place) Name() string { return p.name }

// Supports asks inside the sandbox, where the answer is known; outside
// everything is still possible.
func (p place) Supports(s ringproof.Step) error {
	if p.name == "sim" {
		return sim.Supports(s)
	}
	if machines.Inside() || os.Getenv(bare) == "" {
		return nil
	}
	return local.Supports(s, fmt.Errorf("this host gives ringproof no namespaces: %w; see ringproof doctor", errors.ErrUnsupported))
}

// bare marks the process that goes on without a sandbox.
const bare = "RINGPROOF_BARE"

// runJobs runs the jobs where they are to run, and reports.
func runJobs(c *cobra.Command, f runFlags, jobs []suite.Job) error {
	return enclosed(c, f, jobs, func(f runFlags, releases map[string]etcdbin.Release) error {
		return conduct(c, f, jobs, releases)
	})
}

// outNow is where a report goes when nobody says.
func outNow() string { return filepath.Join("out", time.Now().UTC().Format("20060102T150405Z")) }

// enclosed makes ready what the jobs need of the network, then does the work
// in a sandbox. Outside of it the work is this same command line again. What is
// simulated needs neither.
func enclosed(c *cobra.Command, f runFlags, jobs []suite.Job, work func(runFlags, map[string]etcdbin.Release) error) error {
	if len(jobs) == 0 {
		return usage("there is nothing to run")
	}
	if f.out == "" {
		f.out = outNow()
	}
	if f.world == "sim" {
		f.jobs = 1 // a simulated world has crypto/rand to itself
		return work(f, nil)
	}
	releases, err := install(c, f, jobs)
	if err != nil {
		return errors.Join(notInstalled(err), leaveWord(f, err))
	}
	if !machines.Inside() && os.Getenv(bare) == "" {
		args := slices.Clone(os.Args[1:])
		if !c.Flags().Changed("out") {
			args = slices.Insert(args, 1, "--out", f.out) // both processes must mean the same one
		}
		code, err := machines.Sandbox(c.Context(), args, os.Environ())
		if err == nil {
			return exited(code)
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return environment(err)
		}
		fmt.Fprintf(c.ErrOrStderr(), "going on without namespaces: %v\n", err)
		os.Setenv(bare, "1")
		return run2(c, args)
	}
	return work(f, releases)
}

// run2 runs the command line again in this process, where it now knows that
// there is no sandbox.
func run2(c *cobra.Command, args []string) error {
	root := command()
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

// install builds every etcd release that the jobs need. Inside the sandbox
// there is no network, and all are there.
func install(c *cobra.Command, f runFlags, jobs []suite.Job) (map[string]etcdbin.Release, error) {
	releases := map[string]etcdbin.Release{}
	for _, j := range jobs {
		version := j.Plan.Ring.Version
		if _, have := releases[version]; have || j.NotApplicable != "" {
			continue
		}
		r, err := f.release(c.Context(), version, func(line string) { fmt.Fprintln(c.ErrOrStderr(), line) })
		if err != nil {
			return nil, err
		}
		releases[version] = r
	}
	return releases, nil
}

func (f runFlags) release(ctx context.Context, version string, progress func(string)) (etcdbin.Release, error) {
	if f.etcdBin != "" {
		return etcdbin.FromDir(ctx, f.etcdBin)
	}
	cache, err := etcdbin.DefaultCache()
	if err != nil {
		return etcdbin.Release{}, err
	}
	return cache.Install(ctx, version, progress)
}

// conduct runs the jobs and reports.
func conduct(c *cobra.Command, f runFlags, jobs []suite.Job, releases map[string]etcdbin.Release) error {
	report := f.report(jobs[0].Plan.Subject, releases)
	cells, err := f.cellsOf(c, jobs, releases)
	if err != nil {
		return err
	}
	report.Cells = cells
	if err := reports.Write(f.out, report); err != nil {
		return environment(err)
	}
	return told(c, f.out, report)
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
func (f runFlags) cellsOf(c *cobra.Command, jobs []suite.Job, releases map[string]etcdbin.Release) ([]reports.Cell, error) {
	world, err := f.worlds(releases)
	if err == nil {
		err = os.MkdirAll(f.out, 0o755)
	}
	if err != nil {
		return nil, environment(err)
	}
	teller := newTeller(c.ErrOrStderr(), f.verbose)
	defer teller.end()
	s := suite.Suite{Jobs: jobs, Out: f.out, Abreast: f.jobs, Told: teller.tell, Replay: f.replayLine, World: world}
	return s.Run(c.Context()), nil
}

// worlds makes the worlds that the plans run in.
func (f runFlags) worlds(releases map[string]etcdbin.Release) (func(ringproof.Plan) (ringproof.World, error), error) {
	if f.world == "sim" {
		return simWorld, nil
	}
	ringadm, err := f.findRingadm()
	return func(p ringproof.Plan) (ringproof.World, error) { return newWorld(p, releases, ringadm) }, err
}

func newWorld(p ringproof.Plan, releases map[string]etcdbin.Release, ringadm string) (ringproof.World, error) {
	mutants, err := subject.Parse(p.Subject)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	trial := &subject.Processes{Ringadm: ringadm, Self: self}
	for _, m := range mutants {
		trial.Mutants = append(trial.Mutants, m.Name)
	}
	return &local.World{Releases: map[string]etcdbin.Release{p.Ring.Version: releases[p.Ring.Version]}, Subject: trial, Version: version()}, nil
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

func (f runFlags) replayLine(planFile string, _ ringproof.Plan) string {
	return "ringproof replay " + planFile
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
