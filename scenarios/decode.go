// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ringproof/ringproof"
)

// decoder fills Go values from YAML nodes by the types' json and jsonschema
// tags, strictly, and remembers where each value was written.
type decoder struct {
	text   text
	known  Known
	values map[string]string // the cell's matrix values
	keys   map[string]place  // by path ("spec.steps[0].op"): where the key is written
	at     map[string]place  // by path: where the value is
	found  Diagnostics
}

func newDecoder(t text, known Known, values map[string]string) *decoder {
	return &decoder{text: t, known: known, values: values, keys: map[string]place{}, at: map[string]place{}}
}

// A part is a type that is decoded by itself.
type part interface {
	decode(d *decoder, n *yaml.Node, path string)
}

func (d *decoder) complain(p place, c complaint, help string) {
	d.found = append(d.found, d.text.at(p, Error, c, help))
}

// placed returns where the nearest thing at or above the path is written.
func (d *decoder) placed(path string) place {
	for path != "" {
		if p, ok := d.at[path]; ok {
			return p
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return place{1, 1, 1}
}

// keyed prefers the key's place: a mapping is best named by its key.
func (d *decoder) keyed(path string) place {
	if p, ok := d.keys[path]; ok {
		return p
	}
	return d.placed(path)
}

func (d *decoder) decode(n *yaml.Node, v reflect.Value, path string) {
	d.at[path] = placeOf(n)
	if p, ok := v.Addr().Interface().(part); ok {
		p.decode(d, n, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem(), path)
	case reflect.Struct:
		d.decodeStruct(n, v, path)
	case reflect.Slice:
		d.decodeSlice(n, v, path)
	case reflect.Map:
		d.decodeMap(n, v, path)
	default:
		d.decodeScalar(n, v, path)
	}
}

// field is one key of a struct, as its tags say.
type field struct {
	name     string
	was      string // its name of one release ago; "": it had none
	index    int
	required bool
	enum     []string
	min, max *int
}

func fieldsOf(t reflect.Type) []field {
	var all []field
	for i := range t.NumField() {
		f := field{index: i, was: t.Field(i).Tag.Get("was")}
		f.name, _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
		for rule := range strings.SplitSeq(t.Field(i).Tag.Get("jsonschema"), ",") {
			f.rule(rule)
		}
		all = append(all, f)
	}
	return all
}

func (f *field) rule(rule string) {
	name, value, _ := strings.Cut(rule, "=")
	n, _ := strconv.Atoi(value)
	switch name {
	case "required":
		f.required = true
	case "enum":
		f.enum = append(f.enum, value)
	case "minimum":
		f.min = &n
	case "maximum":
		f.max = &n
	}
}

func (d *decoder) decodeStruct(n *yaml.Node, v reflect.Value, path string) {
	if !d.want(n, yaml.MappingNode, path) {
		return
	}
	fields := fieldsOf(v.Type())
	seen := map[string]bool{}
	for key, value := range d.pairs(n) {
		i := slices.IndexFunc(fields, func(f field) bool { return key.Value == f.name || f.was != "" && key.Value == f.was })
		if i < 0 {
			d.stray(key, complaint{"S010", fmt.Sprintf("unknown key %q", key.Value), namesOf(fields)}, seen)
			continue
		}
		name := fields[i].name
		child := join(path, name)
		d.renamed(key, name)
		if _, taken := d.keys[child]; taken {
			d.complain(placeOf(key), complaint{code: "S006", message: fmt.Sprintf("%q stands here twice, once by its old name", name)}, "")
			continue
		}
		seen[name] = true
		d.keys[child] = placeOf(key)
		d.decodeField(value, fields[i], v.Field(fields[i].index), child)
	}
	d.missing(fields, seen, path)
	d.judge(v, path)
}

// renamed notes a key that is called something else now.
func (d *decoder) renamed(key *yaml.Node, name string) {
	if key.Value != name {
		c := complaint{code: "S072", message: fmt.Sprintf("%q is called %q now", key.Value, name)}
		d.found = append(d.found, d.text.at(placeOf(key), Warning, c, "the next release refuses the old word"))
	}
}

// decodeField fills a value, and holds it against what its key may hold.
func (d *decoder) decodeField(n *yaml.Node, f field, v reflect.Value, path string) {
	before := len(d.found)
	d.decode(n, v, path)
	if len(d.found) == before {
		d.obey(f, v, path)
	}
}

// stray complains of a key that means nothing. The key that was meant counts as seen: one
// mistake is told once.
func (d *decoder) stray(key *yaml.Node, c complaint, seen map[string]bool) {
	d.complain(placeOf(key), c, "")
	if meant, ok := nearest(c); ok {
		seen[meant] = true
	}
}

// missing complains of required keys that were not seen.
func (d *decoder) missing(fields []field, seen map[string]bool, path string) {
	for _, f := range fields {
		if f.required && !seen[f.name] {
			d.complain(d.keyed(path), complaint{code: "S011", message: fmt.Sprintf("%s needs %q", cmp.Or(noun(path), "a "+d.text.holds), f.name)}, "")
		}
	}
}

func namesOf(fields []field) (names []string) {
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}

// pairs yields the keys and values of a mapping once each.
func (d *decoder) pairs(n *yaml.Node) func(func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		lines := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode {
				d.complain(placeOf(key), complaint{code: "S012", message: "a key is a word"}, "a matrix value in braces needs quotes: \"${matrix.x}\"")
				continue
			}
			if line, twice := lines[key.Value]; twice {
				d.complain(placeOf(key), complaint{code: "S006", message: fmt.Sprintf("%q stands here twice; first on line %d", key.Value, line)}, "")
				continue
			}
			lines[key.Value] = key.Line
			if !yield(key, n.Content[i+1]) {
				return
			}
		}
	}
}

// obey holds a value against the tags of its field.
func (d *decoder) obey(f field, v reflect.Value, path string) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Slice && len(f.enum) > 0:
		for i := range v.Len() {
			d.obey(f, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case v.Kind() == reflect.String && len(f.enum) > 0 && !slices.Contains(f.enum, v.String()):
		d.complain(d.placed(path), complaint{"S019", fmt.Sprintf("unknown %s %q", noun(path), v.String()), f.enum}, "")
	case v.Kind() == reflect.Int && f.min != nil && (v.Int() < int64(*f.min) || v.Int() > int64(*f.max)):
		d.complain(d.placed(path), complaint{code: "S019", message: fmt.Sprintf("%s is %d; it may be %d to %d", f.name, v.Int(), *f.min, *f.max)}, "")
	}
}

func (d *decoder) decodeSlice(n *yaml.Node, v reflect.Value, path string) {
	if !d.want(n, yaml.SequenceNode, path) {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, child := range n.Content {
		d.decode(child, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

func (d *decoder) decodeMap(n *yaml.Node, v reflect.Value, path string) {
	if !d.want(n, yaml.MappingNode, path) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for key, value := range d.pairs(n) {
		element := reflect.New(v.Type().Elem()).Elem()
		d.decode(value, element, join(path, key.Value))
		v.SetMapIndex(reflect.ValueOf(key.Value), element)
	}
}

func (d *decoder) decodeScalar(n *yaml.Node, v reflect.Value, path string) {
	if !d.want(n, yaml.ScalarNode, path) {
		return
	}
	word, substituted, ok := d.substitute(n, path)
	if !ok {
		return
	}
	switch target := v.Addr().Interface().(type) {
	case scalar:
		if c, ok := target.parse(word, d.known); !ok {
			d.complain(placeOf(n), c, "")
		}
		return
	case *ringproof.Duration:
		parse := parseDuration
		if last(path) == "by" { // of a saved fault
			parse = parseShift
		}
		length, c, ok := parse(word)
		if !ok {
			d.complain(placeOf(n), c, "")
		}
		*target = length
		return
	}
	if must, ok := set(v, word, n, substituted); !ok {
		d.complain(placeOf(n), complaint{code: "S012", message: fmt.Sprintf("%s must be %s, not %q", noun(path), must, word)}, "")
	}
}

// set stores a plain word, or says what it must be. A substituted word has no
// type of its own yet.
func set(v reflect.Value, word string, n *yaml.Node, substituted bool) (must string, ok bool) {
	plain := substituted || !quoted(n)
	number := "a whole number"
	if !plain {
		number = "a whole number without quotes"
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(word)
		return "text in quotes", substituted || n.Tag == "!!str"
	case reflect.Bool:
		v.SetBool(word == "true")
		return "true or false", plain && (word == "true" || word == "false")
	case reflect.Int, reflect.Int64:
		i, err := strconv.ParseInt(word, 10, 64)
		v.SetInt(i)
		return number, plain && err == nil
	case reflect.Uint64:
		u, err := strconv.ParseUint(word, 10, 64)
		v.SetUint(u)
		return number, plain && err == nil
	}
	f, err := strconv.ParseFloat(word, 64)
	v.SetFloat(f)
	return "a number", plain && err == nil
}

var kindNames = map[yaml.Kind]string{
	yaml.MappingNode: "a mapping {key: value}", yaml.SequenceNode: "a list [a, b]", yaml.ScalarNode: "a single value",
}

// want complains of a node that isn't of the kind that belongs here.
func (d *decoder) want(n *yaml.Node, kind yaml.Kind, path string) bool {
	if n.Kind == kind && n.Tag != "!!null" {
		return true
	}
	is := cmp.Or(kindNames[n.Kind], "something else")
	if n.Tag == "!!null" {
		is = "empty"
	}
	what := cmp.Or(noun(path), "a "+d.text.holds)
	d.complain(d.keyed(path), complaint{code: "S012", message: fmt.Sprintf("%s is %s; it must be %s", what, is, kindNames[kind])}, "")
	return false
}

// judge holds a step against the rule that tags can't say.
func (d *decoder) judge(v reflect.Value, path string) {
	if form, ok := v.Addr().Interface().(*Step); ok {
		d.exactlyOne("S022", "a step", path, map[string]bool{"op": form.Op != nil, "fault": form.Fault != nil, "assert": form.Assert != nil})
	}
}

func (d *decoder) exactlyOne(code, what, path string, set map[string]bool) {
	var there []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if set[name] {
			there = append(there, name)
		}
	}
	// A key that was misspelt has been complained of already.
	complained := slices.ContainsFunc(d.found, func(c Diagnostic) bool { return d.inside(c, path) })
	if len(there) == 1 || len(there) == 0 && complained {
		return
	}
	has := "none"
	if len(there) > 1 {
		has = strings.Join(there, " and ")
	}
	choice := strings.Join(slices.Sorted(maps.Keys(set)), ", ")
	d.complain(d.keyed(path), complaint{code: code, message: fmt.Sprintf("%s has %s; it has exactly one of %s", what, has, choice)}, "")
}

// inside reports whether the diagnostic was raised in the value at path, which
// is the last that was decoded so far.
func (d *decoder) inside(c Diagnostic, path string) bool {
	from := d.at[path]
	return c.Line > from.line || c.Line == from.line && c.Column >= from.column
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// last is the key that a path ends in: "steps" for spec.steps[2].
func last(path string) string {
	name := path[strings.LastIndexByte(path, '.')+1:]
	name, _, _ = strings.Cut(name, "[")
	return name
}

// noun names what stands at the path: "step" for spec.steps[2].
func noun(path string) string {
	if strings.HasSuffix(path, "]") {
		return strings.TrimSuffix(last(path), "s")
	}
	return last(path)
}
