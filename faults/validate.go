// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// Problem is what is wrong with one field of a fault.
type Problem struct {
	Field   string   // as it is written in a scenario: "kind", "target", "scope", …
	Missing bool     // the field is required and absent
	Value   string   // what was there
	Legal   []string // what may be there; empty when it isn't a matter of choice
	Message string
}

// Error makes a Problem an error.
func (p Problem) Error() string { return p.Field + ": " + p.Message }

// Validate checks a fault against its entry. It accepts the selector random,
// which a scenario may hold and a plan may not.
func Validate(f ringproof.Fault) []Problem {
	entry, ok := Lookup(f.Kind)
	if !ok {
		return []Problem{{Field: "kind", Value: string(f.Kind), Legal: Kinds(), Message: fmt.Sprintf("unknown fault %q", f.Kind)}}
	}
	var problems []Problem
	for _, field := range fields(f) {
		if p, bad := entry.judge(field); bad {
			problems = append(problems, p)
		}
	}
	return problems
}

// field is one field of a fault as text; a zero field is absent.
type field struct {
	name, text string
	negative   bool
}

func fields(f ringproof.Fault) []field {
	return []field{
		{name: "target", text: f.Target},
		{name: "scope", text: f.Scope},
		{name: "shape", text: f.Shape},
		{name: "action", text: f.Action},
		{name: "phase", text: f.Phase},
		{name: "leave", text: f.Leave},
		{name: "nth", text: number(f.Nth), negative: f.Nth < 0},
		{name: "for", text: length(f.For), negative: f.For < 0},
		{name: "stagger", text: length(f.Stagger), negative: f.Stagger < 0},
	}
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func length(d ringproof.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func (e Entry) judge(f field) (Problem, bool) {
	param, takes := e.Param(f.name)
	problem := Problem{Field: f.name, Value: f.text}
	switch {
	case f.text == "" && takes && param.Required:
		problem.Missing = true
		problem.Legal = param.Values
		problem.Message = fmt.Sprintf("%s needs %s: %s", e.Kind, f.name, param.Doc)
	case f.text == "":
		return Problem{}, false
	case !takes:
		problem.Legal = e.ParamNames()
		problem.Message = fmt.Sprintf("%s takes no %s; it takes %s", e.Kind, f.name, strings.Join(e.ParamNames(), ", "))
	case f.negative:
		problem.Message = fmt.Sprintf("%s is negative", f.text)
	case f.name == "target" && !Legal(f.text, e.Targets):
		problem.Legal = e.Targets
		problem.Message = fmt.Sprintf("%s can't target %q", e.Kind, f.text)
	case len(param.Values) > 0 && !slices.Contains(param.Values, f.text):
		problem.Legal = param.Values
		problem.Message = fmt.Sprintf("unknown %s %q", f.name, f.text)
	default:
		return Problem{}, false
	}
	return problem, true
}
