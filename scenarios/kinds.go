// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// An operation and a fault are written as {KIND: {PARAMETER: value}}. Which kinds there are
// and what each takes is in the catalogue of package faults.

// written are the types that parameters are decoded by.
var written = map[faults.Type]reflect.Type{
	faults.TypeWord: reflect.TypeFor[string](), faults.TypeTarget: reflect.TypeFor[Selector](), faults.TypeNumber: reflect.TypeFor[int](),
	faults.TypeDuration: reflect.TypeFor[ringproof.Duration](), faults.TypeShift: reflect.TypeFor[Shift](), faults.TypeAction: reflect.TypeFor[Action](),
	faults.TypeEffect: reflect.TypeFor[Effect](), faults.TypeRelease: reflect.TypeFor[Release](), faults.TypeFlags: reflect.TypeFor[map[string]Text](),
}

// plainOf is a decoded parameter as [faults.Put] takes it.
func plainOf(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case Shift:
		return ringproof.Duration(value)
	case ringproof.Duration, int:
		return value
	case map[string]Text:
		return texts(value)
	}
	return v.String()
}

// mostTimes bounds numbers that the catalogue doesn't.
const mostTimes = 1000

// fieldFor is the key that a parameter is written as.
func fieldFor(p faults.Param) field {
	f := field{name: p.Written(), required: p.Required, enum: p.Values}
	if p.Type == faults.TypeNumber {
		most := cmp.Or(p.Most, mostTimes)
		f.min, f.max = &p.Least, &most
	}
	return f
}

// decodeParams fills a *ringproof.Op or *ringproof.Fault with what is written under its
// kind, and returns the keys that were there. stray says what is wrong with any other.
func (d *decoder) decodeParams(n *yaml.Node, params faults.Params, step any, path string, stray func(key string) complaint) (seen map[string]bool) {
	seen = map[string]bool{}
	if !d.want(n, yaml.MappingNode, path) {
		return seen
	}
	for key, value := range d.pairs(n) {
		p, ok := params.FindWritten(key.Value)
		if !ok {
			d.stray(key, stray(key.Value), seen)
			continue
		}
		child := join(path, p.Name)
		seen[p.Written()] = true
		d.keys[child] = placeOf(key)
		v := reflect.New(written[p.Type]).Elem()
		d.decodeField(value, fieldFor(p), v, child)
		if !v.IsZero() {
			faults.Put(step, p.Name, plainOf(v))
		}
	}
	return seen
}

// decode reads {scale: {to: 5}, refused: true}.
func (o *Op) decode(d *decoder, n *yaml.Node, path string) {
	if !d.want(n, yaml.MappingNode, path) {
		return
	}
	beside := map[string]*bool{"refused": &o.Refused, "rival": &o.Rival}
	set := unset(faults.OperationKinds())
	for key, value := range d.pairs(n) {
		child := join(path, key.Value)
		entry, known := faults.LookupOperation(ringproof.OpKind(key.Value))
		flag := beside[key.Value]
		if !known && flag == nil {
			legal := append(faults.OperationKinds(), "refused", "rival")
			d.stray(key, complaint{"S013", fmt.Sprintf("unknown operation %q", key.Value), legal}, map[string]bool{})
			continue
		}
		d.keys[child], d.at[child] = placeOf(key), placeOf(value)
		if flag != nil {
			d.decode(value, reflect.ValueOf(flag).Elem(), child)
			continue
		}
		o.Kind, set[key.Value] = entry.Kind, true
		d.decodeOp(value, entry, &o.Op, child)
	}
	d.exactlyOne("S023", "an op", path, set)
}

func (d *decoder) decodeOp(n *yaml.Node, entry faults.Operation, op *ringproof.Op, path string) {
	found := len(d.found)
	seen := d.decodeParams(n, entry.Params, op, path, func(key string) complaint {
		return complaint{"S010", fmt.Sprintf("unknown key %q", key), entry.Params.Names()}
	})
	var fields []field
	for _, p := range entry.Params {
		fields = append(fields, fieldFor(p))
	}
	if n.Kind == yaml.MappingNode {
		d.missing(fields, seen, path)
	}
	if len(d.found) == found {
		d.judgeParams(faults.ValidateOperation(*op), path, "S013")
	}
}

// decode reads {kill: {target: leader}}.
func (f *Fault) decode(d *decoder, n *yaml.Node, path string) {
	if !d.want(n, yaml.MappingNode, path) {
		return
	}
	set := unset(faults.Kinds())
	for key, value := range d.pairs(n) {
		child := join(path, key.Value)
		entry, known := faults.Lookup(ringproof.FaultKind(key.Value))
		if !known {
			d.stray(key, complaint{"S014", fmt.Sprintf("unknown fault %q", key.Value), faults.Kinds()}, map[string]bool{})
			continue
		}
		d.keys[child], d.at[child] = placeOf(key), placeOf(value)
		f.Kind, set[key.Value] = entry.Kind, true
		d.decodeParams(value, entry.Params, &f.Fault, child, func(key string) complaint {
			return complaint{"S024", fmt.Sprintf("%q is no parameter of %s", key, entry.Kind), entry.ParamNames()}
		})
		if value.Kind == yaml.MappingNode {
			d.judgeParams(faults.Validate(f.Fault), child, "S014")
		}
	}
	d.exactlyOne("S023", "a fault", path, set)
}

func unset(kinds []string) map[string]bool {
	set := map[string]bool{}
	for _, kind := range kinds {
		set[kind] = false
	}
	return set
}

// judgeParams tells what the catalogue finds wrong with the step at path, each problem at
// most once; unknown is the code of a kind that it doesn't have.
func (d *decoder) judgeParams(problems []faults.Problem, path, unknown string) {
	for _, p := range problems {
		c := complaint{code: "S019", message: p.Message, legal: p.Legal}
		switch {
		case p.Missing:
			c.code, c.legal = "S025", nil
		case p.Field == "kind":
			c.code = unknown
		case p.Field == "target", p.Field == "endpoint":
			c.code = "S016"
		case p.Legal != nil && slices.Contains(p.Legal, "target") && !slices.Contains(p.Legal, p.Field):
			c.code, c.legal = "S024", nil
		case p.Field == "effect" && p.Legal != nil:
			c.code = "S029"
		}
		where, isWritten := d.at[join(path, p.Field)]
		if !isWritten {
			where = d.keyed(path)
		}
		if !isWritten && p.Missing || !slices.ContainsFunc(d.found, func(e Diagnostic) bool { return e.Line == where.line && e.Column == where.column }) {
			d.complain(where, c, "")
		}
	}
}
