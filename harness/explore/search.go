// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

// Search draws plans from seeds and runs them. What it draws depends on the
// seeds and the outcomes alone, and not on how many run at once.
type Search struct {
	Runner  Runner
	Subject string // "reference", "reference+voter-first"
	On      string // "kubernetes": rings in pods; "": on machines
	Seed    uint64 // of the first plan; the next has the next
	Runs    int    // plans to draw; 0: until ctx ends, or Until says so
	// Novelty draws half of the plans by mutating those that showed something
	// new. Then a plan isn't known by its seed alone, as it depends on what the
	// plans before it came to.
	Novelty bool
	// Verify runs each plan once more, in another process: on Mirror.
	Verify bool
	Mirror Runner
	// Fit makes of a drawn plan one that the subject can be tried on; false: there is
	// none, and the plan is left out. nil: it can be tried on all of them.
	Fit     func(ringproof.Plan) (ringproof.Plan, bool)
	OnRound func(*Tally)      // is given the tally after each round; nil: nobody is
	Until   func(*Tally) bool // ends the search after a round; nil: never
}

// round is how many plans are drawn before any of them is learned from. It
// is the same whatever the number of workers, else that would decide which
// plans are drawn.
const round = 64

// Found is one distinct finding, with the first plan that showed it.
type Found struct {
	Key     string            `json:"key"`
	Finding ringproof.Finding `json:"finding"`
	Seed    uint64            `json:"seed"`    // of the first plan that showed it
	AtRun   int               `json:"atRun"`   // which run that was, from 1
	Seconds float64           `json:"seconds"` // on the wall, from the beginning to it
	Count   int               `json:"count"`   // runs that showed it
	Plan    ringproof.Plan    `json:"-"`
	Outcome Outcome           `json:"-"`
	Shrunk  *Shrunk           `json:"shrunk,omitempty"`
	Dir     string            `json:"dir,omitempty"`    // where it was saved
	Replay  string            `json:"replay,omitempty"` // the line to paste that shows it again
}

// Unsure is a run that could not be judged.
type Unsure struct {
	Cell   string         `json:"cell"`
	Why    string         `json:"why"`
	Plan   ringproof.Plan `json:"-"`
	Replay string         `json:"replay,omitempty"` // the line to paste that shows it again, once it is saved
}

// Tally is what a search came to so far.
type Tally struct {
	Seed         uint64       `json:"seed"`
	Runs         int          `json:"runs"`
	LeftOut      int          `json:"leftOut,omitempty"` // plans that the subject can't be tried on
	Events       int          `json:"events"`
	SimSeconds   float64      `json:"simSeconds"`
	WallSeconds  float64      `json:"wallSeconds"`
	Findings     []*Found     `json:"findings"`
	Inconclusive []Unsure     `json:"inconclusive"`
	Divergences  []Divergence `json:"divergences"`
	Tuples       int          `json:"tuples"`
	NewLately    int          `json:"newLately"` // new tuples in the last 1,000 runs

	known  map[string]bool // tuples
	fresh  []int           // by run: how many tuples it was the first to show
	corpus []Genome
	began  time.Time
}

func newTally(seed uint64) *Tally {
	return &Tally{Seed: seed, Findings: []*Found{}, Inconclusive: []Unsure{}, Divergences: []Divergence{}, known: map[string]bool{}, began: time.Now()}
}

// Run searches until the runs are done or ctx ends. An end of ctx is no error:
// the tally says how far the search came.
func (s Search) Run(ctx context.Context) (*Tally, error) {
	t := newTally(s.Seed)
	for ctx.Err() == nil && (s.Runs == 0 || t.drawn() < s.Runs) {
		n := round
		if s.Runs > 0 {
			n = min(n, s.Runs-t.drawn())
		}
		if err := s.round(ctx, t, n); err != nil {
			return t, err
		}
		if s.OnRound != nil {
			s.OnRound(t)
		}
		if s.Until != nil && s.Until(t) {
			break
		}
	}
	return t, nil
}

// round runs n plans.
func (s Search) round(ctx context.Context, t *Tally, n int) error {
	var genomes []Genome
	var jobs []Job
	from := s.Seed + uint64(t.drawn())
	for i := range n {
		seed := from + uint64(i)
		g := s.genome(t, seed)
		p, fits := s.plan(g, seed)
		if !fits {
			t.LeftOut++
			continue
		}
		genomes, jobs = append(genomes, g), append(jobs, Job{Plan: p})
	}
	results, again := s.run(ctx, jobs)
	for i, r := range results {
		if r.Err != nil {
			if ctx.Err() != nil {
				break // what ran after the end doesn't count
			}
			return fmt.Errorf("running %s: %w", jobs[i].Plan.Cell, r.Err)
		}
		t.count(genomes[i], jobs[i].Plan, r)
		if s.Verify && again[i].Err == nil && differ(r, again[i]) {
			t.Divergences = append(t.Divergences, s.divergence(ctx, jobs[i].Plan, r.Outcome, again[i].Outcome))
		}
	}
	t.WallSeconds = time.Since(t.began).Seconds()
	return nil
}

// drawn is how many plans were drawn, those left out too.
func (t *Tally) drawn() int { return t.Runs + t.LeftOut }

// plan is the genome's, as the subject can be tried on it.
func (s Search) plan(g Genome, seed uint64) (p ringproof.Plan, fits bool) {
	p = g.PlanOn(s.On, seed)
	p.Subject = s.Subject
	if s.Fit == nil {
		return p, true
	}
	return s.Fit(p)
}

// genome draws anew, or mutates one that showed something new.
func (s Search) genome(t *Tally, seed uint64) Genome {
	fresh := Genome{Seed: seed}
	n := len(t.corpus)
	if !s.Novelty || n == 0 || fresh.Draw("novelty/mutate", 2) == 0 {
		return fresh
	}
	parent := t.corpus[fresh.Draw("novelty/parent", n)]
	return parent.Mutant(seed, t.corpus[fresh.Draw("novelty/other", n)])
}

// run runs the jobs; when asked to, at the same time in other processes and in
// the reverse order, so that what a process remembers of earlier plans differs.
func (s Search) run(ctx context.Context, jobs []Job) (results, again []Result) {
	if !s.Verify {
		return s.Runner.Run(ctx, jobs), nil
	}
	backwards := slices.Clone(jobs)
	slices.Reverse(backwards)
	second := make(chan []Result)
	go func() { second <- s.Mirror.Run(ctx, backwards) }()
	results, again = s.Runner.Run(ctx, jobs), <-second
	slices.Reverse(again)
	return results, again
}

// lately is over how many runs new tuples are counted: when few are new, more
// runs show little.
const lately = 1000

// count adds one run.
func (t *Tally) count(g Genome, p ringproof.Plan, r Result) {
	t.Runs++
	o := r.Outcome
	t.SimSeconds += o.SimSeconds
	t.Events += o.Events
	fresh := 0
	for _, tuple := range o.Tuples {
		if !t.known[tuple] {
			t.known[tuple] = true
			fresh++
		}
	}
	if fresh > 0 {
		t.corpus = append(t.corpus, g)
	}
	t.fresh = append(t.fresh, fresh)
	t.Tuples += fresh
	t.NewLately += fresh
	if old := len(t.fresh) - 1 - lately; old >= 0 {
		t.NewLately -= t.fresh[old]
	}
	failing := o.failing()
	for _, f := range failing {
		t.find(f, p, o)
	}
	if len(failing) == 0 && o.Verdict != ringproof.Pass {
		t.Inconclusive = append(t.Inconclusive, Unsure{Cell: p.Cell, Why: o.doubt(), Plan: p})
	}
}

func (t *Tally) find(f ringproof.Finding, p ringproof.Plan, o Outcome) {
	key := Key(f)
	for _, known := range t.Findings {
		if known.Key == key {
			known.Count++
			return
		}
	}
	t.Findings = append(t.Findings, &Found{Key: key, Finding: f, Seed: p.Seed, AtRun: t.Runs, Seconds: time.Since(t.began).Seconds(), Count: 1, Plan: p, Outcome: o})
}

// doubt is why the outcome is inconclusive.
func (o Outcome) doubt() string {
	for _, f := range o.Findings {
		if f.Verdict == ringproof.Inconclusive {
			return f.Check + ": " + f.Message
		}
	}
	return "nothing was judged"
}

// Verdict merges all that was found.
func (t *Tally) Verdict() ringproof.Verdict {
	switch {
	case len(t.Findings)+len(t.Divergences) > 0:
		return ringproof.Fail
	case t.Runs == 0 || len(t.Inconclusive) > 0:
		return ringproof.Inconclusive
	}
	return ringproof.Pass
}

// Broken reports whether ringproof itself is at fault.
func (t *Tally) Broken() bool {
	return len(t.Divergences) > 0 || slices.ContainsFunc(t.Findings, func(f *Found) bool { return f.Finding.Check == Self })
}
