// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

// Search is what finding the mutants cost, as the command measured it: from each
// start, the seeds that follow it were tried.
type Search struct {
	Command string   `json:"command"`
	Starts  []uint64 `json:"starts"`
	Seeds   int      `json:"seeds"` // the most seeds of a mutant's scenario from each start
	Runs    int      `json:"runs"`  // the most drawn plans from each start
	Mutants []Found  `json:"mutants"`
}

// Found is what finding one mutant cost. Where it was found from fewer than
// half of the starts there is no median, and the figure is 0.
type Found struct {
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

//go:embed found.json
var foundText []byte

// LastSearch is the search that was kept when this program was made.
func LastSearch() (Search, error) {
	var s Search
	if err := json.Unmarshal(foundText, &s); err != nil {
		return Search{}, fmt.Errorf("found.json: %w; make found writes it anew", err)
	}
	return s, nil
}

// Of returns what finding the mutant cost.
func (s Search) Of(mutant string) (Found, bool) {
	i := slices.IndexFunc(s.Mutants, func(f Found) bool { return f.Name == mutant })
	if i < 0 {
		return Found{}, false
	}
	return s.Mutants[i], true
}
