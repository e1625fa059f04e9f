// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ringproof/ringproof"
)

// Random is the selector that stands for a draw. Resolving a scenario replaces
// it; a plan holds none.
const Random = "random"

// Lead is the selector of whoever leads the automation, which no observation of the ring
// shows: who runs a plan goes by what the subject has told ([ringproof.EventLeads]).
const Lead = "lead"

// Selector documents one form of selector. N in a form stands for a number
// from 1.
type Selector struct {
	Form string `json:"form"`
	Doc  string `json:"doc"`
}

var selectors = []Selector{
	{"leader", "the machine whose member leads"},
	{"follower", "the first voter, by machine name, that doesn't lead"},
	{"follower/N", "the Nth voter, by machine name, that doesn't lead"},
	{"voter", "the first voter by machine name"},
	{"voter/N", "the Nth voter by machine name"},
	{"learner", "the first learner by machine name"},
	{"learner/N", "the Nth learner by machine name"},
	{"joining", "the member that is on its way in: a learner, or an entry that never started"},
	{Random, "a member drawn from the seed when the scenario is resolved"},
	{"mN", "the machine with that name"},
	{"mN,mN", "the two machines with those names"},
	{"machine/N", "the Nth machine by name, lost ones included"},
	{"spare", "the first machine, by name, that is there and has no member"},
	{"step/NAME", "the machines that the step NAME hit, whatever is on them now"},
	{Lead, "the machine whose agent leads the automation, by the subject's last word of that"},
	{"all", "every machine that isn't lost"},
	{"minority", "the largest set of voters that is no quorum, without the leader"},
	{"leader-minority", "the largest set of voters that is no quorum, with the leader"},
	{"majority", "the smallest quorum, the leader included"},
}

// Selectors lists every form with its meaning.
func Selectors() []Selector { return slices.Clone(selectors) }

// MemberForms are the selectors that pick one member.
func MemberForms() []string {
	return []string{"leader", "follower", "follower/N", "voter", "voter/N", "learner", "learner/N", "joining", Random}
}

// MachineForms are the selectors that pick machines, members or not.
func MachineForms() []string { return []string{"mN", "machine/N", "spare", "step/NAME", Lead, "all"} }

// SetForms are the selectors that pick several voters.
func SetForms() []string { return []string{"minority", "leader-minority", "majority"} }

var (
	byName  = regexp.MustCompile(`^m[1-9][0-9]{0,3}$`)
	byNames = regexp.MustCompile(`^m[1-9][0-9]{0,3},m[1-9][0-9]{0,3}$`)
	byIndex = regexp.MustCompile(`^(follower|voter|learner|machine)/([1-9][0-9]{0,3})$`)
	byStep  = regexp.MustCompile(`^step/([A-Za-z0-9._-]+)$`)
)

// Form returns the form of a concrete selector: follower/N for follower/2. It
// returns "" for what is no selector.
func Form(selector string) string {
	switch {
	case byName.MatchString(selector):
		return "mN"
	case byNames.MatchString(selector):
		return "mN,mN"
	case byIndex.MatchString(selector):
		kind, _, _ := strings.Cut(selector, "/")
		return kind + "/N"
	case byStep.MatchString(selector):
		return "step/NAME"
	case strings.HasSuffix(selector, "N"):
		return ""
	case slices.ContainsFunc(selectors, func(s Selector) bool { return s.Form == selector }):
		return selector
	}
	return ""
}

// OfStep returns the name of the step whose machines the selector stands for. Which they
// are no observation shows: who runs a plan knows what its steps have hit.
func OfStep(selector string) (step string, is bool) {
	m := byStep.FindStringSubmatch(selector)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// Legal reports whether the selector has one of the forms.
func Legal(selector string, forms []string) bool {
	form := Form(selector)
	return form != "" && slices.Contains(forms, form)
}

// MostVoters replaces what a selector can't know before a run by what it counts
// for: how many of size voters, at most, the selector picks. Learners, joining
// members and spares are no voters.
func MostVoters(selector string, size int) int {
	switch Form(selector) {
	case "", "learner", "learner/N", "joining", "spare":
		return 0
	case "all":
		return size
	case "minority", "leader-minority":
		return (size - 1) / 2
	case "majority":
		return ringproof.Quorum(size)
	case "mN,mN":
		return 2
	}
	return 1
}

// Resolve returns the machines that the selector names now, by name. What the
// observation doesn't show is not guessed: the error says what was looked for
// and what there was.
func Resolve(selector string, o ringproof.Observation) ([]string, error) {
	kind, index := selector, 1
	if m := byIndex.FindStringSubmatch(selector); m != nil {
		kind = m[1]
		index, _ = strconv.Atoi(m[2])
	}
	picked, err := pick(kind, selector, o)
	if err != nil {
		return nil, fmt.Errorf("selecting %s: %w; there was %s", selector, err, describe(o))
	}
	set, pair := slices.Contains([]string{"all", "minority", "leader-minority", "majority"}, kind), byNames.MatchString(kind)
	if pair {
		index = 2
	}
	switch {
	case set && len(picked) == 0:
		return nil, fmt.Errorf("selecting %s: it is empty; there was %s", selector, describe(o))
	case !set && len(picked) < index:
		return nil, fmt.Errorf("selecting %s: found %d of %d; there was %s", selector, len(picked), index, describe(o))
	case set || pair:
		return picked, nil
	}
	return picked[index-1 : index], nil
}

// pick lists every machine of a kind, in the order in which indices count.
func pick(kind, selector string, o ringproof.Observation) ([]string, error) {
	switch kind {
	case "leader", "follower", "minority", "leader-minority", "majority":
		return pickByLead(kind, o)
	case "voter":
		return machinesOf(o.Voters()), nil
	case "learner":
		return machinesOf(o.Learners()), nil
	case "joining":
		return joining(o), nil
	case "spare":
		return machinesThat(o, func(m ringproof.MachineView) bool { return !m.Lost && m.Up && !hosts(o, m.Name) }), nil
	case "all":
		return machinesThat(o, func(m ringproof.MachineView) bool { return !m.Lost }), nil
	case "machine":
		return machinesThat(o, func(ringproof.MachineView) bool { return true }), nil
	case Lead:
		return nil, fmt.Errorf("no process of the subject has said that it leads")
	case Random:
		return nil, fmt.Errorf("it is drawn when a scenario is resolved, a plan holds none")
	}
	if step, is := OfStep(kind); is {
		return nil, fmt.Errorf("step %s has hit no machine", step)
	}
	if byName.MatchString(kind) || byNames.MatchString(kind) {
		names := strings.Split(kind, ",")
		return machinesThat(o, func(m ringproof.MachineView) bool { return slices.Contains(names, m.Name) }), nil
	}
	return nil, fmt.Errorf("%q is no selector", selector)
}

func pickByLead(kind string, o ringproof.Observation) ([]string, error) {
	leader, known := o.Leader()
	if !known {
		return nil, fmt.Errorf("no member says that it leads")
	}
	var followers []string
	for _, machine := range machinesOf(o.Voters()) {
		if machine != leader.Machine {
			followers = append(followers, machine)
		}
	}
	voters := len(followers) + 1
	switch kind {
	case "leader":
		return []string{leader.Machine}, nil
	case "follower":
		return followers, nil
	case "minority":
		return followers[:(voters-1)/2], nil
	case "leader-minority":
		return withLeader(leader.Machine, followers, (voters-1)/2), nil
	}
	return withLeader(leader.Machine, followers, ringproof.Quorum(voters)), nil
}

// withLeader takes n machines, the leader's among them.
func withLeader(leader string, followers []string, n int) []string {
	if n == 0 {
		return nil
	}
	picked := append([]string{leader}, followers[:n-1]...)
	slices.SortFunc(picked, CompareMachines)
	return picked
}

func joining(o ringproof.Observation) []string {
	var entries []ringproof.MemberView
	for _, m := range o.Members {
		if m.Learner || m.Name == "" {
			entries = append(entries, m)
		}
	}
	return machinesOf(entries)
}

func machinesOf(members []ringproof.MemberView) []string {
	var names []string
	for _, m := range members {
		if m.Machine != "" {
			names = append(names, m.Machine)
		}
	}
	slices.SortFunc(names, CompareMachines)
	return slices.Compact(names)
}

func machinesThat(o ringproof.Observation, keep func(ringproof.MachineView) bool) []string {
	var names []string
	for _, m := range o.Machines {
		if keep(m) {
			names = append(names, m.Name)
		}
	}
	slices.SortFunc(names, CompareMachines)
	return names
}

func hosts(o ringproof.Observation, machine string) bool {
	_, ok := o.On(machine)
	return ok
}

// CompareMachines orders machine names as people count: m2 before m10.
func CompareMachines(a, b string) int {
	stemA, countA := splitNumber(a)
	stemB, countB := splitNumber(b)
	return cmp.Or(cmp.Compare(stemA, stemB), cmp.Compare(len(countA), len(countB)), cmp.Compare(countA, countB))
}

func splitNumber(name string) (stem, count string) {
	stem = strings.TrimRight(name, "0123456789")
	return stem, strings.TrimLeft(name[len(stem):], "0")
}

func describe(o ringproof.Observation) string {
	parts := []string{
		list("voters", machinesOf(o.Voters())),
		list("learners", machinesOf(o.Learners())),
		list("machines", machinesThat(o, func(m ringproof.MachineView) bool { return !m.Lost })),
	}
	return strings.Join(parts, ", ")
}

func list(noun string, names []string) string {
	if len(names) == 0 {
		return "no " + noun
	}
	return noun + " " + strings.Join(names, " ")
}
