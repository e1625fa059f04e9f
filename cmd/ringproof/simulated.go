// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"context"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/sim"
)

// inSim runs the plan in a simulated world of its own, in this process.
func inSim(ctx context.Context, plan ringproof.Plan, o sim.Options) (ringproof.History, sim.Trace, error) {
	s, err := simulated(plan)
	if err != nil {
		return ringproof.History{}, sim.Trace{}, err
	}
	o.Version = version()
	return sim.Run(ctx, plan, s, o)
}

// simWorld is the simulated world of one plan.
func simWorld(plan ringproof.Plan) (ringproof.World, error) {
	s, err := simulated(plan)
	if err != nil {
		return nil, err
	}
	w := sim.New(plan.Seed, s)
	w.Version = version()
	return w, nil
}

// simulated is the plan's subject as it runs in sim.
func simulated(plan ringproof.Plan) (*subject.Simulated, error) {
	mutants, err := subject.Parse(plan.Subject)
	if err != nil {
		return nil, err
	}
	s := &subject.Simulated{}
	for _, m := range mutants {
		s.Mutants = append(s.Mutants, m.Name)
	}
	return s, nil
}
