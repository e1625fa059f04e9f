// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// What a scenario doesn't say.
const (
	defaultVersion      = "v3.6.16"
	defaultReplaceAfter = ringproof.Duration(10 * time.Second)
	defaultVolume       = 512 << 20
	defaultClients      = 5
	defaultKeys         = 8
	defaultRate         = 60
	defaultMinAcked     = 100
	defaultEnd          = ringproof.Duration(120 * time.Second)
	defaultTimeout      = ringproof.Duration(60 * time.Second)
	defaultGrace        = ringproof.Duration(30 * time.Second)
)

// World is what resolving needs to know of a world. Every ringproof.World is
// one. What else one may say of itself is in [Secured], [Chooser] and [Simulator].
type World interface {
	Name() string
	Supports(ringproof.Step) error
}

// Secured is a [World] that says how the ring of its subject talks where a scenario leaves
// that open: "tls" or "plain".
type Secured interface{ Security() string }

// Chooser is a [World] that says why it can't have the plan's ring; nil: it can.
type Chooser interface{ Runs(ringproof.Plan) error }

// Simulator is a [World] in which time may cost nothing: there a ring is watched at rest for
// minutes.
type Simulator interface{ Simulated() bool }

// Anywhere is a world that can do every step. It serves lint and plan when no
// world was chosen.
type Anywhere string

// Name returns the word itself.
func (w Anywhere) Name() string { return string(w) }

// Supports always returns nil.
func (Anywhere) Supports(ringproof.Step) error { return nil }

// Resolve makes every choice of a cell. The plan is whole only if no
// diagnostic is an error; when the world can't do it, Inapplicable of the
// diagnostics says why.
func (s *Scenario) Resolve(cell Cell, subject string, world World) (ringproof.Plan, Diagnostics) {
	if c, ok := s.stranger(cell); ok {
		return ringproof.Plan{}, Diagnostics{s.text.at(place{1, 1, 1}, Error, c, "the cells are those that `ringproof plan` prints")}
	}
	form, d := s.decode(cell.Values)
	// A scenario that says how peers begin is about TLS, and leaves nothing open.
	if talks, ok := world.(Secured); ok && form.Spec.Ring.Peers == "" {
		form.Spec.Ring.Security = cmp.Or(form.Spec.Ring.Security, talks.Security())
	}
	p := form.plan()
	p.Cell, p.Scenario, p.Source = cell.String(), s.Name, s.File
	p.Matrix, p.Seed, p.Subject, p.World = cell.Values, cell.Seed, subject, world.Name()
	p.Invariants = s.known.expanded(p.Plan)
	if in, ok := world.(Simulator); ok && in.Simulated() {
		p.watchAtRest()
	}
	for i := range p.Steps {
		p.Steps[i].Position = fmt.Sprintf("%s:%d", s.File, d.placed(fmt.Sprintf("spec.steps[%d]", i)).line)
	}
	p.draw()
	refused := slices.DeleteFunc(d.found, func(f Diagnostic) bool { return f.Severity == Warning }) // which Parse told
	found := append(refused, review{form: form, plan: p, decoder: d}.all(world, s.Worlds)...)
	p.Steps = form.repeated(p.Steps)
	return p.Plan, found.ordered()
}

// repeated has each fault that comes several times in the plan as often. The last of them has
// the step's name, by which others wait for it: flap.1, flap.2, flap.
func (f Form) repeated(steps []ringproof.Step) []ringproof.Step {
	var all []ringproof.Step
	for i, s := range steps {
		form := f.Spec.Steps[i]
		for n := 1; n < form.Times && s.Fault != nil; n++ {
			before := s
			before.Name, before.Detach = fmt.Sprintf("%s.%d", form.Name, n), false
			all = append(all, before)
			s.Fault, s.Join = new(*s.Fault), nil
			s.After = &ringproof.Trigger{Event: ringproof.EventStepBegun, Step: before.Name, Nth: 1, Delay: form.period(s), Timeout: defaultTimeout + form.period(s)}
		}
		all = append(all, s)
	}
	return all
}

// period is how long after it began a fault comes again.
func (s Step) period(of ringproof.Step) ringproof.Duration {
	return cmp.Or(s.Every, of.Fault.For+ringproof.Duration(time.Second))
}

// simRest is how long a simulated ring is watched at rest: longer than anything that the
// reference comes back to of itself takes. It looks at the ring each second, and what it does
// again after the longest pause is to forget, a minute later, a start that was in vain
// (launcher) and to look at certificates that are in order (controller). What it is more
// patient with than that, a machine that is away or data that isn't sent, no ring that is
// in sync has. Four times as long a rest makes a run of all scenarios take twice its time.
const simRest = "3m0s"

func (p *draft) watchAtRest() {
	for i, v := range p.Invariants {
		if v.Check == "quiescent" && v.Params["atLeast"] == "" {
			p.Invariants[i].Params = map[string]string{"atLeast": simRest}
		}
	}
}

// stranger reports whether the cell isn't one of the scenario's.
func (s *Scenario) stranger(cell Cell) (complaint, bool) {
	for _, own := range s.Cells(cell.Seed) {
		own.Seeded = cell.Seeded
		if own.String() == cell.String() {
			return complaint{}, false
		}
	}
	return complaint{code: "S030", message: fmt.Sprintf("%s has no cell %q", s.Name, cell)}, true
}

// draft is a plan in the making.
type draft struct{ ringproof.Plan }

func (f Form) mode() ringproof.Mode {
	if f.Spec.Mode == string(ringproof.ModeDisaster) {
		return ringproof.ModeDisaster
	}
	return ringproof.ModeSafe
}

func (f Form) plan() draft {
	p := draft{ringproof.Plan{
		Hypothesis: f.Spec.Hypothesis,
		Mode:       f.mode(),
		Workload:   f.workload(),
		Steps:      []ringproof.Step{},
	}}
	for _, v := range f.Spec.Invariants {
		p.Invariants = append(p.Invariants, ringproof.Invariant(v))
	}
	for _, step := range f.Spec.Steps {
		p.Steps = append(p.Steps, step.step())
	}
	p.Assumptions = f.assumptions(p.Workload)
	p.Ring = f.ring(p.Steps)
	if end := f.Spec.End; end != nil {
		p.End = &ringproof.End{Within: cmp.Or(end.Within, defaultEnd)}
		if end.Fault != nil {
			fault := faults.Completed(end.Fault.Fault)
			p.End.Fault = &fault
		}
	}
	return p
}

func (f Form) ring(steps []ringproof.Step) ringproof.RingSpec {
	r := f.Spec.Ring
	return ringproof.RingSpec{
		Size:         r.Size,
		Machines:     cmp.Or(r.Machines, largest(r.Size, steps)+spares(steps)),
		Version:      cmp.Or(string(r.Version), defaultVersion),
		Security:     cmp.Or(r.Security, "tls"),
		Peers:        peers(r),
		Heartbeat:    r.Heartbeat,
		Election:     r.Election,
		ReplaceAfter: cmp.Or(r.ReplaceAfter, defaultReplaceAfter),
		Volume:       cmp.Or(int64(r.Volume), defaultVolume),
		SnapCount:    r.SnapCount,
		Certificates: r.Certificates,
		On:           on(r.On),
		Domain:       string(r.Domain),
		Flags:        texts(r.Flags),
		Members:      owned(r.Members),
	}
}

// peers is what a plan has for a scenario's ring.peers: nothing where that is as security.
func peers(r Ring) string {
	if r.Peers == cmp.Or(r.Security, "tls") {
		return ""
	}
	return r.Peers
}

// on is what a plan has for a scenario's ring.on: nothing where that is machines.
func on(what string) string {
	if what == ringproof.OnKubernetes {
		return what
	}
	return ""
}

func texts(flags map[string]Text) map[string]string {
	if flags == nil {
		return nil
	}
	plain := map[string]string{}
	for name, value := range flags {
		plain[name] = string(value)
	}
	return plain
}

func owned(members map[string]Own) map[string]ringproof.Own {
	if members == nil {
		return nil
	}
	plain := map[string]ringproof.Own{}
	for machine, own := range members {
		plain[machine] = ringproof.Own{Version: string(own.Version), Flags: texts(own.Flags), Lacks: releases(own.Lacks)}
	}
	return plain
}

func releases(all []Release) []string {
	var plain []string
	for _, release := range all {
		plain = append(plain, string(release))
	}
	return plain
}

// largest is the most voters that the ring is asked to have.
func largest(size int, steps []ringproof.Step) int {
	for _, s := range steps {
		if s.Op != nil && s.Op.Kind == ringproof.OpScale && !s.Op.Refused {
			size = max(size, s.Op.To)
		}
	}
	return size
}

// spares is one machine for each that is lost for good, and one if a member is
// moved: the machine that it leaves is free again.
func spares(steps []ringproof.Step) int {
	lost, moved := 0, 0
	for _, s := range steps {
		if s.Fault != nil && s.Fault.Kind == ringproof.FaultMachineLoss {
			lost++
		}
		if s.Op != nil && s.Op.Kind == ringproof.OpReplace {
			moved = 1
		}
	}
	return max(lost, moved)
}

func (f Form) workload() ringproof.Workload {
	w := Workload{}
	if f.Spec.Workload != nil {
		w = *f.Spec.Workload
	}
	if w.Profile == "none" {
		return ringproof.Workload{Profile: "none"}
	}
	return ringproof.Workload{
		Profile: cmp.Or(w.Profile, "kv-txn-watch"),
		Clients: cmp.Or(w.Clients, defaultClients),
		Keys:    cmp.Or(w.Keys, defaultKeys),
		Rate:    cmp.Or(float64(w.Rate), defaultRate),
	}
}

func (f Form) assumptions(w ringproof.Workload) ringproof.Assumptions {
	a := ringproof.Assumptions{
		MinAcked:    defaultMinAcked,
		FaultsFired: f.Spec.Assumptions.FaultsFired != "any",
		StepsTried:  f.Spec.Assumptions.StepsTried != "any",
	}
	if w.Profile == "none" {
		a.MinAcked = 0
	}
	if f.Spec.Assumptions.MinAcked != nil {
		a.MinAcked = *f.Spec.Assumptions.MinAcked
	}
	return a
}

func (s Step) step() ringproof.Step {
	step := ringproof.Step{Name: s.Name, Join: s.Join, Detach: s.Detach, Timeout: s.Timeout}
	if s.After != nil {
		step.After = s.After.trigger()
	}
	switch {
	case s.Op != nil:
		op := s.Op.Op
		step.Op = &op
	case s.Fault != nil:
		fault := faults.Completed(s.Fault.Fault)
		step.Fault = &fault
	case s.Assert != nil:
		step.Assert = s.Assert.state(s.Timeout)
		step.Timeout = cmp.Or(s.Timeout, step.Assert.Within)
	}
	step.Timeout = cmp.Or(step.Timeout, defaultTimeout)
	return step
}

func (a After) trigger() *ringproof.Trigger {
	return &ringproof.Trigger{
		Event: ringproof.EventKind(a.Event), Step: a.Step, Action: string(a.Action), Nth: cmp.Or(a.Nth, 1), Since: ringproof.EventKind(a.Since),
		Delay: a.Delay, Timeout: cmp.Or(a.Timeout, defaultTimeout),
	}
}

func (a Assert) state(timeout ringproof.Duration) *ringproof.Assert {
	state := &ringproof.Assert{Within: cmp.Or(a.Within, timeout, defaultTimeout), Halted: a.Halted}
	if a.Ring != nil {
		state.Voters, state.Learners, state.HashKV = a.Ring.Voters, a.Ring.Learners, a.Ring.HashKV
		state.Left, state.Stayed, state.Leader = a.Ring.Left, a.Ring.Stayed, a.Ring.Leader
		state.Release, state.Alarms = string(a.Ring.Release), a.Ring.Alarms
	}
	if a.Subject != nil {
		state.Said, state.Changes = a.Subject.Said, a.Subject.Changes
	}
	return state
}

// draw spends all chance. A draw is keyed by its step's name, so that taking
// one step away leaves the others as they were.
func (p *draft) draw() {
	smallest := p.Ring.Size
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Op != nil && s.Op.Kind == ringproof.OpScale && !s.Op.Refused && s.Op.To > 0 {
			smallest = min(smallest, s.Op.To)
		}
		for _, target := range targets(s) {
			if *target == faults.Random {
				*target = member(draw(p.Seed, "target", s.Name, 0, smallest))
			}
		}
	}
}

func targets(s *ringproof.Step) []*string {
	var all []*string
	if s.Op != nil {
		all = append(all, &s.Op.Target, &s.Op.Endpoint)
	}
	if s.Fault != nil {
		all = append(all, &s.Fault.Target, &s.Fault.From)
	}
	return all
}

// member names a member that is there whatever the ring has become: machines
// come and go, the leader and its followers stay.
func member(n int) string {
	if n == 0 {
		return "leader"
	}
	return fmt.Sprintf("follower/%d", n)
}

// draw is keyed randomness: the same key gives the same number below limit,
// whatever else was drawn.
func draw(seed uint64, stream, actor string, n, limit int) int {
	key := fmt.Sprintf("%d\x00%s\x00%s\x00%d", seed, stream, actor, n)
	sum := sha256.Sum256([]byte(key))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(max(limit, 1)))
}

// Estimate is roughly how long a plan takes in real time, from its creation to
// its verdict.
func Estimate(p ringproof.Plan) time.Duration {
	const start, judge = 3 * time.Second, 5 * time.Second
	total := start + judge
	size := p.Ring.Size
	for _, s := range p.Steps {
		took := faults.Estimate(s, size, p)
		if s.Op != nil && s.Op.Kind == ringproof.OpScale && !s.Op.Refused {
			size = s.Op.To
		}
		if s.After != nil {
			took += s.After.Delay.Std()
		}
		total += took
	}
	if p.End != nil {
		total += p.End.Within.Std() / 4
	}
	if p.Workload.Rate > 0 {
		total = max(total, time.Duration(float64(p.Assumptions.MinAcked)/p.Workload.Rate*float64(time.Second)))
	}
	return total
}

// FaultsPerOp is how many faults a plan does for each operation; a plan
// without operations counts as one that has one: the ring's creation.
func FaultsPerOp(p ringproof.Plan) float64 {
	hits := len(slices.DeleteFunc(slices.Clone(p.Steps), func(s ringproof.Step) bool { return s.Fault == nil }))
	ops := len(slices.DeleteFunc(slices.Clone(p.Steps), func(s ringproof.Step) bool { return s.Op == nil }))
	return float64(hits) / float64(max(1, ops))
}
