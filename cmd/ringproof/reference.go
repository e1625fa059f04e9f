// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"fmt"
	"os"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/harness/cli"
	"github.com/ringproof/ringproof/harness/explore"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/sim"
)

// reference is ringadm on trial, with its mutants: its own code in the simulated
// world, and its processes on real machines.
func reference() cli.Subject {
	s := cli.Subject{Name: subject.Reference, Costs: costs, Seen: subject.Beneath, Ways: []any{cli.InSim(inSim), trial.Way(asProcesses), trial.InPods(inPods)}}
	for _, m := range subject.Mutants() {
		s.Mutants = append(s.Mutants, harness.Mutant{Name: m.Name, Hazard: m.Hazard, Source: m.Source, Check: m.Check,
			Scenario: m.Scenario, SimOnly: m.SimOnly, Undrawn: m.Undrawn, Beneath: m.IsBeneath()})
	}
	return s
}

func inSim(mutants []string) (sim.Subject, error) {
	return &simulated{subject.Simulated[*sim.World, *sim.Machine]{Mutants: mutants}}, nil
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

// simulated is the reference in sim, where it can keep a journal for a sweep.
type simulated struct {
	subject.Simulated[*sim.World, *sim.Machine]
}

var _ cli.Journalling = (*simulated)(nil)

// Begin has a journal kept.
func (s *simulated) Begin() ringproof.Fault {
	s.Simulated.Journal = &subject.Journal{}
	return subject.Probe()
}

// Journal is what was kept, as a sweep reads it. What the ring was is what had been
// decided by then: cuts of one effect between the same two changes are alike.
func (s *simulated) Journal() *explore.Journal {
	var all explore.Journal
	for _, e := range s.Simulated.Journal.Effects {
		all.Effects = append(all.Effects, explore.Effect{Machine: e.Machine, Name: e.Name, Nth: e.Nth, Done: e.Done, State: fmt.Sprint(e.Acts)})
	}
	for _, d := range s.Simulated.Journal.Decisions {
		all.Decisions = append(all.Decisions, explore.Decision{Machine: d.Machine, What: d.Name, Nth: d.Nth, State: fmt.Sprint(d.Acts, " ", d.Said)})
	}
	return &all
}
