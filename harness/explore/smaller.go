// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// A pass lists the plans that are a little smaller than p, the boldest first.
// None is p itself, and no chain of them comes back to p.
type pass func(p ringproof.Plan) []ringproof.Plan

var passes = []pass{quieter, withoutFaults, withoutRest, milder, plainer, sooner}

// edit returns a copy of p with its lists its own, changed.
func edit(p ringproof.Plan, change func(*ringproof.Plan)) ringproof.Plan {
	p.Invariants = slices.Clone(p.Invariants)
	p.Steps = slices.Clone(p.Steps)
	for i := range p.Steps {
		s := &p.Steps[i]
		s.Join = slices.Clone(s.Join)
		s.After, s.Op, s.Fault, s.Assert = copied(s.After), copied(s.Op), copied(s.Fault), copied(s.Assert)
	}
	change(&p)
	return p
}

func copied[E any](p *E) *E {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// candidates collects the changes that change something.
type candidates struct {
	of  ringproof.Plan
	all []ringproof.Plan
}

func (c *candidates) add(when bool, change func(*ringproof.Plan)) {
	if when {
		c.all = append(c.all, edit(c.of, change))
	}
}

// ofClients are the checks that can judge nothing when no client asks.
var ofClients = []string{"available", "linearizable", "acknowledged-writes-survive", "watch"}

// quieter has the clients do less.
func quieter(p ringproof.Plan) []ringproof.Plan {
	c, w := candidates{of: p}, p.Workload
	if w.Profile == "none" {
		return nil
	}
	c.add(true, func(p *ringproof.Plan) {
		load(p, ringproof.Workload{Profile: "none"})
		p.Assumptions.MinAcked = 0
		p.Invariants = slices.DeleteFunc(p.Invariants, func(i ringproof.Invariant) bool { return slices.Contains(ofClients, i.Check) })
	})
	for _, profile := range []string{"kv", "kv-txn-watch"} {
		calm := w
		calm.Profile = profile
		c.add(w.Profile != "kv" && w.Profile != profile, func(p *ringproof.Plan) { load(p, calm) })
	}
	c.add(w.Clients > 1, func(p *ringproof.Plan) { p.Workload.Clients = 1 })
	c.add(w.Keys > 1, func(p *ringproof.Plan) { p.Workload.Keys = 1 })
	c.add(w.Rate > 10, func(p *ringproof.Plan) { p.Workload.Rate = 10 })
	return c.all
}

// load has clients do something else. Without an operator among them nobody would make room in a
// ring with little, or take back the alarm.
func load(p *ringproof.Plan, w ringproof.Workload) {
	if p.Workload.Profile == operator {
		p.Ring.Flags = maps.Clone(p.Ring.Flags)
		delete(p.Ring.Flags, quota)
	}
	p.Workload = w
}

func faultSteps(p ringproof.Plan) []int {
	return where(p, func(s ringproof.Step) bool { return s.Fault != nil })
}

func where(p ringproof.Plan, keep func(ringproof.Step) bool) []int {
	var found []int
	for i, s := range p.Steps {
		if keep(s) {
			found = append(found, i)
		}
	}
	return found
}

func withoutFaults(p ringproof.Plan) []ringproof.Plan {
	c := candidates{of: p}
	c.add(p.End != nil, func(p *ringproof.Plan) { p.End = nil })
	c.add(p.End != nil && p.End.Fault != nil, func(p *ringproof.Plan) { p.End = &ringproof.End{Within: p.End.Within} })
	return append(c.all, fewer(p, faultSteps(p))...)
}

func withoutRest(p ringproof.Plan) []ringproof.Plan {
	return fewer(p, where(p, func(s ringproof.Step) bool { return s.Fault == nil }))
}

// fewer leaves out all of the steps, then halves, quarters, and single ones.
func fewer(p ringproof.Plan, of []int) []ringproof.Plan {
	c := candidates{of: p}
	for size := len(of); size > 0; size /= 2 {
		for chunk := range slices.Chunk(of, size) {
			c.add(true, func(p *ringproof.Plan) { drop(p, chunk) })
		}
	}
	return c.all
}

// Without is the plan without the steps that gone says, and without what refers to
// them; what is asserted in the end is what the others ask for.
func Without(p ringproof.Plan, gone func(ringproof.Step) bool) ringproof.Plan {
	return edit(p, func(p *ringproof.Plan) { drop(p, where(*p, gone)) })
}

// drop takes steps out, and what refers to them.
func drop(p *ringproof.Plan, gone []int) {
	names, targets := map[string]bool{}, map[string]string{}
	var kept []ringproof.Step
	for i, s := range p.Steps {
		aimElsewhere(s, targets)
		if slices.Contains(gone, i) {
			names[s.Name], targets["step/"+s.Name] = true, target(s)
			continue
		}
		s.Join = slices.DeleteFunc(s.Join, func(name string) bool { return names[name] })
		if s.After != nil && names[s.After.Step] {
			s.After = nil
		}
		kept = append(kept, s)
	}
	p.Steps = kept
	mend(p)
}

func target(s ringproof.Step) string {
	switch {
	case s.Fault != nil:
		return s.Fault.Target
	case s.Op != nil:
		return s.Op.Target
	}
	return ""
}

// aimElsewhere has a step that aims at whom another hit, which is gone, aim at whom that one did.
func aimElsewhere(s ringproof.Step, targets map[string]string) {
	switch at, gone := targets[target(s)]; {
	case !gone:
	case s.Fault != nil:
		entry, _ := faults.Lookup(s.Fault.Kind)
		s.Fault.Target = at
		if !faults.Legal(at, entry.Targets) {
			s.Fault.Target = selectors[0]
		}
	case s.Op != nil:
		s.Op.Target = at
	}
}

// mend has each assert ask for what the operations before it ask for, of a ring
// that has the machines for it and that nobody keeps from changing.
func mend(p *ringproof.Plan) {
	asked, suspended, release := p.Ring.Size, -1, ""
	for i, s := range p.Steps {
		switch {
		case s.Op != nil && s.Op.Kind == ringproof.OpUpgrade:
			release = s.Op.Version
		case s.Op != nil && s.Op.Kind == ringproof.OpSuspend:
			suspended = i
		case s.Op != nil && s.Op.Kind == ringproof.OpResume:
			suspended = -1
		case s.Op != nil && s.Op.Kind == ringproof.OpScale && !s.Op.Refused:
			asked = s.Op.To
		case s.Assert != nil && s.Assert.Voters > 0:
			p.Steps[i].Assert.Voters = asked
			if p.Steps[i].Assert.Release != "" {
				p.Steps[i].Assert.Release = release
			}
		}
	}
	p.Ring.Machines = max(p.Ring.Machines, asked)
	if suspended >= 0 {
		drop(p, []int{suspended})
	}
}

// milder simplifies what single steps do.
func milder(p ringproof.Plan) []ringproof.Plan {
	c := candidates{of: p}
	for i, s := range p.Steps {
		switch {
		case s.Fault != nil:
			for _, f := range simplerFaults(*s.Fault) {
				c.add(len(faults.Validate(f)) == 0, func(p *ringproof.Plan) { p.Steps[i].Fault = &f })
			}
		case s.Op != nil:
			for _, op := range simplerOps(*s.Op) {
				c.add(true, func(p *ringproof.Plan) { p.Steps[i].Op = &op; mend(p) })
			}
		}
	}
	return c.all
}

// simplerFaults: a milder kind, one target, the first of the legal words, and
// less of everything.
func simplerFaults(f ringproof.Fault) []ringproof.Fault {
	var all []ringproof.Fault
	with := func(when bool, change func(*ringproof.Fault)) {
		if when {
			simpler := f
			change(&simpler)
			all = append(all, simpler)
		}
	}
	with(f.Kind == ringproof.FaultMachineLoss, func(f *ringproof.Fault) {
		f.Kind, f.Leave = ringproof.FaultVolumeLoss, "nothing"
	})
	if milder, ok := faults.Downgrade(f); ok {
		all = append(all, milder)
	}
	for _, target := range simplerTargets(f.Target) {
		with(true, func(f *ringproof.Fault) { f.Target = target })
	}
	all = append(all, plainWords(f)...)
	with(f.How == ringproof.Removed, func(f *ringproof.Fault) { f.How = "" })
	with(f.Records != "", func(f *ringproof.Fault) { f.Records = "" })
	with(f.Nth > 1, func(f *ringproof.Fault) { f.Nth = 1 })
	with(f.Back > 1, func(f *ringproof.Fault) { f.Back = 1 })
	with(f.Count > 1, func(f *ringproof.Fault) { f.Count = 1 })
	with(f.Stagger > 0, func(f *ringproof.Fault) { f.Stagger = 0 })
	if f.Kind == ringproof.FaultTimePasses {
		with(f.By > ages[0], func(f *ringproof.Fault) { f.By, f.For = f.By/2, f.For/2 })
		return all
	}
	with(f.For > second, func(f *ringproof.Fault) { f.For = second })
	with(f.For > 2*second, func(f *ringproof.Fault) { f.For /= 2 })
	return all
}

func simplerTargets(target string) []string {
	rank := slices.Index(selectors, target)
	if rank < 0 {
		return nil // a machine by its name is as simple as any
	}
	return selectors[:min(rank, 2)]
}

// plainWords sets each word to the first that the catalogue allows.
func plainWords(f ringproof.Fault) []ringproof.Fault {
	entry, _ := faults.Lookup(f.Kind)
	var all []ringproof.Fault
	for _, p := range entry.Params {
		was := faults.Get(&f, p.Name)
		if len(p.Values) == 0 || was == p.Values[0] || was == "" {
			continue
		}
		plain := f
		plain.Params = maps.Clone(f.Params)
		faults.Put(&plain, p.Name, p.Values[0])
		switch p.Name {
		case "shape":
			plain.From = "" // only a pair has another end
		case "leave":
			plain.By = 0 // only a copy has an age
		}
		all = append(all, plain)
	}
	return all
}

func simplerOps(op ringproof.Op) []ringproof.Op {
	var all []ringproof.Op
	if op.Rival {
		plain := op
		plain.Rival = false
		all = append(all, plain)
	}
	if op.Ends() && op.Scope != "" {
		plain := op
		plain.Scope, plain.For = "", 0
		all = append(all, plain)
	}
	if op.Endpoint != "" {
		plain := op
		plain.Endpoint = ""
		all = append(all, plain)
	}
	if op.For > 2*second {
		plain := op
		plain.For /= 2
		all = append(all, plain)
	}
	switch {
	case op.Kind == ringproof.OpScale && op.To > 3 && !op.Refused:
		all = append(all, ringproof.Op{Kind: op.Kind, To: op.To - 2})
	case op.Kind == ringproof.OpRoll:
		all = append(all, ringproof.Op{Kind: ringproof.OpRestart, Target: selectors[0]})
	}
	for _, target := range simplerTargets(op.Target) {
		op.Target = target
		all = append(all, op)
	}
	return all
}

// plainer makes the ring small and ordinary.
func plainer(p ringproof.Plan) []ringproof.Plan {
	c, r := candidates{of: p}, p.Ring
	c.add(r.Size > 3, func(p *ringproof.Plan) { p.Ring.Size = 3; mend(p) })
	c.add(r.Size > 1, func(p *ringproof.Plan) { p.Ring.Size -= 2; mend(p) })
	c.add(r.Machines > needed(p), func(p *ringproof.Plan) { p.Ring.Machines = needed(*p) })
	c.add(r.Machines > needed(p)+1, func(p *ringproof.Plan) { p.Ring.Machines-- })
	c.add(r.Version != versions[0], func(p *ringproof.Plan) { p.Ring.Version = versions[0] })
	c.add(r.Security != "plain", func(p *ringproof.Plan) { p.Ring.Security = "plain" })
	c.add(r.SnapCount != 0, func(p *ringproof.Plan) { p.Ring.SnapCount = 0 })
	c.add(r.Heartbeat+r.Election != 0, func(p *ringproof.Plan) { p.Ring.Heartbeat, p.Ring.Election = 0, 0 })
	c.add(len(r.Flags) > 0, func(p *ringproof.Plan) { p.Ring.Flags = nil })
	c.add(len(r.Members) > 0, func(p *ringproof.Plan) { p.Ring.Members = nil })
	c.add(r.Domain != "", func(p *ringproof.Plan) { p.Ring.Domain = "" })
	c.add(r.Peers != "" && !p.Encrypts(), func(p *ringproof.Plan) { p.Ring.Peers = "" })
	c.add(r.Certificates != 0, func(p *ringproof.Plan) { p.Ring.Certificates = 0 })
	c.add(r.ReplaceAfter != retention[0], func(p *ringproof.Plan) { p.Ring.ReplaceAfter = retention[0] })
	return c.all
}

var machineNamed = regexp.MustCompile(`\bm([0-9]+)\b`)

// needed is how many machines hold the voters that are asked for, one more where a voter
// is to leave its machine, and those that steps name. With none to go to every subject
// fails, whatever it failed by before.
func needed(p ringproof.Plan) int {
	voters, moves, named := p.Ring.Size, 0, 0
	for _, s := range p.Steps {
		target := ""
		switch {
		case s.Op != nil && s.Op.Kind == ringproof.OpScale && !s.Op.Refused:
			voters = max(voters, s.Op.To)
		case s.Op != nil:
			target = s.Op.Target + " " + s.Op.Endpoint
			if s.Op.Kind == ringproof.OpReplace {
				moves = 1
			}
		case s.Fault != nil:
			target = s.Fault.Target
		}
		for _, m := range machineNamed.FindAllStringSubmatch(target, -1) {
			number, _ := strconv.Atoi(m[1])
			named = max(named, number)
		}
	}
	return max(voters+moves, named)
}

// sooner takes out waiting: triggers, delays, and what overlaps.
func sooner(p ringproof.Plan) []ringproof.Plan {
	c := candidates{of: p}
	for i, s := range p.Steps {
		if t := s.After; t != nil {
			c.add(true, func(p *ringproof.Plan) { p.Steps[i].After = nil })
			c.add(t.Delay > 0, func(p *ringproof.Plan) { p.Steps[i].After.Delay = 0 })
			c.add(t.Nth > 1, func(p *ringproof.Plan) { p.Steps[i].After.Nth = 1 })
		}
		c.add(s.Detach, func(p *ringproof.Plan) { attach(p, i) })
	}
	return c.all
}

// attach has the next step wait for this one.
func attach(p *ringproof.Plan, i int) {
	p.Steps[i].Detach = false
	for j := range p.Steps {
		p.Steps[j].Join = slices.DeleteFunc(p.Steps[j].Join, func(name string) bool { return name == p.Steps[i].Name })
	}
}
