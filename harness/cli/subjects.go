// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/harness/explore"
	"github.com/ringproof/ringproof/internal/foreign"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/scenarios"
)

// contender is who is put on trial: the reference, with or without mutants, or the
// program of somebody else that a file describes.
type contender interface {
	// Enter puts it on trial in the plan.
	Enter(*ringproof.Plan)
	// Security is how its rings talk where a scenario doesn't say; "": as scenarios have it.
	Security() string
	// Supports and Runs say why it can't be tried with a step, or on a plan's ring.
	Supports(ringproof.Step) error
	Runs(ringproof.Plan) error

	// shown are the scenarios that show what is wrong with it; none: that isn't known.
	shown() []string
	// main is the directory of the main package of somebody's program that has to be built;
	// "": there is none.
	main() string
	// on is where alone it makes rings, as a plan has it; "": it makes some on machines.
	on() string
	// fit makes of a drawn plan one that it can be tried on in a place, as [explore.Search]
	// wants it; nil: it can be tried on all that are drawn.
	fit(place) func(ringproof.Plan) (ringproof.Plan, bool)
	// tools reports whether it runs etcd's own tools.
	tools() bool
	// lives refuses a world in which it can't be run.
	lives(World) error
	// processes is what it is in the local world.
	processes(f runFlags, on string) (trial.Subject, error)
}

// contending finds who is called so on a command line, and prints to w what is wrong
// with its file.
func (r Registry) contending(w io.Writer, name string) (contender, error) {
	if planFile.MatchString(name) {
		return described(w, name)
	}
	s, mutants, err := r.parse(name)
	if err != nil {
		return nil, usage("%w", err)
	}
	return linked{name, s, mutants}, nil
}

// contenderOf finds who is on trial in the plan.
func (r Registry) contenderOf(w io.Writer, p ringproof.Plan) (contender, error) {
	if p.SubjectFile != "" {
		return described(w, p.SubjectFile)
	}
	return r.contending(w, p.Subject)
}

// simulatable refuses who can't be put into the simulated world, and whose ring can't be
// had there: what was tried on another ring would say nothing of this one.
func (r Registry) simulatable(p ringproof.Plan) error {
	who, err := r.contenderOf(io.Discard, p)
	if err != nil {
		return err
	}
	in, err := r.first(true)
	if err != nil {
		return err
	}
	if in.Runs != nil && p.Ring.Size > 0 {
		if err := in.Runs(p); err != nil {
			return usage("%s can't be simulated: %w", p.Cell, err)
		}
	}
	return who.lives(in)
}

func described(w io.Writer, file string) (contender, error) {
	s, found, err := foreign.Read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage("there is no subject's file %s; docs/subjects.md says how to write one", file)
	case err != nil:
		return nil, usage("reading the subject: %w", err)
	case found.Failed():
		fmt.Fprint(w, found)
		return nil, usage("%s; nothing was run", problems(found))
	}
	return stranger{foreign.Promised(s), s}, nil
}

// linked is a contender of the registry, part of this program.
type linked struct {
	name    string
	of      Subject
	mutants []harness.Mutant
}

func (l linked) Enter(p *ringproof.Plan) {
	p.Subject, p.SubjectFile, p.Untold = l.name, "", l.of.Untold
}

func (l linked) Security() string { return l.of.Security }

func (l linked) Supports(s ringproof.Step) error {
	if l.of.Supports == nil {
		return nil
	}
	return l.of.Supports(s)
}

func (l linked) Runs(p ringproof.Plan) error {
	pods, ok := As[trial.InPods](l.of)
	switch on := p.Ring.On == ringproof.OnKubernetes; {
	case on && !ok:
		return fmt.Errorf("%s makes no rings on Kubernetes (%w)", l.name, errors.ErrUnsupported)
	case on && pods.Runs != nil:
		return pods.Runs(p)
	case l.of.Runs == nil:
		return nil
	}
	return l.of.Runs(p)
}

func (l linked) fit(in place) func(ringproof.Plan) (ringproof.Plan, bool) {
	if in.Simulated() && !l.of.limited() {
		return nil
	}
	in.who = l
	return func(p ringproof.Plan) (ringproof.Plan, bool) {
		p.Untold = l.of.Untold
		return fitted(p, in, l.of.Security)
	}
}

// fitted is the plan without what can't be done in the place, of a ring that talks so.
func fitted(p ringproof.Plan, in place, security string) (ringproof.Plan, bool) {
	p.World = in.Name()
	p = explore.Without(p, func(s ringproof.Step) bool { return in.lacks(s) != nil })
	p.Ring.Security = cmp.Or(security, p.Ring.Security)
	for _, check := range scenarios.Standard().Checks {
		p.Invariants = slices.DeleteFunc(p.Invariants, func(i ringproof.Invariant) bool { return i.Check == check.Name && !check.Suits(p) })
	}
	return p, in.Runs(p) == nil
}

// shown are the scenarios that show the mutants.
func (l linked) shown() (names []string) {
	for _, m := range l.mutants {
		names = append(names, m.Scenario)
	}
	return names
}

func (linked) tools() bool { return false }

func (linked) main() string { return "" }

func (linked) on() string { return "" }

func (l linked) lives(in World) error {
	if in.Takes == nil {
		return nil
	}
	if err := in.Takes(l.of); err != nil {
		return usage("%w", err)
	}
	return nil
}

func (l linked) processes(f runFlags, on string) (trial.Subject, error) {
	ringadm, err := f.findRingadm()
	if err != nil {
		return nil, err
	}
	way, ok := As[trial.Way](l.of)
	if !ok {
		return nil, startable(l.of)
	}
	var names []string
	for _, m := range l.mutants {
		names = append(names, m.Name)
	}
	if on == ringproof.OnKubernetes {
		pods, ok := As[trial.InPods](l.of)
		if !ok {
			return nil, usage("%s makes no rings on Kubernetes", l.name)
		}
		return pods.Make(names)
	}
	return way(ringadm, names)
}

// stranger is a contender that a file describes.
type stranger struct {
	*foreign.Promise
	subject *scenarios.Subject
}

func (s stranger) shown() []string { return nil }

func (s stranger) tools() bool { return s.subject.Spec.UsesAnywhere("Etcdctl") }

func (s stranger) lives(in World) error {
	switch built := in.Build != nil; {
	case s.on() != "" && !built:
		return usage("%s is an operator, and runs where there is Kubernetes: ringproof run --world virtual --subject FILE", s.subject.Name)
	case s.on() == "" && in.Simulated, s.on() == "" && built && s.subject.Spec.Main == "":
		return usage("%s is a program that a file describes, and runs on real machines only: ringproof run --world local --subject FILE; one in Go, whose file has main, runs in the virtual world too", s.subject.Name)
	case s.on() == "" && built && s.subject.Spec.Abroad() != "":
		return usage("%s can't be run in virtual time, as %s runs what isn't built for that; there is {{.Main}}, {{.Etcd}} and {{.Etcdctl}}: ringproof run --world local --subject FILE", s.subject.Name, s.subject.Spec.Abroad())
	}
	return nil
}

func (s stranger) main() string {
	if s.subject.Spec.Operator == nil {
		return s.subject.Spec.Main
	}
	return s.subject.Spec.Operator.Main
}

func (s stranger) on() string {
	if s.subject.Spec.Operator == nil {
		return ""
	}
	return ringproof.OnKubernetes
}

// fit leaves out of a drawn plan what nodes can't have, if an operator is on trial.
func (s stranger) fit(in place) func(ringproof.Plan) (ringproof.Plan, bool) {
	in.who = s
	return func(p ringproof.Plan) (ringproof.Plan, bool) {
		s.Enter(&p)
		if s.on() != "" {
			p = explore.Without(p, func(s ringproof.Step) bool { return s.Fault != nil && local.HappensOnNodes(*s.Fault) != nil })
			p = explore.OfOperator(p, s.Kind())
		}
		return fitted(p, in, s.Security())
	}
}

func (s stranger) processes(f runFlags, _ string) (trial.Subject, error) {
	if s.on() != "" {
		return foreign.NewPods(s.subject), nil
	}
	p := foreign.New(s.subject)
	p.Main = cmp.Or(f.built, f.kit.Programs[s.main()])
	return p, nil
}
