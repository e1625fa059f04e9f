// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore_test

import (
	"context"
	"fmt"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness/explore"
)

// inProcess runs plans one after another, and fails those in which a volume is lost. A
// Pool would run them in worker processes, by cli.Registry.Simulate.
type inProcess struct{}

func (inProcess) Run(_ context.Context, jobs []explore.Job) (all []explore.Result) {
	for _, job := range jobs {
		o := explore.Outcome{Verdict: ringproof.Pass}
		for _, s := range job.Plan.Steps {
			if s.Fault != nil && s.Fault.Kind == ringproof.FaultVolumeLoss {
				o.Verdict = ringproof.Fail
				o.Findings = []ringproof.Finding{{Check: "converges", Verdict: ringproof.Fail, Message: "expected 3 voters, saw 2"}}
			}
		}
		all = append(all, explore.Result{Outcome: o})
	}
	return all
}

// Plans are drawn until there are enough, and what fails is made small.
func ExampleSearch() {
	ctx := context.Background()
	tally, err := explore.Search{Runner: inProcess{}, Subject: "mine", Seed: 1, Runs: 100}.Run(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	found := tally.Findings[0]
	small, err := explore.Shrinker{Runner: inProcess{}}.Shrink(ctx, found.Plan, found.Key)
	fmt.Println(tally.Verdict(), found.Finding.Check, err)
	fmt.Println("faults:", small.Faults, small.Plan.Steps[0].Fault.Kind)
	// Output:
	// fail converges <nil>
	// faults: 1 volume-loss
}
