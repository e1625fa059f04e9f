// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
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

// grammar is what may be written under a kind of fault or operation.
type grammar struct {
	kind    string
	params  Params
	targets []string
}

// problems are those of a step's parameters, each by itself.
func (g grammar) problems(step any) []Problem {
	var all []Problem
	for _, f := range g.fields(step) {
		if p, bad := g.judge(f); bad {
			all = append(all, p)
		}
	}
	return all
}

// Validate checks a fault against its entry. It accepts the selector random,
// which a scenario may hold and a plan may not.
func Validate(f ringproof.Fault) []Problem {
	entry, ok := Lookup(f.Kind)
	if !ok {
		return []Problem{{Field: "kind", Value: string(f.Kind), Legal: Kinds(), Message: fmt.Sprintf("unknown fault %q", f.Kind)}}
	}
	problems := grammar{string(f.Kind), entry.Params, entry.Targets}.problems(&f)
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
	if f.Kind == ringproof.FaultVolumeLoss && f.How == ringproof.Removed && (f.For > 0 || !slices.Contains([]string{"", "nothing", "identity"}, f.Leave)) {
		problems = append(problems, Problem{Field: "how", Value: f.How, Message: "files that are removed while they are in use leave nothing, or the identity of the disk, and no machine is off for it"})
	}
	if f.Kind == ringproof.FaultStoreLost && f.For > 0 && f.Leave != "" && f.Leave != "nothing" {
		problems = append(problems, Problem{Field: "for", Value: f.For.String(), Message: "a store that was made again stays as it is: only one that has nothing left is given back"})
	}
	if f.Kind == ringproof.FaultPartition && (f.From != "") != (f.Shape == "pair") {
		problems = append(problems, Problem{Field: "from", Value: f.From, Missing: f.From == "", Message: "a pair has two ends: partition takes from with shape pair, and with no other"})
	}
	if nodes := f.Kind == ringproof.FaultKubePause && f.Scope == ringproof.ScopeKubelet; f.Kind == ringproof.FaultKubePause && (f.Target != "") != nodes {
		problems = append(problems, Problem{Field: "target", Value: f.Target, Missing: f.Target == "", Message: "a kubelet is one of many: kube-pause takes target with scope kubelet, and with no other"})
	}
	if f.Kind == ringproof.FaultAgentCrash && f.Phase == "unseen" && !Unseeable(f.Effect) {
		problems = append(problems, Problem{Field: "phase", Value: f.Phase, Message: "only a write to the API server is heard of by a cache: unseen takes an effect that begins with kube"})
	}
	if f.Kind == ringproof.FaultAgentCrash && f.Phase == "late" && !Delayable(f.Effect) {
		problems = append(problems, Problem{Field: "phase", Value: f.Phase, Message: "only a request is on its way: late takes an effect that begins with etcd (but for keep-alive), kube or create"})
	}
	if e, _ := Lookup(f.Kind); e.Seam && f.Scope == ringproof.ScopeController && f.Target != "" {
		problems = append(problems, Problem{Field: "target", Value: f.Target, Message: "a controller is on no machine of the plan: " + string(f.Kind) + " takes a target or scope controller, not both"})
	}
	if f.Kind == ringproof.FaultKubeDelete && (f.How == ringproof.Forced || f.How == ringproof.Evicted) && f.Object != ringproof.ObjectPod {
		problems = append(problems, Problem{Field: "how", Value: f.How, Message: "only a pod has a grace that it can be denied, and a kubelet that evicts it"})
	}
	return problems
}

// ValidateOperation checks an operation against its entry, as Validate does a fault.
func ValidateOperation(op ringproof.Op) []Problem {
	entry, ok := LookupOperation(op.Kind)
	if !ok {
		return []Problem{{Field: "kind", Value: string(op.Kind), Legal: OperationKinds(), Message: fmt.Sprintf("unknown operation %q", op.Kind)}}
	}
	problems := grammar{string(op.Kind), entry.Params, entry.Targets}.problems(&op)
	if op.Kind == ringproof.OpEdit && op.Params["field"] != "" {
		if _, err := op.MergePatch(); err != nil {
			problems = append(problems, Problem{Field: "field", Value: op.Params["field"], Message: err.Error()})
		}
		if kind, name := op.Object(); op.Params["object"] != "" && (kind == "" || name == "") {
			problems = append(problems, Problem{Field: "object", Value: op.Params["object"], Message: fmt.Sprintf("edit refused: %q is no object; write it as KIND/NAME", op.Params["object"])})
		}
	}
	return problems
}

// mostAge is for how long a ring's authority lives.
const mostAge = 10 * 365 * 24 * time.Hour

// choose wants exactly one of the parameters that exclude each other.
func (e Entry) choose(f ringproof.Fault) (Problem, bool) {
	var given []string
	for _, name := range e.OneOf {
		if Get(&f, name) != "" {
			given = append(given, name)
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

// field is one field of a step, or what else it has or needs, as text; an absent one has
// none.
type field struct {
	name, text string
	negative   bool
	number     int
}

// fields lists those of a *ringproof.Fault or *ringproof.Op in the order of its type, and
// then its other parameters.
func (g grammar) fields(step any) []field {
	v := reflect.ValueOf(step).Elem()
	var all []field
	for i := range v.NumField() {
		if name := nameOf(v.Type().Field(i)); !slices.Contains(apart, name) {
			all = append(all, newField(name, v.Field(i)))
		}
	}
	others, _ := v.FieldByName("Params").Interface().(map[string]string)
	names := slices.Collect(maps.Keys(others)) // order: sorted below
	for _, p := range g.params {
		if _, there := others[p.Name]; !there && !fieldOf(v, p.Name).IsValid() {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		n, _ := strconv.Atoi(others[name])
		all = append(all, field{name, others[name], strings.HasPrefix(others[name], "-"), n})
	}
	return all
}

func newField(name string, v reflect.Value) field {
	f := field{name: name, text: textOf(v)}
	if v.CanInt() {
		f.negative, f.number = v.Int() < 0, int(v.Int())
	}
	return f
}

func (g grammar) judge(f field) (Problem, bool) {
	param, takes := g.params.Find(f.name)
	problem := Problem{Field: f.name, Value: f.text}
	may := g.legal(param)
	switch zero := param.Type == TypeNumber && param.Least == 0; {
	case f.text == "" && takes && param.Required && !zero:
		problem.Missing, problem.Legal = true, param.Values
		problem.Message = fmt.Sprintf("%s needs %s: %s", g.kind, f.name, param.Doc)
	case f.text == "":
		return Problem{}, false
	case !takes:
		problem.Legal = g.params.Names()
		problem.Message = fmt.Sprintf("%s takes no %s; it takes %s", g.kind, f.name, cmp.Or(strings.Join(g.params.Names(), ", "), "none"))
	case f.negative && !param.Signed:
		problem.Message = fmt.Sprintf("%s is negative", f.text)
	case param.Most > 0 && f.number > param.Most:
		problem.Message = fmt.Sprintf("%s is %d; it may be %d to %d", f.name, f.number, param.Least, param.Most)
	case param.Type == TypeEffect && !IsEffect(f.text):
		problem.Legal = EffectForms()
		problem.Message = fmt.Sprintf("unknown effect %q", f.text)
	case param.Type == TypeTarget && !Legal(f.text, may):
		problem.Legal = may
		problem.Message = fmt.Sprintf("%s can't %s %q", g.kind, worded(f.name, "target", "from", "copy from", "endpoint", "ask"), f.text)
	case len(param.Values) > 0 && !slices.Contains(param.Values, f.text):
		problem.Legal = param.Values
		problem.Message = fmt.Sprintf("unknown %s %q", f.name, f.text)
	default:
		return Problem{}, false
	}
	return problem, true
}

// legal are the forms of a parameter that is a selector: whom something is taken from is
// one machine, whatever is done to the targets.
func (g grammar) legal(p Param) []string {
	if p.Name == "from" || len(g.targets) == 0 {
		return union(MemberForms(), MachineForms())
	}
	return g.targets
}
