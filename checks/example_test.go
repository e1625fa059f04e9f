// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks_test

import (
	"fmt"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
)

// A history is judged wherever it is from. One that holds too little to tell is
// inconclusive, which never counts as a pass.
func ExampleJudge() {
	h := ringproof.History{
		Plan:     ringproof.Plan{Invariants: []ringproof.Invariant{{Check: "no-leftovers"}, {Check: "hash-equal"}}},
		Evidence: ringproof.Evidence{Leftovers: []string{"m1: etcd, pid 7, runs"}},
	}
	for _, f := range checks.Judge(&h) {
		fmt.Printf("%s: %s\n", f.Check, f.Verdict)
	}
	// Output:
	// assumptions: inconclusive
	// no-leftovers: fail
	// hash-equal: inconclusive
}
