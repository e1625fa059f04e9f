// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"
)

// Matrix holds the values of each axis, in the order written.
type Matrix map[string][]string

// Axis is one axis of the matrix.
type Axis struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

const maxCells = 256

var (
	wordPattern = `^[A-Za-z0-9][A-Za-z0-9._-]*$`
	word        = regexp.MustCompile(wordPattern)
	reference   = regexp.MustCompile(`\$\{[^}]*\}?`)
)

const maxName = 80

func isWord(name string) bool { return len(name) <= maxName && word.MatchString(name) }

// JSONSchema describes axes of scalars.
func (Matrix) JSONSchema() *jsonschema.Schema {
	value := &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: wordPattern}, {Type: "number"}, {Type: "boolean"}}}
	one := uint64(1)
	return &jsonschema.Schema{
		Type:                 "object",
		PropertyNames:        &jsonschema.Schema{Pattern: wordPattern},
		AdditionalProperties: &jsonschema.Schema{Type: "array", Items: value, MinItems: &one},
	}
}

func (m *Matrix) decode(d *decoder, n *yaml.Node, path string) {
	if !d.want(n, yaml.MappingNode, path) {
		return
	}
	*m = Matrix{}
	cells := 1
	for key, value := range d.pairs(n) {
		child := join(path, key.Value)
		d.keys[child] = placeOf(key)
		d.at[child] = placeOf(value)
		if !isWord(key.Value) {
			d.complain(placeOf(key), complaint{code: "S026", message: fmt.Sprintf("malformed axis name %q", key.Value)}, "letters, digits, dots, dashes and underscores")
		}
		(*m)[key.Value] = d.axis(value, child)
		cells = min(cells*max(1, len((*m)[key.Value])), 1<<20)
	}
	if cells > maxCells {
		d.complain(d.keyed(path), complaint{code: "S033", message: fmt.Sprintf("the matrix makes more than %d cells", maxCells)}, "")
	}
}

func (d *decoder) axis(n *yaml.Node, path string) []string {
	if !d.want(n, yaml.SequenceNode, path) {
		return nil
	}
	if len(n.Content) == 0 {
		d.complain(d.keyed(path), complaint{code: "S032", message: fmt.Sprintf("axis %q has no values", last(path))}, "")
	}
	var values []string
	for _, child := range n.Content {
		switch {
		case !d.want(child, yaml.ScalarNode, path):
			continue
		case !isWord(child.Value):
			d.complain(placeOf(child), complaint{code: "S026", message: fmt.Sprintf("malformed value %q of an axis", child.Value)}, "letters, digits, dots, dashes and underscores: it becomes part of the cell's name")
		case slices.Contains(values, child.Value):
			d.complain(placeOf(child), complaint{code: "S027", message: fmt.Sprintf("%q stands twice on the axis", child.Value)}, "")
		}
		values = append(values, child.Value)
	}
	return values
}

// substitute returns the node's text with ${matrix.x} replaced, where the
// matrix reaches.
func (d *decoder) substitute(n *yaml.Node, path string) (text string, substituted, ok bool) {
	if d.text.holds != holdsScenario || !strings.HasPrefix(path, "spec.") || !strings.Contains(n.Value, "${") {
		return n.Value, false, true
	}
	ok = true
	text = reference.ReplaceAllStringFunc(n.Value, func(ref string) string {
		axis, isMatrix := strings.CutPrefix(strings.TrimSuffix(ref, "}"), "${matrix.")
		value, known := d.values[axis]
		switch {
		case !isMatrix || !strings.HasSuffix(ref, "}"):
			ok = false
			d.complain(placeOf(n), complaint{code: "S034", message: fmt.Sprintf("malformed substitution %q", ref)}, "write ${matrix.axis}")
		case !known:
			ok = false
			d.complain(placeOf(n), complaint{"S030", fmt.Sprintf("unknown matrix axis %q", axis), sortedKeys(d.values)}, d.axesHelp())
		}
		return value
	})
	return text, true, ok
}

func (d *decoder) axesHelp() string {
	if len(d.values) == 0 {
		return "spec.matrix has no axes"
	}
	return "the axes are " + strings.Join(sortedKeys(d.values), ", ")
}

// references lists the axes that the nodes use, the matrix itself left out.
func references(n *yaml.Node, used map[string]bool) {
	if n.Kind == yaml.ScalarNode {
		for _, ref := range reference.FindAllString(n.Value, -1) {
			used[strings.TrimSuffix(strings.TrimPrefix(ref, "${matrix."), "}")] = true
		}
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == "matrix" {
			continue
		}
		references(child, used)
	}
}

// combinations lists every choice of values, the last axis turning fastest.
func combinations(axes []Axis) []map[string]string {
	all := []map[string]string{{}}
	for _, axis := range axes {
		var next []map[string]string
		for _, chosen := range all {
			for _, value := range axis.Values {
				more := map[string]string{axis.Name: value}
				for k, v := range chosen {
					more[k] = v
				}
				next = append(next, more)
			}
		}
		all = next
	}
	return all
}
