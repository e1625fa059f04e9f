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
	s := cli.Subject{Name: subject.Reference, Costs: costs, Seen: subject.Beneath, Ways: []any{cli.InSim(inSim), trial.Way(asProcesses), trial.InPods{Make: inPods, Runs: subject.RunsInPods}}}
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
	return &processes{subject.Processes{Ringadm: ringadm, Self: self, Mutants: mutants}}, nil
}

func inPods(mutants []string) (trial.Subject, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &pods{subject.Pods{Self: self, Mutants: mutants}}, nil
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

// simulated, processes and pods are the reference where it can keep a journal for a sweep.
type (
	simulated struct {
		subject.Simulated[*sim.World, *sim.Machine]
	}
	processes struct{ subject.Processes }
	pods      struct{ subject.Pods }
)

var _, _, _ cli.Journalling = (*simulated)(nil), (*processes)(nil), (*pods)(nil)

// Begin has a journal kept.
func (s *simulated) Begin() ringproof.Fault {
	s.Simulated.Journal = &subject.Journal{}
	return subject.Probe()
}

// Begin has a journal kept, as nothing else is done with a probe.
func (*processes) Begin() ringproof.Fault { return subject.Probe() }

// Begin has a journal kept, as nothing else is done with a probe.
func (*pods) Begin() ringproof.Fault { return subject.Probe() }

// Journal is what was kept.
func (s *simulated) Journal() (*explore.Journal, error) { return swept(s.Simulated.Journal), nil }

// Journal is what was kept.
func (p *processes) Journal() (*explore.Journal, error) { return read(p.Processes.Journal()) }

// Journal is what was kept.
func (p *pods) Journal() (*explore.Journal, error) { return read(p.Pods.Journal()) }

func read(j *subject.Journal, err error) (*explore.Journal, error) {
	if err != nil {
		return nil, err
	}
	return swept(j), nil
}

// swept is a journal as a sweep reads it. What the ring was is what had been decided by
// then: cuts of one effect between the same two changes are alike.
func swept(j *subject.Journal) *explore.Journal {
	var all explore.Journal
	for _, e := range j.Effects {
		all.Effects = append(all.Effects, explore.Effect{Machine: e.Machine, Scope: e.Scope, Name: e.Name, Nth: e.Nth, Done: e.Done, State: fmt.Sprint(e.Acts)})
	}
	for _, d := range j.Decisions {
		all.Decisions = append(all.Decisions, explore.Decision{Machine: d.Machine, Scope: d.Scope, What: d.Name, Nth: d.Nth, State: fmt.Sprint(d.Acts, " ", d.Said)})
	}
	return &all
}
