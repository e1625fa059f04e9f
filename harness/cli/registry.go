// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/harness/explore"
	"github.com/ringproof/ringproof/internal/virtual"
	"github.com/ringproof/ringproof/sim"
)

// Registry is what a program can put on trial, and where. The first subject and the
// first world are those of a command line that names none.
type Registry struct {
	Subjects []Subject
	Worlds   []World
	// Faults and Operations are what may be done besides what the catalogue has; see
	// faults.Register. Their deeds are in the worlds and the subjects.
	Faults     []faults.Entry
	Operations []faults.Operation
	// Simulation is what explore, sweep, shrink and mutate run a plan by; nil:
	// Registry.Simulate. A test puts a toy there.
	Simulation explore.Simulate
}

// Subject is an automation that can be put on trial. "NAME+MUTANT" is the same with a
// mistake planted.
type Subject struct {
	Name     string
	Security string                        // how its rings talk where a scenario doesn't say, plain or tls; "": as scenarios have it
	Supports func(ringproof.Step) error    // why it can't be tried with a step; nil: it can with whatever the world can do
	Runs     func(ringproof.Plan) error    // why it can't make the plan's ring; nil: it can make any
	Untold   []ringproof.EventKind         // what it never tells of, though a check may rest on it
	Mutants  []harness.Mutant              // of it, to test the checks with
	Costs    func() (harness.Costs, error) // what its mutants cost to find, as measured last; nil: nobody has measured it
	// Seen is what a run sees in its world's place; nil: the world.
	Seen func(ringproof.Plan, ringproof.World) ringproof.World
	// Ways are how it is put into worlds, one for each sort: [InSim] for the simulated
	// one. A world looks among them for the type that it knows; see [Way].
	Ways []any
}

// InSim makes the subject of one plan in the simulated world, with the mutants of these
// names planted.
type InSim func(mutants []string) (sim.Subject, error)

// Journalling is a subject of a run that can tell all that it does and decides, which
// is where a sweep puts one fault after another.
type Journalling interface {
	// Begin has a journal kept, and returns the fault that it begins with: one that does nothing, set
	// by the plan's first step.
	Begin() ringproof.Fault
	// Journal is what was kept, once the run is over.
	Journal() (*ringproof.Journal, error)
}

// limited reports whether there are plans that it can't be tried on.
func (s Subject) limited() bool { return s.Supports != nil || s.Runs != nil || s.Security != "" }

// As finds among the ways of a subject the one that is a T.
func As[T any](s Subject) (way T, ok bool) {
	for _, w := range s.Ways {
		if way, ok = w.(T); ok {
			return way, true
		}
	}
	return way, false
}

// World is a world that plans can run in. All that the commands ask of one by its name
// is here.
type World struct {
	Name  string `json:"name"`
	Doc   string `json:"doc"`   // what runs there
	Needs string `json:"needs"` // of the host

	Short      string                               `json:"-"` // for the help of --world
	Simulated  bool                                 `json:"-"` // it is a model, in this process: nothing waits, and a plan is the same in every run
	Repeatable bool                                 `json:"-"` // a plan is the same in every run, so that to attempt it again shows nothing
	Outside    bool                                 `json:"-"` // it runs in no namespaces of this program's
	Takes      func(Subject) error                  `json:"-"` // why the subject can't be put there; nil: any can
	Supports   func(ringproof.Step) error           `json:"-"` // why a step can't be done there
	Runs       func(ringproof.Plan) error           `json:"-"` // why the plan's ring can't be had there
	Build      Builder                              `json:"-"` // what else has to be built for it; nil: nothing
	Open       func(Trial) (ringproof.World, error) `json:"-"` // the world of one plan
	Done       func() error                         `json:"-"` // takes away what its worlds have left for those after them; nil: nothing
}

// Trial is one plan, and who is tried on it.
type Trial struct {
	Plan    ringproof.Plan
	Subject Subject
	Mutants []string // of the subject, planted
	Version string   // of this program, for the history

	outside // what real processes are made of
}

// Builder builds programs, unless they are there, and tells progress.
type Builder func(ctx context.Context, progress func(string)) (virtual.Kit, error)

// register adds what the program brings along to the catalogue, and its worlds to those that
// a scenario may name.
func (r Registry) register() error {
	var errs []error
	for _, e := range r.Faults {
		errs = append(errs, faults.Register(e))
	}
	for _, o := range r.Operations {
		errs = append(errs, faults.RegisterOperation(o))
	}
	for _, w := range r.Worlds {
		faults.RegisterWorld(w.Name)
	}
	return errors.Join(errs...)
}

func (w World) columns() []string { return []string{w.Name, w.Needs, w.Doc} }

func (r Registry) simulation() explore.Simulate {
	if r.Simulation != nil {
		return r.Simulation
	}
	return r.Simulate
}

// worldOf finds a world by its name.
func (r Registry) worldOf(name string) (World, error) {
	var names []string
	for _, w := range r.Worlds {
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	return World{}, usage("there is no world %q; %s", name, hint(name, names))
}

// first is the first world that is simulated, or isn't.
func (r Registry) first(simulated bool) (World, error) {
	for _, w := range r.Worlds {
		if w.Simulated == simulated {
			return w, nil
		}
	}
	if simulated {
		return World{}, usage("this program has no simulated world")
	}
	return World{}, usage("this program has no real world")
}

// real are the worlds of real processes.
func (r Registry) real() []World {
	return slices.DeleteFunc(slices.Clone(r.Worlds), func(w World) bool { return w.Simulated })
}

// repeatable are the worlds in which a plan is the same in every run.
func (r Registry) repeatable() []World {
	return slices.DeleteFunc(slices.Clone(r.Worlds), func(w World) bool { return !w.Simulated && !w.Repeatable })
}

// own is the subject of a command line that names none.
func (r Registry) own() Subject {
	if len(r.Subjects) == 0 {
		return Subject{}
	}
	return r.Subjects[0]
}

// parse reads "NAME" or "NAME+MUTANT[+MUTANT...]".
func (r Registry) parse(name string) (Subject, []harness.Mutant, error) {
	base, rest, mutated := strings.Cut(name, "+")
	var names []string
	for _, s := range r.Subjects {
		if names = append(names, s.Name); s.Name != base {
			continue
		}
		if !mutated {
			return s, nil, nil
		}
		planted, err := s.planted(strings.Split(rest, "+"))
		if err != nil {
			err = fmt.Errorf("subject %q refused: %w", name, err)
		}
		return s, planted, err
	}
	return Subject{}, nil, fmt.Errorf("subject %q refused: %w", name, unknown("subject", base, names))
}

// costs is what the subject's mutants cost to find, where that was measured.
func (s Subject) costs() (harness.Costs, error) {
	if s.Costs == nil {
		return harness.Costs{}, nil
	}
	return s.Costs()
}

// planted are the mutants of these names.
func (s Subject) planted(names []string) (planted []harness.Mutant, err error) {
	for i, name := range names {
		at := slices.IndexFunc(s.Mutants, func(m harness.Mutant) bool { return m.Name == name })
		switch {
		case at < 0:
			var known []string
			for _, m := range s.Mutants {
				known = append(known, m.Name)
			}
			return nil, unknown("mutant", name, known)
		case slices.Contains(names[:i], name):
			return nil, fmt.Errorf("%s is named twice", name)
		}
		planted = append(planted, s.Mutants[at])
	}
	return planted, nil
}

func unknown(what, name string, legal []string) error {
	if best, ok := nearest(name, legal); ok {
		return fmt.Errorf("there is no %s %q; did you mean %q?", what, name, best)
	}
	if len(legal) == 0 {
		return fmt.Errorf("there is no %s %q, nor any other", what, name)
	}
	return fmt.Errorf("there is no %s %q; it is one of %s", what, name, strings.Join(legal, ", "))
}

// choices lists the worlds for the help of a flag: "sim (simulated) or local (real)".
func choices(of []World) string {
	var all []string
	for _, w := range of {
		all = append(all, w.Name+" ("+w.Short+")")
	}
	return strings.Join(all, " or ")
}

func namesOf(worlds []World) (names []string) {
	for _, w := range worlds {
		names = append(names, w.Name)
	}
	return names
}

// seeMutants says where the mutants are listed, if there are any.
func seeMutants(s Subject) string {
	if len(s.Mutants) == 0 {
		return ""
	}
	return " (see list mutants)"
}

// anybody is what --subject can be where programs run, for its help.
func (r Registry) anybody() string {
	var all []string
	for _, s := range r.Subjects {
		all = append(all, s.Name)
		if len(s.Mutants) > 0 {
			all = append(all, s.Name+"+MUTANT (see list mutants)")
		}
	}
	for _, w := range r.real() {
		all = append(all, "or in the "+w.Name+" world the FILE.yaml of any program (see docs/subjects.md)")
	}
	return strings.Join(all, ", ")
}

// subjects is what --subject can be, for its help: "reference, or reference+MUTANT".
func (r Registry) subjects() string {
	var all []string
	for _, s := range r.Subjects {
		all = append(all, s.Name)
		if len(s.Mutants) > 0 {
			all = append(all, "or "+s.Name+"+MUTANT")
		}
	}
	return strings.Join(all, ", ")
}
