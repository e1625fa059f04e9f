// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package toys

import (
	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// Nap is a fault: etcd sleeps, and does not wake at once. Its deed is in the world.
var Nap = faults.Entry{
	Kind: "nap",
	Doc:  "etcd sleeps for a time, as when its machine is moved to another host",
	Params: faults.Params{
		{Name: "target", Type: faults.TypeTarget, Doc: "whose etcd", Required: true},
		{Name: "for", Type: faults.TypeDuration, Doc: "how long it sleeps", Required: true},
		{Name: "sleep", Doc: "whether the whole machine sleeps with it", Values: []string{"light", "deep"}},
	},
	Targets:  faults.MemberForms(),
	Fairness: "Always fair: whoever wakes up has lost nothing.",
	Heals:    "it wakes up",
	Worlds:   []string{"toy"},
	Sentence: func(f ringproof.Fault) string { return "put " + f.Target + " into a " + f.Params["sleep"] + " sleep" },
}
