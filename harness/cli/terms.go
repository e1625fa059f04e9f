// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// meaning is a word that ringproof prints, and its one meaning.
type meaning struct {
	Word    string `json:"word"`
	Meaning string `json:"meaning"`
}

func (t meaning) columns() []string { return []string{t.Word, t.Meaning} }

// terms are the words of the command line and of the reports that no catalogue
// explains, sorted.
var terms = sorted([]meaning{
	{"ring", "one etcd cluster; cluster alone means Kubernetes"},
	{"member", "an entry in the ring's membership: a voter or a learner"},
	{"voter", "a member that counts for the quorum"},
	{"learner", "a member that receives the log and doesn't vote; it is promoted once it has caught up"},
	{"bootstrap", "to make a ring where there is none, once"},
	{"initial member", "a member that the ring was bootstrapped with"},
	{"founder", "what an initial member was called before, and is in stayed: [founders]"},
	{"quorum", "a majority of the voters: 2 of 3, 3 of 4, 3 of 5"},
	{"margin", "how many more voters the ring can lose: those that have their log, less the quorum"},
	{"machine", "what one member runs on: a name (m1), an address, a disk"},
	{"spare", "a machine without a member"},
	{"disk", "a machine's data filesystem; it has an ID of its own, so that an empty one is never taken for the one that was lost"},
	{"store", "where machines find each other before a ring exists, and what was asked for: a directory that all of them mount; on Kubernetes, objects of the ring"},
	{"bind", "to record on which machine and disk a member may start"},
	{"lead", "the one agent that changes the membership at the time, on Kubernetes the controller; not raft's leader"},
	{"agent", "the subject's process on a machine, or in a pod: it starts etcd there, and on a machine it leads if it is its turn"},
	{"subject", "the software on trial, which makes and keeps the ring"},
	{"reference", "the subject that comes with ringproof: ringadm"},
	{"mutant", "a subject with one mistake planted, which a check must catch"},
	{"canary", "what a known bug was called before"},
	{"beside", "what a baseline was called before"},
	{"gauge", "what mutate was called before"},
	{"harm", "what a fault was called before"},
	{"decommission", "to move the member off a machine that is not to have one any more"},
	{"retire", "what to decommission was called before"},
	{"known bug", "of etcd: the release that has it must fail, and the release that fixed it must pass"},
	{"world", "where a plan runs: sim, simulated; virtual, with real processes in virtual time; local, with real processes; kind, on a Kubernetes cluster in real time"},
	{"scenario", "the YAML that a person writes: a ring, a workload, steps, what must hold, and the hypothesis"},
	{"hypothesis", "what a scenario claims, in a sentence; its asserts and checks decide whether it holds"},
	{"cell", "one run of a scenario: one choice of its matrix and one seed"},
	{"plan", "a scenario with every choice made; what is saved, replayed, shrunk, and carried to another world"},
	{"seed", "the number that all chance of a run comes from: in sim the same seed is the same run"},
	{"step", "one operation, fault or assertion of a plan"},
	{"workload", "what clients ask meanwhile"},
	{"finding", "what a check says of a run"},
	{"attempt", "one run of a cell; in real time one that doesn't pass is run again alone"},
	{"flaky", "of a cell: an attempt passed and another didn't, and none decides. It is a pass where none failed, else inconclusive"},
	{"stalled", "of a host: it kept a process of the run waiting for a processor or its disk; checks that judge time then can't tell"},
	{"key", "the name of a bug: the check, and a hash of what it says without names and numbers"},
	{"verdict", "pass, fail or inconclusive"},
	{"inconclusive", "too little is known to tell; never counted as a pass"},
	{"not applicable", "the world can't do what the plan asks for, by its nature; never counted as a pass"},
	{"skipped", "this host can't do what the plan asks for, and another could; the run is then no pass"},
	{"baseline", "a cell that another subject ran only to be compared with; it is in no count"},
	{"fair", "of a fault: a correct subject survives it. What isn't fair is downgraded"},
	{"downgraded", "of a fault: it would have been unfair, so a milder one was done, or none"},
	{"landed", "of a fault: it took effect, and the world saw it"},
	{"missed", "of a fault: there was nothing that it could hit"},
	{"budget", "how many voters faults may take at the time, and how many they have taken"},
	{"healed", "of a fault: it is over"},
	{"heal phase", "the time after all faults: the ring must become what was asked for"},
	{"converged", "of a ring: it is what was asked for, all members serve, and it stays so"},
	{"rest", "the time after it has converged: nothing may happen any more"},
	{"gap", "the longest time in which clients got no answer, though somebody asked"},
	{"acked", "operations whose answer a client holds"},
	{"no answer", "operations of which nobody knows whether they were applied: both are allowed"},
	{"full strength", "the time from the last fault or request until all asked for voters serve"},
	{"others restarted", "ends of etcd on machines that no fault had touched"},
	{"leader changes", "elections after the first"},
	{"trace", "a hash of all that happened: two runs with the same trace are the same run"},
	{"effect", "one thing that a subject does to the world, at which it can be cut off"},
	{"view", "what a subject's decision is made on, which may be old or missed"},
	{"replay", "to run a saved plan again"},
	{"shrink", "to leave out of a failing plan what the failure doesn't need"},
	{"sweep", "to run a plan again for each effect and each view, with a fault there"},
	{"explore", "to draw plans, run them, and shrink what fails"},
	{"mutate", "to run every mutant: the check that is meant for it must fail it, which kills it"},
	{"confirm", "to run a plan that failed in sim in another world"},
	{"CONFIRMED", "the same check fails there too"},
	{"SIM-ONLY", "every run passes there: the simulated world is wrong, which is a bug of ringproof"},
	{"UNDECIDED", "other checks fail there, or a run could not be judged"},
	{"NOT-PORTABLE", "the other world can't do what the plan asks for"},
	{"fidelity", "how alike the simulated and the real etcd answer the same script"},
})

func sorted(all []meaning) []meaning {
	slices.SortFunc(all, func(a, b meaning) int { return cmp.Compare(strings.ToLower(a.Word), strings.ToLower(b.Word)) })
	return all
}

var termListing = listing{"the words of the reports, with what each means", []string{"WORD", "MEANING"}, func() ([]row, error) {
	return rowsOf(terms, func(t meaning) meaning { return t }), nil
}}

func termTopics() []topic {
	var all []topic
	for _, t := range terms {
		all = append(all, topic{Kind: "term", Word: t.Word, Title: t.Meaning})
	}
	return all
}

// writeGlossary prints docs/glossary.md.
func writeGlossary(w io.Writer) {
	fmt.Fprint(w, `# Glossary

One word, one meaning. `+"`ringproof explain WORD`"+` prints each of these, and every fault, operation, check, event and target too.

| word | meaning |
|---|---|
`)
	for _, t := range terms {
		fmt.Fprintf(w, "| %s | %s |\n", t.Word, t.Meaning)
	}
}
