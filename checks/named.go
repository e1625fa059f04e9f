// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"regexp"
	"slices"

	"github.com/ringproof/ringproof"
)

// inHex is what may be a member's ID, as [ringproof.MemberID] prints itself.
var inHex = regexp.MustCompile(`\b[0-9a-f]{5,16}\b`)

// named says of each member that a finding names by its ID on which machine it is,
// or was: a person who is woken by it knows machines.
func named(h *ringproof.History, findings []ringproof.Finding) []ringproof.Finding {
	if !slices.ContainsFunc(findings, func(f ringproof.Finding) bool { return f.Verdict != ringproof.Pass }) {
		return findings
	}
	machines := machinesOf(h)
	for i := range findings {
		f := &findings[i]
		f.Message = withMachines(f.Message, machines)
		f.Evidence = slices.Clone(f.Evidence)
		for j := range f.Evidence {
			f.Evidence[j] = withMachines(f.Evidence[j], machines)
		}
	}
	return findings
}

// machinesOf returns the machine of each member, by ID. A history that breaks the ledger
// has told so in a finding, which is not to be lost for want of a name.
func machinesOf(h *ringproof.History) (machines map[string]string) {
	defer func() { _ = recover() }()
	machines = map[string]string{}
	for member, home := range newLedger(h).homes { // order: a map of a map
		machines[member.String()] = home.machine
	}
	return machines
}

// withMachines adds to each ID its machine, unless the text names that anyway.
func withMachines(text string, machines map[string]string) string {
	return inHex.ReplaceAllStringFunc(text, func(id string) string {
		machine := machines[id]
		if machine == "" || regexp.MustCompile(`\b`+regexp.QuoteMeta(machine)+`\b`).MatchString(text) {
			return id
		}
		return id + " (" + machine + ")"
	})
}
