// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness_test

import (
	"context"
	"fmt"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/sim"
)

// A plan runs in a world, here the simulated one, and its history is judged. The
// subject is the reference; any sim.Subject can take its place.
func ExampleRun() {
	plan := ringproof.Plan{
		Cell: "example#1", Scenario: "example", Seed: 1, Subject: "reference", World: "sim",
		Ring:       ringproof.RingSpec{Size: 3, Machines: 3, Version: "v3.6.16", Security: "plain"},
		Workload:   ringproof.Workload{Profile: "kv", Clients: 3, Keys: 8, Rate: 50},
		Invariants: []ringproof.Invariant{{Check: "linearizable"}, {Check: "converges"}},
		Steps:      []ringproof.Step{{Name: "kill", Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Target: "leader", Scope: "process"}}},
	}
	h, err := harness.Run(context.Background(), plan, sim.New(plan.Seed, &subject.Simulated[*sim.World, *sim.Machine]{}), harness.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range checks.Judge(&h) {
		fmt.Println(f.Check, f.Verdict)
	}
	// Output:
	// assumptions pass
	// linearizable pass
	// converges pass
}
