// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"slices"
	"strconv"

	"github.com/ringproof/ringproof"
)

// Known is what a scenario may name and this package can't know by itself: the
// checks there are, and the subject's actions. No actions means any.
type Known struct {
	Checks  []Check
	Actions []string
}

// Check is a check as a scenario names it.
type Check struct {
	Name   string
	Params map[string]ParamKind
	Modes  []ringproof.Mode // the modes in which it can judge; none: all
}

// ParamKind is how a check's parameter is written.
type ParamKind string

// The kinds of parameters.
const (
	ParamDuration ParamKind = "duration"
	ParamInteger  ParamKind = "integer"
	ParamText     ParamKind = "text"
)

// fits tells whether the value may be given.
func (k ParamKind) fits(value string) bool {
	switch k {
	case ParamDuration:
		_, _, ok := parseDuration(value)
		return ok
	case ParamInteger:
		_, err := strconv.Atoi(value)
		return err == nil
	}
	return value != ""
}

// Fits tells whether the check can judge runs of the mode.
func (c Check) Fits(mode ringproof.Mode) bool {
	return len(c.Modes) == 0 || slices.Contains(c.Modes, mode)
}

func (k Known) check(name string) (Check, bool) {
	i := slices.IndexFunc(k.Checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		return Check{}, false
	}
	return k.Checks[i], true
}

func (k Known) checkNames() []string {
	var names []string
	for _, c := range k.Checks {
		names = append(names, c.Name)
	}
	return names
}

// fitting lists the checks that judge a run by default.
func (k Known) fitting(mode ringproof.Mode) []ringproof.Invariant {
	var invariants []ringproof.Invariant
	for _, c := range k.Checks {
		if c.Fits(mode) {
			invariants = append(invariants, ringproof.Invariant{Check: c.Name})
		}
	}
	return invariants
}

// Standard is what the harness ships: its checks and the reference's actions.
func Standard() Known {
	safe := []ringproof.Mode{ringproof.ModeSafe}
	return Known{
		Actions: []string{"bootstrap", "add-learner", "bind", "promote", "remove", "move-leader", "launch", "clear"},
		Checks: []Check{
			{Name: "linearizable", Params: map[string]ParamKind{"checkTimeout": ParamDuration, "checkOps": ParamInteger}},
			{Name: "acknowledged-writes-survive"},
			{Name: "watch"},
			{Name: "one-cluster-identity"},
			{Name: "quorum-margin", Params: map[string]ParamKind{"min": ParamInteger, "grace": ParamDuration}, Modes: safe},
			{Name: "one-change-at-a-time"},
			{Name: "learner-first"},
			{Name: "no-ghost-members", Modes: safe},
			{Name: "no-identity-reuse"},
			{Name: "revision-monotone"},
			{Name: "hash-equal", Modes: safe},
			{Name: "available", Params: map[string]ParamKind{"maxGap": ParamDuration}, Modes: safe},
			{Name: "converges", Params: map[string]ParamKind{"within": ParamDuration}, Modes: safe},
			{Name: "quiescent", Params: map[string]ParamKind{"atLeast": ParamDuration}, Modes: safe},
			{Name: "no-leftovers"},
			{Name: "refusals"},
			{Name: "disaster", Modes: []ringproof.Mode{ringproof.ModeDisaster}},
		},
	}
}
