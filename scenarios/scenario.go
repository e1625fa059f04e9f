// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"embed"
	"fmt"
	"maps"
	"path"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"

	"github.com/ringproof/ringproof"
)

// Scenario is a scenario file that decodes in every one of its cells.
type Scenario struct {
	Name        string            `json:"name"`
	File        string            `json:"file"`
	Labels      map[string]string `json:"labels,omitempty"`
	Description string            `json:"description,omitempty"`
	Hypothesis  string            `json:"hypothesis"`
	Mode        ringproof.Mode    `json:"mode,omitempty"`
	Worlds      []string          `json:"worlds,omitempty"`   // none: all
	Axes        []Axis            `json:"axes,omitempty"`     // by name
	KnownBug    *KnownBug         `json:"knownBug,omitempty"` // the known bug that it shows

	text  text
	tree  *yaml.Node
	known Known
	axes  map[string]place
}

// Parse reads a scenario with the standard checks and actions. The scenario is
// nil when a diagnostic is an error.
func Parse(name string, src []byte) (*Scenario, Diagnostics) { return Standard().Parse(name, src) }

// Parse reads a scenario that may name what k knows.
func (k Known) Parse(name string, src []byte) (*Scenario, Diagnostics) {
	t := newText(name, holdsScenario, src)
	tree, found := readTree(t, src)
	if found.Failed() {
		return nil, found.ordered()
	}
	if found := otherwise(t, tree, holdsScenario); found.Failed() {
		return nil, found
	}
	s := &Scenario{File: name, text: t, tree: tree, known: k, axes: map[string]place{}}
	if found = s.readAxes(); found.Failed() {
		return nil, found.ordered()
	}
	for i, values := range combinations(s.Axes) {
		form, d := s.decode(values)
		found = append(found, d.found...)
		if i == 0 {
			s.describe(form)
		}
		if len(found) > 10*maxDiagnostics {
			break
		}
	}
	if found.Failed() {
		return nil, found.ordered()
	}
	return s, found.ordered()
}

// runs are what a file of each kind is for.
var runs = map[string]string{
	holdsScenario: "`ringproof run FILE` runs it",
	holdsPlan:     "`ringproof replay FILE` runs it",
	holdsSubject:  "`ringproof run --world local --subject FILE` puts it on trial",
}

// group is what the apiVersion of all of ringproof's files begins with.
const group = "ringproof.dev/"

// looksLike is the kind of file that the tree begins as; "": none.
func looksLike(tree *yaml.Node) string {
	version, kind := child(tree, "apiVersion"), child(tree, "kind")
	ours := version != nil && strings.HasPrefix(version.Value, group)
	switch {
	case ours && kind != nil && kind.Value == SubjectKind:
		return holdsSubject
	case ours:
		return holdsScenario
	case child(tree, "cell") != nil:
		return holdsPlan
	}
	return ""
}

// otherwise refuses a file of another kind, as which it is well formed: each of its
// keys would be an error, and none would say what is wrong.
func otherwise(t text, tree *yaml.Node, wanted string) Diagnostics {
	is := looksLike(tree)
	if is == "" || is == wanted {
		return nil
	}
	return Diagnostics{t.at(place{tree.Line, tree.Column, 1}, Error, complaint{code: "S057", message: fmt.Sprintf("this is a %s, and not a %s", is, wanted)}, runs[is])}
}

// readAxes reads spec.matrix alone: the rest can't be read without it.
func (s *Scenario) readAxes() Diagnostics {
	spec := child(s.tree, "spec")
	node := child(spec, "matrix")
	if node == nil {
		return nil
	}
	d := newDecoder(s.text, s.known, nil)
	var m Matrix
	d.decode(node, reflect.ValueOf(&m).Elem(), "spec.matrix")
	for _, name := range sortedKeys(m) {
		s.Axes = append(s.Axes, Axis{Name: name, Values: m[name]})
		s.axes[name] = d.keyed("spec.matrix." + name)
	}
	return d.found
}

func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// decode reads the form of one cell.
func (s *Scenario) decode(values map[string]string) (Form, *decoder) {
	d := newDecoder(s.text, s.known, values)
	var form Form
	d.decode(s.tree, reflect.ValueOf(&form).Elem(), "")
	d.names(form)
	return form, d
}

// names holds the names of the scenario and its steps to their rules.
func (d *decoder) names(form Form) {
	if name := form.Metadata.Name; name != "" && !isWord(name) {
		d.complain(d.placed("metadata.name"), complaint{code: "S026", message: fmt.Sprintf("malformed name %q", name)}, "letters, digits, dots, dashes and underscores")
	}
	seen := map[string]bool{}
	for i, step := range form.Spec.Steps {
		path := fmt.Sprintf("spec.steps[%d].name", i)
		switch {
		case step.Name == "":
		case !isWord(step.Name):
			d.complain(d.placed(path), complaint{code: "S026", message: fmt.Sprintf("malformed name %q", step.Name)}, "letters, digits, dots, dashes and underscores")
		case seen[step.Name]:
			d.complain(d.placed(path), complaint{code: "S027", message: fmt.Sprintf("a step before is named %q too", step.Name)}, "")
		}
		seen[step.Name] = true
	}
}

func (s *Scenario) describe(form Form) {
	s.Name = form.Metadata.Name
	s.Labels = maps.Clone(form.Metadata.Labels)
	s.Description = form.Spec.Description
	s.Hypothesis = form.Spec.Hypothesis
	s.Mode = form.mode()
	for _, w := range form.Spec.Worlds {
		s.Worlds = append(s.Worlds, string(w))
	}
	s.KnownBug = form.Spec.KnownBug
}

// Cells lists one cell for every combination of the matrix, in the order of
// the axes' names and the values as written.
func (s *Scenario) Cells(seed uint64) []Cell {
	var cells []Cell
	for _, values := range combinations(s.Axes) {
		cells = append(cells, Cell{Scenario: s.Name, Values: values, Seed: seed, Seeded: true})
	}
	return cells
}

//go:embed *.yaml
var files embed.FS

// Shipped returns the scenarios that come with the harness, by name.
func Shipped() ([]*Scenario, error) { return Standard().Shipped() }

// Shipped returns the scenarios that come with the harness, read with what k
// knows.
func (k Known) Shipped() ([]*Scenario, error) { return k.embedded(files, ".") }

// embedded reads the scenarios of one directory.
func (k Known) embedded(files embed.FS, dir string) ([]*Scenario, error) {
	entries, err := files.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading shipped scenarios: %w", err)
	}
	var all []*Scenario
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		src, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading shipped scenarios: %w", err)
		}
		s, found := k.Parse(path.Join("scenarios", name), src)
		if err := found.Err(); err != nil {
			return nil, fmt.Errorf("reading shipped scenarios: %w", err)
		}
		all = append(all, s)
	}
	return all, nil
}

// ShippedSource returns the text of one shipped scenario.
func ShippedSource(name string) ([]byte, error) { return files.ReadFile(name + ".yaml") }

// Invariant is a check, with its parameters if it has any: linearizable, or
// {quorum-margin: {min: 0}}.
type Invariant struct {
	Check  string
	Params map[string]string
}

// JSONSchema describes both forms.
func (Invariant) JSONSchema() *jsonschema.Schema {
	one := uint64(1)
	param := &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}}}
	params := &jsonschema.Schema{Type: "object", AdditionalProperties: param}
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
		{Type: "string"},
		{Type: "object", MinProperties: &one, MaxProperties: &one, AdditionalProperties: params},
	}}
}

func (v *Invariant) decode(d *decoder, n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode {
		name, _, ok := d.substitute(n, path)
		if ok {
			v.Check = name
			if name != StandardChecks {
				d.knownCheck(n, name)
			}
		}
		return
	}
	if !d.want(n, yaml.MappingNode, path) {
		return
	}
	if len(n.Content) != 2 {
		d.complain(placeOf(n), complaint{code: "S023", message: fmt.Sprintf("an invariant names exactly one check, this one %d", len(n.Content)/2)}, "write each check as an entry of the list")
		return
	}
	for key, value := range d.pairs(n) {
		v.Check = key.Value
		d.keys[join(path, key.Value)] = placeOf(key)
		check, ok := d.knownCheck(key, key.Value)
		if child := join(path, key.Value); ok && d.want(value, yaml.MappingNode, child) {
			v.Params = d.params(check, value, child)
		}
	}
}

func (d *decoder) knownCheck(n *yaml.Node, name string) (Check, bool) {
	check, ok := d.known.check(name)
	if !ok {
		d.complain(placeOf(n), complaint{"S020", fmt.Sprintf("unknown check %q", name), d.known.checkNames()}, "")
	}
	return check, ok
}

func (d *decoder) params(check Check, n *yaml.Node, path string) map[string]string {
	given := map[string]string{}
	for key, value := range d.pairs(n) {
		kind, takes := check.Params[key.Value]
		text, _, ok := d.substitute(value, join(path, key.Value))
		switch {
		case !takes:
			d.complain(placeOf(key), complaint{"S021", fmt.Sprintf("unknown parameter %q of check %s", key.Value, check.Name), sortedKeys(check.Params)}, "")
		case ok && (value.Kind != yaml.ScalarNode || !kind.fits(text)):
			d.complain(placeOf(value), complaint{code: "S021", message: fmt.Sprintf("parameter %s of check %s: %q is no %s", key.Value, check.Name, text, kind)}, "")
		}
		given[key.Value] = text
	}
	return given
}

// New returns a scenario to start from. It lints clean.
func New(name string) ([]byte, error) {
	if !isWord(name) {
		return nil, fmt.Errorf("scenario name %q: use letters, digits, dots, dashes and underscores", name)
	}
	return []byte(strings.ReplaceAll(scaffold, "NAME", name)), nil
}

const scaffold = `# Tell the story here: what is done to the ring, and why it might go wrong.
apiVersion: ringproof.dev/v1alpha1
kind: Scenario
metadata: {name: NAME}
spec:
  description: A member's process is killed under load.
  hypothesis: No acknowledged write is lost, and clients wait no longer than an election.
  matrix: {victim: [leader, follower]}
  ring: {size: 3}
  workload: {profile: kv-txn-watch, clients: 5, keys: 8, rate: 60/s}
  invariants: [linearizable, acknowledged-writes-survive, one-cluster-identity, {available: {maxGap: 10s}}, converges]
  steps:
  - {name: kill, fault: {kill: {target: "${matrix.victim}", scope: process}}}
  - {name: settle, assert: {within: 30s, ring: {voters: 3, learners: 0, hashKV: equal}}}
`
