// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/scenarios"
)

// in is the world that the command line names, once it was found.
func (f runFlags) in() World {
	w, _ := f.worldOf(f.world)
	return w
}

// place is a world as resolving needs to know it: what this host can do, and what
// can be asked of who is on trial there.
type place struct {
	World
	who contender // nil: whoever can do everything
}

var (
	_ scenarios.Secured   = place{}
	_ scenarios.Chooser   = place{}
	_ scenarios.Simulator = place{}
)

func (p place) Name() string { return p.World.Name }

// Simulated reports whether it is a model, in this process.
func (p place) Simulated() bool { return p.World.Simulated }

// Security is that of who is on trial.
func (p place) Security() string {
	if p.who == nil {
		return ""
	}
	return p.who.Security()
}

// Supports asks whether the step can be done there, and of who is on trial.
func (p place) Supports(s ringproof.Step) error {
	if p.who != nil {
		if err := p.who.Supports(s); err != nil {
			return err
		}
	}
	return p.World.Supports(s)
}

// Runs asks whether the world can have the plan's ring, and who is on trial make it.
func (p place) Runs(plan ringproof.Plan) error {
	if p.who != nil {
		if err := p.who.Runs(plan); err != nil {
			return err
		}
	}
	return p.World.Runs(plan)
}

// lacks is why the step can't be done there: by whoever is on trial, or by its fault's
// nature.
func (p place) lacks(s ringproof.Step) error {
	if err := p.Supports(s); err != nil || s.Fault == nil {
		return err
	}
	if e, ok := faults.Lookup(s.Fault.Kind); ok && !slices.Contains(e.Worlds, p.Name()) {
		return fmt.Errorf("the fault %s is possible in %s only", s.Fault.Kind, strings.Join(e.Worlds, " and "))
	}
	return nil
}
