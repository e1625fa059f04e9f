// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"os"

	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/harness/cli"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/sim"
)

// reference is ringadm on trial, with its mutants: its own code in the simulated
// world, and its processes on real machines.
func reference() cli.Subject {
	s := cli.Subject{Name: subject.Reference, Costs: costs, Seen: subject.Beneath, Ways: []any{cli.InSim(inSim), trial.Way(asProcesses), trial.InPods{Make: inPods, Runs: subject.RunsInPods}}}
	for _, m := range subject.Mutants() {
		s.Mutants = append(s.Mutants, harness.Mutant{Name: m.Name, Hazard: m.Hazard, Source: m.Source, Check: m.Check,
			Scenario: m.Scenario, SimOnly: m.SimOnly, Undrawn: m.Undrawn, Beneath: m.IsBeneath()})
	}
	return s
}

func inSim(mutants []string) (sim.Subject, error) {
	return &subject.Simulated[*sim.World, *sim.Machine]{Mutants: mutants}, nil
}

func asProcesses(ringadm string, mutants []string) (trial.Subject, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &subject.Processes{Ringadm: ringadm, Self: self, Mutants: mutants}, nil
}

func inPods(mutants []string) (trial.Subject, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &subject.Pods{Self: self, Mutants: mutants}, nil
}

// costs is what finding the mutants cost when this program was made.
func costs() (harness.Costs, error) {
	kept, err := subject.LastSearch()
	all := harness.Costs{Command: kept.Command, Starts: kept.Starts, Seeds: kept.Seeds, Runs: kept.Runs}
	for _, m := range kept.Mutants {
		all.Mutants = append(all.Mutants, harness.Cost(m))
	}
	return all, err
}

// All three keep a journal for a sweep.
var _, _, _ cli.Journalling = (*subject.Simulated[*sim.World, *sim.Machine])(nil), (*subject.Processes)(nil), (*subject.Pods)(nil)
