// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"

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
	if p, bad := entry.choose(f); bad {
		problems = append(problems, p)
	}
	if month := ringproof.Duration(30 * 24 * time.Hour); f.Kind == ringproof.FaultTimePasses && f.For > 0 && f.By/month > f.For/ringproof.Duration(time.Second) {
		problems = append(problems, Problem{Field: "for", Value: f.For.String(), Message: fmt.Sprintf("%s can't pass in %s: nobody could follow; take a second for each thirty days", f.By, f.For)})
	}
	if f.Kind == ringproof.FaultTimePasses && f.By > ringproof.Duration(mostAge) {
		problems = append(problems, Problem{Field: "by", Value: f.By.String(), Message: fmt.Sprintf("%s is longer than ten years: the ring's authority is not outlived", f.By)})
	}
	if f.Kind == ringproof.FaultVolumeLoss && f.By != 0 && f.Leave != ringproof.LeaveCopy {
		problems = append(problems, Problem{Field: "by", Value: f.By.String(), Message: "only a " + ringproof.LeaveCopy + " has an age"})
	}
	if f.Kind == ringproof.FaultPartition && (f.From != "") != (f.Shape == "pair") {
		problems = append(problems, Problem{Field: "from", Value: f.From, Missing: f.From == "", Message: "a pair has two ends: partition takes from with shape pair, and with no other"})
	}
	return problems
}

// mostAge is for how long a ring's authority lives.
const mostAge = 10 * 365 * 24 * time.Hour

// choose wants exactly one of the parameters that exclude each other.
func (e Entry) choose(f ringproof.Fault) (Problem, bool) {
	var given []string
	for _, field := range fields(f) {
		if field.text != "" && slices.Contains(e.OneOf, field.name) {
			given = append(given, field.name)
		}
	}
	choice := strings.Join(e.OneOf, " or ")
	switch {
	case len(e.OneOf) == 0 || len(given) == 1:
		return Problem{}, false
	case len(given) == 0:
		return Problem{Field: e.OneOf[0], Missing: true, Message: fmt.Sprintf("%s needs %s", e.Kind, choice)}, true
	}
	return Problem{Field: given[len(given)-1], Message: fmt.Sprintf("%s takes %s, not both", e.Kind, choice)}, true
}

// field is one field of a fault as text; a zero field is absent.
type field struct {
	name, text string
	negative   bool
	number     int
}

func fields(f ringproof.Fault) []field {
	all := []field{
		{name: "target", text: f.Target},
		{name: "scope", text: f.Scope},
		{name: "shape", text: f.Shape},
		{name: "action", text: f.Action},
		{name: "effect", text: f.Effect},
		{name: "phase", text: f.Phase},
		{name: "decision", text: f.Decision},
		{name: "leave", text: f.Leave},
		{name: "at", text: f.At},
		{name: "remount", text: f.Remount},
		{name: "does", text: f.Does},
		{name: "from", text: f.From},
		{name: "calls", text: f.Calls},
		{name: "records", text: f.Records},
		{name: "by", text: length(f.By), negative: f.By < 0},
		{name: "for", text: length(f.For), negative: f.For < 0},
		{name: "stagger", text: length(f.Stagger), negative: f.Stagger < 0},
	}
	for _, n := range []field{{name: "nth", number: f.Nth}, {name: "back", number: f.Back}, {name: "count", number: f.Count}, {name: "percent", number: f.Percent}} {
		n.text, n.negative = number(n.number), n.number < 0
		all = append(all, n)
	}
	return all
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
	case f.negative && !param.Signed:
		problem.Message = fmt.Sprintf("%s is negative", f.text)
	case param.Most > 0 && f.number > param.Most:
		problem.Message = fmt.Sprintf("%s is %d; it may be 1 to %d", f.name, f.number, param.Most)
	case f.name == "effect" && !IsEffect(f.text):
		problem.Legal = EffectForms()
		problem.Message = fmt.Sprintf("unknown effect %q", f.text)
	case f.name == "target" && !Legal(f.text, e.Targets):
		problem.Legal = e.Targets
		problem.Message = fmt.Sprintf("%s can't target %q", e.Kind, f.text)
	case f.name == "from" && !Legal(f.text, union(MemberForms(), MachineForms())):
		problem.Legal = union(MemberForms(), MachineForms())
		problem.Message = fmt.Sprintf("%s can't copy from %q", e.Kind, f.text)
	case len(param.Values) > 0 && !slices.Contains(param.Values, f.text):
		problem.Legal = param.Values
		problem.Message = fmt.Sprintf("unknown %s %q", f.name, f.text)
	default:
		return Problem{}, false
	}
	return problem, true
}
