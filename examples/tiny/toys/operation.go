// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package toys

import (
	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// Greet is an operation. Who can be asked for it is the subject.
var Greet = faults.Operation{
	Kind: "greet",
	Doc:  "say a word to the subject",
	Params: faults.Params{
		{Name: "word", Doc: "what is said", Required: true},
		{Name: "times", Type: faults.TypeNumber, Doc: "how often; once when absent", Least: 1, Most: 3},
	},
	Owes:     "It says the word back, and leaves the ring as it is.",
	Worlds:   []string{"sim", "toy"},
	Causes:   func(ringproof.Op, int) []ringproof.EventKind { return nil },
	Sentence: func(op ringproof.Op) string { return "say " + op.Params["word"] },
}
