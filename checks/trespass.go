// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"slices"

	"github.com/ringproof/ringproof"
)

var noTrespass = Check{
	Name:   "no-trespass",
	Claim:  "The subject changes nothing in another ring, and nothing at all where it was told to change nothing.",
	Source: "one cluster identity: who acts on a list acts on the ring whose list it is; a dry run is what an operator trusts before the first real one",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if all := events(h, ringproof.EventTrespass); len(all) > 0 {
			e := all[0]
			return with(fail(e.At, "expected nothing to be changed by the agents that had to leave it alone, saw on %s: %s", e.Machine, e.Text), lines(all)...)
		}
		tempted := 0
		for _, e := range events(h, ringproof.EventFaultLanded) {
			if tempting(e.Fault) {
				tempted++
			}
		}
		if tempted == 0 {
			return unknown("no other ring was there, and no dry run")
		}
		return pass("%d other rings and dry runs, and nothing changed by them", tempted)
	},
	suits: func(p ringproof.Plan) bool {
		return slices.ContainsFunc(p.Steps, func(s ringproof.Step) bool { return s.Fault != nil && tempting(s.Fault.Kind) })
	},
}

// tempting reports whether the fault puts before the subject what it must not
// change.
func tempting(kind ringproof.FaultKind) bool {
	return kind == ringproof.FaultWrongRing || kind == ringproof.FaultDryRun
}
