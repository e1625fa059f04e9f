// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/scenarios"
)

// Sweep runs one plan again and again, each time with one more fault: the agent
// dies before or after one of its side effects, or loses the reply; its disk or
// its machine is lost with it, or the ring's leader with the reply; or it decides
// once on an old view, or misses a decision. Every effect and every decision of
// an undisturbed run gets its turn.
type Sweep struct {
	Runner Runner
	Plan   ringproof.Plan
	Pairs  bool   // two faults at a time, and not one
	Limit  int    // the most plans; those that are run are drawn by Seed. 0: all
	Seed   uint64 // of that draw
	Full   bool   // leave none out
	At     string // only effects and decisions with this in their name; "": all
	// Fits reports whether a plan can be had where the runner runs it; a fault with which it
	// can't is left out. nil: all can.
	Fits       func(ringproof.Plan) bool
	OnProgress func(*Swept)
}

// Perturbation is one fault of a sweep, and what it is aimed at.
type Perturbation struct {
	At    string // the effect, or the decision
	How   string // before, after, reply-lost, late, unseen, disk, machine, leader, stale-view, skipped-view
	Fault ringproof.Fault
	Then  *ringproof.Fault // what is lost as soon as Fault has landed; nil: nothing
}

// The faults of a sweep.
var (
	effectPhases  = []string{"before", "after", "reply-lost"}
	requestPhases = []string{"before", "after", "reply-lost", "late"}           // of what is asked of others
	cachePhases   = []string{"before", "after", "reply-lost", "late", "unseen"} // of what a cache hears of
	decisionKinds = []ringproof.FaultKind{ringproof.FaultStaleView, ringproof.FaultSkippedView}
)

// losses are what may go with an effect, and the phase that it goes with: who
// loses its disk or its machine has done the effect and dies of it; a leader that
// dies takes its answer along.
func losses(e ringproof.Effect) []Perturbation {
	leader := Perturbation{e.Name, "leader", cut(e, "reply-lost"), &ringproof.Fault{Kind: ringproof.FaultKill, Target: "leader", Scope: "machine", For: away}}
	if e.Machine == "" { // a controller has no disk of the ring's
		return []Perturbation{leader}
	}
	return []Perturbation{
		{e.Name, "disk", cut(e, "after"), &ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: e.Machine}},
		{e.Name, "machine", cut(e, "after"), &ringproof.Fault{Kind: ringproof.FaultMachineLoss, Target: e.Machine}},
		leader,
	}
}

const (
	down      = 2 * second  // how long an agent that died stays away
	away      = 10 * second // how long a leader that died stays away
	staleBack = 3           // decisions
	missed    = 2           // decisions
)

// Swept is what a sweep came to so far.
type Swept struct {
	Cell       string `json:"cell"`
	Effects    int    `json:"effects"` // of the undisturbed run
	Decisions  int    `json:"decisions"`
	Pruned     int    `json:"pruned"`     // faults left out, as another hits the same effect in the same state
	Plans      int    `json:"plans"`      // to run
	Unsampled  int    `json:"unsampled"`  // faults, or pairs, that were not drawn
	Unasked    int    `json:"unasked"`    // faults at what isn't asked for by its name
	Unfit      int    `json:"unfit"`      // faults that can't be had in that world
	NotReached int    `json:"notReached"` // runs that took another way, so that the fault hit nothing
	Rows       []Row  `json:"rows"`
	Tally      *Tally `json:"tally"`
}

// Row is what a sweep came to at one kind of effect or decision.
type Row struct {
	At         string  `json:"at"`
	How        string  `json:"how"`
	Plans      int     `json:"plans"`
	Failed     int     `json:"failed"`     // runs with a finding
	NotReached int     `json:"notReached"` // runs in which it did not come to that
	SimSeconds float64 `json:"simSeconds"`
	Seconds    float64 `json:"seconds"` // on the wall, all workers together
}

// Run sweeps. An end of ctx is no error: the result says how far it came.
func (s Sweep) Run(ctx context.Context) (*Swept, error) {
	first := s.Runner.Run(ctx, []Job{{Plan: s.Plan, Options: Options{Journal: true}}})[0]
	swept := &Swept{Cell: s.Plan.Cell, Rows: []Row{}, Tally: newTally(s.Plan.Seed)}
	switch {
	case first.Err != nil:
		return swept, fmt.Errorf("running %s undisturbed: %w", s.Plan.Cell, first.Err)
	case len(first.Outcome.failing()) > 0:
		swept.Tally.count(Genome{}, s.Plan, first)
		return swept, nil // what it would find is found already
	case first.Outcome.Journal == nil:
		return swept, fmt.Errorf("running %s undisturbed: the run kept no journal of the subject's effects (%s)", s.Plan.Cell, first.Outcome.doubt())
	}
	single, pruned := Perturbations(*first.Outcome.Journal, s.Full)
	swept.Effects, swept.Decisions, swept.Pruned = len(first.Outcome.Journal.Effects), len(first.Outcome.Journal.Decisions), pruned
	return swept, s.each(ctx, swept, s.groups(swept, s.fitting(swept, single)))
}

// fitting are the faults that are asked for, and can be had where the plans run. An agent
// that dies in a pod is away for as long as its kubelet has it be.
func (s Sweep) fitting(w *Swept, all []Perturbation) (fit []Perturbation) {
	asked := slices.DeleteFunc(slices.Clone(all), func(p Perturbation) bool { return !strings.Contains(p.At, s.At) })
	for _, p := range asked {
		if s.Plan.Ring.On == ringproof.OnKubernetes {
			p.Fault.For = 0
		}
		if s.Fits == nil || s.Fits(s.perturbed(1, []Perturbation{p})) {
			fit = append(fit, p)
		}
	}
	w.Unasked, w.Unfit = len(all)-len(asked), len(asked)-len(fit)
	return fit
}

// Perturbations lists the faults that a journal calls for, in its order. Unless
// all are wanted, of those that hit the same effect in the same way while the
// ring was in the same known state the first is taken; pruned counts the rest.
func Perturbations(j ringproof.Journal, full bool) (all []Perturbation, pruned int) {
	taken := map[string]bool{}
	take := func(p Perturbation, state string) {
		key := strings.Join([]string{p.At, p.How, state}, "\x00")
		if !full && state != "" && taken[key] {
			pruned++
			return
		}
		taken[key] = true
		all = append(all, p)
	}
	for _, e := range j.Effects {
		for _, phase := range phasesOf(e) {
			if f := cut(e, phase); f.Nth > 0 {
				take(Perturbation{At: e.Name, How: phase, Fault: f}, e.State)
			}
		}
		for _, p := range losses(e) {
			if p.Fault.Nth > 0 {
				take(p, e.State)
			}
		}
	}
	for _, d := range j.Decisions {
		for _, kind := range decisionKinds {
			take(Perturbation{At: "decision " + d.What, How: string(kind), Fault: blur(d, kind)}, d.State)
		}
	}
	return all, pruned
}

// uncached are effects of the reference whose objects it reads of no cache.
var uncached = []string{"kube create secret", "kube create configmap", "kube update secret", "kube update configmap"}

// phases are those in which the effect may be cut.
func phasesOf(e ringproof.Effect) []string {
	if faults.Unseeable(e.Name) && !slices.Contains(uncached, e.Name) {
		return cachePhases
	}
	if faults.Delayable(e.Name) {
		return requestPhases
	}
	return effectPhases
}

// cut is the agent's death, or the lost reply, at the effect.
func cut(e ringproof.Effect, phase string) ringproof.Fault {
	f := ringproof.Fault{Kind: ringproof.FaultAgentCrash, Target: e.Machine, Scope: e.Scope, Effect: e.Name, Phase: phase, Nth: e.Nth, For: down}
	switch phase {
	case "before":
	case "late":
		f.For = 0 // as long as it takes for whoever asked to give up, and more
	default:
		f.Nth = e.Done
	}
	return f
}

// blur is the old view at the decision, or the decision missed.
func blur(d ringproof.Decision, kind ringproof.FaultKind) ringproof.Fault {
	f := ringproof.Fault{Kind: kind, Target: d.Machine, Scope: d.Scope, Decision: d.What, Nth: d.Nth, Count: missed}
	if kind == ringproof.FaultStaleView {
		f.Back = staleBack
	}
	return f
}

// groups are the faults of each plan: one, or two.
func (s Sweep) groups(w *Swept, single []Perturbation) [][]Perturbation {
	var groups [][]Perturbation
	if !s.Pairs {
		for _, i := range spread(s.Seed, single, s.Limit) {
			groups = append(groups, []Perturbation{single[i]})
		}
		w.Unsampled = len(single) - len(groups)
		return groups
	}
	n := len(single)
	all := n * (n - 1) / 2
	for _, k := range sample(s.Seed, all, s.Limit) {
		i, j := pair(k)
		groups = append(groups, []Perturbation{single[i], single[j]})
	}
	w.Unsampled = all - len(groups)
	return groups
}

// spread draws limit of the faults, in their order, and of each kind of effect or decision
// and fault one before another of any; all of them when limit is 0.
func spread(seed uint64, single []Perturbation, limit int) []int {
	drawn := make([]int, len(single))
	for i := range drawn {
		drawn[i] = i
	}
	if limit == 0 || limit >= len(single) {
		return drawn
	}
	luck := func(i int) uint64 { return hash(seed, fmt.Sprintf("single/%d", i)) }
	slices.SortFunc(drawn, func(i, j int) int { return cmp.Compare(luck(i), luck(j)) })
	turn, turns := map[[2]string]int{}, make([]int, len(single))
	for _, i := range drawn {
		kind := [2]string{single[i].At, single[i].How}
		turns[i] = turn[kind]
		turn[kind]++
	}
	slices.SortStableFunc(drawn, func(i, j int) int { return turns[i] - turns[j] })
	drawn = drawn[:limit]
	slices.Sort(drawn)
	return drawn
}

// pair is the kth of all pairs i < j: (0,1), (0,2), (1,2), (0,3), …
func pair(k int) (i, j int) {
	j = 1
	for k >= j {
		k -= j
		j++
	}
	return k, j
}

// sample draws limit of the numbers below n, in order; all of them when limit
// is 0 or no less than n.
func sample(seed uint64, n, limit int) []int {
	drawn := map[int]bool{}
	if limit == 0 || limit >= n {
		limit = n
	}
	// Floyd's: each set of that size is equally likely, with as many draws.
	for i := n - limit; i < n; i++ {
		k := int(hash(seed, fmt.Sprintf("pair/%d", i)) % uint64(i+1))
		if drawn[k] {
			k = i
		}
		drawn[k] = true
	}
	return slices.Sorted(maps.Keys(drawn))
}

// each runs the plans, so many at a time that somebody who waits is told.
func (s Sweep) each(ctx context.Context, w *Swept, groups [][]Perturbation) error {
	w.Plans = len(groups)
	for begin := 0; begin < len(groups) && ctx.Err() == nil; begin += round {
		chunk := groups[begin:min(begin+round, len(groups))]
		jobs := make([]Job, len(chunk))
		for i, g := range chunk {
			jobs[i].Plan = s.perturbed(begin+i+1, g)
		}
		for i, r := range s.Runner.Run(ctx, jobs) {
			if r.Err != nil && ctx.Err() != nil {
				return nil
			}
			if r.Err != nil {
				return fmt.Errorf("running %s: %w", jobs[i].Plan.Cell, r.Err)
			}
			w.count(chunk[i], jobs[i].Plan, r)
		}
		w.Tally.WallSeconds = time.Since(w.Tally.began).Seconds()
		if s.OnProgress != nil {
			s.OnProgress(w)
		}
	}
	return nil
}

// perturbed is the plan with the faults set before all else, as the journal
// counts from there.
func (s Sweep) perturbed(n int, g []Perturbation) ringproof.Plan {
	return edit(s.Plan, func(p *ringproof.Plan) {
		if cell, err := scenarios.ParseCellName(p.Cell); err == nil {
			cell.Values = maps.Clone(cell.Values)
			if cell.Values == nil {
				cell.Values = map[string]string{}
			}
			cell.Values["sweep"] = fmt.Sprint(n)
			p.Cell = cell.String()
		}
		p.Invariants = unbounded(p.Invariants)
		// Without a fault of its own to miss, the plan can ask that the sweep's lands.
		p.Assumptions.FaultsFired = p.Assumptions.FaultsFired || len(faultSteps(*p)) == 0
		var set []ringproof.Step
		for i := range g {
			set = append(set, g[i].steps(fmt.Sprintf("%s%d", sweepStep, i+1))...)
			if g[i].How == "disk" || g[i].How == "machine" {
				outlasting(p, lossMended)
			}
		}
		p.Steps = append(set, p.Steps...)
	})
}

// lossMended is how long a ring may take longer for a disk or a machine that is
// lost: it may first be waited for.
const lossMended = 120 * second

// steps set the fault before all else, and let what is lost follow it.
func (p Perturbation) steps(name string) []ringproof.Step {
	all := []ringproof.Step{{Name: name, Detach: true, Timeout: 60 * second, Fault: &p.Fault,
		After: &ringproof.Trigger{Event: ringproof.EventRunBegins, Nth: 1, Timeout: 20 * second}}}
	if p.Then != nil {
		all = append(all, ringproof.Step{Name: name + "-" + p.How, Detach: true, Fault: p.Then,
			After: &ringproof.Trigger{Event: ringproof.EventFaultLanded, Step: name, Since: ringproof.EventRunBegins, Nth: 1, Timeout: 600 * second}})
	}
	return all
}

// outlasting gives what the plan waits for that much more time.
func outlasting(p *ringproof.Plan, more ringproof.Duration) {
	later := func(d ringproof.Duration) ringproof.Duration { return cmp.Or(d, 60*second) + more }
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.After != nil {
			s.After.Timeout = later(s.After.Timeout)
		}
		if s.Op != nil {
			s.Timeout = later(s.Timeout)
		}
		if s.Assert != nil {
			s.Timeout, s.Assert.Within = later(s.Timeout), later(s.Assert.Within)
		}
	}
	for i, v := range p.Invariants {
		if v.Check == "converges" {
			p.Invariants[i].Params = map[string]string{"within": (90*second + more).String()}
		}
	}
}

// unbounded leaves out what the plan asserts of a run without the sweep's faults:
// how long clients wait, how much is changed, how long the rest is.
func unbounded(invariants []ringproof.Invariant) []ringproof.Invariant {
	all := slices.Clone(invariants)
	for i, v := range all {
		if v.Check == "available" || v.Check == "work-bounded" || v.Check == "quiescent" {
			all[i].Params = nil
		}
	}
	return all
}

// sweepStep begins the names of the steps that a sweep adds.
const sweepStep = "sweep-"

func (w *Swept) count(g []Perturbation, p ringproof.Plan, r Result) {
	row := w.row(g)
	row.Plans++
	row.SimSeconds += r.Outcome.SimSeconds
	row.Seconds += r.Outcome.WallSeconds
	if len(r.Outcome.failing()) > 0 {
		row.Failed++
	} else if r.Outcome.missed(g) {
		row.NotReached++
		w.NotReached++
		r.Outcome.Verdict = ringproof.Pass // it is the plan, undisturbed
	}
	w.Tally.count(Genome{}, p, r)
}

// missed reports whether all that is wrong is that a sweep's fault hit nothing, or that
// a fault of the plan's own was milder than it is written: m2's disk is lost with an
// effect of its agent, and a moment later the plan's own loss would leave no quorum.
func (o Outcome) missed(g []Perturbation) bool {
	lost := slices.ContainsFunc(g, func(p Perturbation) bool { return p.Then != nil })
	for _, f := range o.Findings {
		if f.Verdict != ringproof.Pass && !(f.Check == "assumptions" && (lost || strings.Contains(f.Message, sweepStep))) {
			return false
		}
	}
	return o.Verdict == ringproof.Inconclusive
}

// row is where the faults are counted: by effect, and pairs by how they hit it.
func (w *Swept) row(g []Perturbation) *Row {
	at, how := g[0].At, g[0].How
	if len(g) > 1 {
		at, how = "pairs", g[0].How+" + "+g[1].How
	}
	i := slices.IndexFunc(w.Rows, func(r Row) bool { return r.At == at && r.How == how })
	if i < 0 {
		i = len(w.Rows)
		w.Rows = append(w.Rows, Row{At: at, How: how})
	}
	return &w.Rows[i]
}
