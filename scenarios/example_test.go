// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios_test

import (
	"fmt"

	"github.com/ringproof/ringproof/scenarios"
)

// A scenario has a cell for each choice of its matrix, and a cell with a seed resolves
// to one plan.
func ExampleScenario_Resolve() {
	text, err := scenarios.ShippedSource("volume-lost")
	if err != nil {
		panic(err)
	}
	s, found := scenarios.Parse("volume-lost.yaml", text)
	if found.Failed() {
		panic(found)
	}
	cell := s.Cells(1)[0]
	plan, found := s.Resolve(cell, "reference", scenarios.Anywhere("sim"))
	fmt.Println(cell, found.Failed())
	for _, step := range plan.Steps {
		fmt.Println(step.Name)
	}
	// Output:
	// volume-lost#1 false
	// lose
	// settle
}
