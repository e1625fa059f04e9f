// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reports"
	"github.com/ringproof/ringproof/scenarios"
)

// What a finding of the simulated world comes to in a real one.
const (
	Confirmed   = "CONFIRMED"    // the same check fails there
	SimOnly     = "SIM-ONLY"     // every run passes there: the model is wrong
	Undecided   = "UNDECIDED"    // other checks fail, or not every run could be judged
	NotPortable = "NOT-PORTABLE" // the world can't do what the plan does
)

// Confirmation is what became of a finding in a real world.
type Confirmation struct {
	Plan    string         `json:"plan"`
	World   string         `json:"world"`
	Check   string         `json:"check"`
	Verdict string         `json:"verdict"`
	Failed  int            `json:"failed"` // runs that the check failed
	Times   int            `json:"times"`
	Others  map[string]int `json:"others,omitempty"` // other checks that failed, or could not judge
	Why     string         `json:"why,omitempty"`
	Report  string         `json:"report,omitempty"`
}

// Repeated are jobs of one plan, each with a name, and so files, of its own.
func Repeated(p ringproof.Plan, world string, times int) []Job {
	cell, err := scenarios.ParseCellName(p.Cell)
	if err != nil {
		cell = scenarios.Cell{Scenario: p.Scenario, Seed: p.Seed, Seeded: true}
	}
	var jobs []Job
	for n := range times {
		again := p
		again.World, again.Expect = world, nil
		cell.Values = maps.Clone(cell.Values)
		if cell.Values == nil {
			cell.Values = map[string]string{}
		}
		cell.Values["run"] = fmt.Sprint(n + 1)
		again.Cell = cell.String()
		jobs = append(jobs, Job{Plan: again})
	}
	return jobs
}

// Judge counts what the check said in each run.
func (r *Confirmation) Judge(cells []reports.Cell) {
	r.Others = map[string]int{}
	for _, cell := range cells {
		failed := slices.ContainsFunc(cell.Findings, func(f ringproof.Finding) bool { return f.Check == r.Check && f.Verdict == ringproof.Fail })
		if failed {
			r.Failed++
			continue
		}
		for _, f := range cell.Findings {
			if f.Verdict != ringproof.Pass {
				r.Others[f.Check+" "+f.Verdict.String()]++
			}
		}
		if cell.Skipped != "" {
			r.Others["skipped"]++
		}
	}
	switch {
	case r.Failed > 0:
		r.Verdict = Confirmed
	case len(r.Others) > 0:
		r.Verdict = Undecided
	default:
		r.Verdict = SimOnly
	}
}
