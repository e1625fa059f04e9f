// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import "slices"

// Mutant is a subject with one mistake planted, to prove that a check would notice.
type Mutant struct {
	Name     string `json:"name"`
	Hazard   string `json:"hazard"` // what it does wrong, in one sentence
	Source   string `json:"source"` // whose hazard it is or was
	Check    string `json:"check"`  // the check that must fail it, in every world
	Scenario string `json:"scenario"`
	SimOnly  string `json:"simOnly,omitempty"` // why it can be shown in the simulated world alone; "": in every one
	Undrawn  string `json:"undrawn,omitempty"` // why no plan that explore draws can show it; "": one can
	Beneath  bool   `json:"-"`                 // the mistake is in what is seen of the ring, and not in the subject
}

// Costs is what finding the mutants of a subject cost, as the command measured it: from
// each start, the seeds that follow it were tried.
type Costs struct {
	Command string   `json:"command"`
	Starts  []uint64 `json:"starts"`
	Seeds   int      `json:"seeds"` // the most seeds of a mutant's scenario from each start
	Runs    int      `json:"runs"`  // the most drawn plans from each start
	Mutants []Cost   `json:"mutants"`
}

// Cost is what finding one mutant cost. Where it was found from fewer than half of the
// starts there is no median, and the figure is 0.
type Cost struct {
	Name     string   `json:"name"`
	Seeds    int      `json:"seeds"`          // the median of the seeds of its scenario until the intended check failed it
	Runs     int      `json:"runs"`           // the median of the drawn plans until any check failed it
	Seconds  float64  `json:"seconds"`        // the median of the seconds of a worker that those took
	FailedBy []string `json:"failedBy"`       // the checks that failed it in the drawn plans, those that did so most first
	Seed     uint64   `json:"seed,omitempty"` // of the first drawn plan that failed it
	// Unsearched says that the drawn plans were not searched to the end: none can
	// show it, or nobody has waited for it.
	Unsearched bool `json:"unsearched,omitempty"`
}

// Of returns what finding the mutant cost.
func (c Costs) Of(mutant string) (Cost, bool) {
	i := slices.IndexFunc(c.Mutants, func(of Cost) bool { return of.Name == mutant })
	if i < 0 {
		return Cost{}, false
	}
	return c.Mutants[i], true
}
