// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults_test

import (
	"fmt"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// A selector names machines by what they are now.
func ExampleResolve() {
	o := ringproof.Observation{
		Members: []ringproof.MemberView{
			{ID: 1, Name: "m1", Machine: "m1", Serving: true, Term: 2},
			{ID: 2, Name: "m2", Machine: "m2", Serving: true, Term: 2, Leader: true},
			{ID: 3, Name: "m3", Machine: "m3", Serving: true, Term: 2},
		},
		Machines: []ringproof.MachineView{{Name: "m1", Up: true}, {Name: "m2", Up: true}, {Name: "m3", Up: true}, {Name: "m4", Up: true}},
	}
	for _, selector := range []string{"leader", "follower/2", "leader-minority", "majority", "spare", "learner"} {
		machines, err := faults.Resolve(selector, o)
		fmt.Println(selector, machines, err != nil)
	}
	// Output:
	// leader [m2] false
	// follower/2 [m3] false
	// leader-minority [m2] false
	// majority [m1 m2] false
	// spare [m4] false
	// learner [] true
}

// A fault is held to the catalogue before it runs, and reads as a sentence.
func ExampleValidate() {
	f := ringproof.Fault{Kind: ringproof.FaultPause, Target: "leader", Scope: "machine", For: ringproof.Duration(5 * time.Second)}
	fmt.Println(faults.Sentence(ringproof.Step{Name: "stopped", Fault: &f}), len(faults.Validate(f)))
	f.Scope = "universe"
	for _, p := range faults.Validate(f) {
		fmt.Println(p.Error())
	}
	// Output:
	// stop the machine on leader for 5s 0
	// scope: unknown scope "universe"
}
