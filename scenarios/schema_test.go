// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/ringproof/ringproof/faults"
)

// tree is the schema as an editor sees it.
type tree map[string]any

func readSchema(t *testing.T) tree {
	var root tree
	require.NoError(t, json.Unmarshal(Schema(), &root))
	return root
}

// follow resolves a $ref, and an anyOf to its first choice.
func (root tree) follow(node tree) tree {
	for {
		if ref, ok := node["$ref"].(string); ok {
			node = tree(root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any))
			continue
		}
		if choices, ok := node["anyOf"].([]any); ok {
			node = tree(choices[0].(map[string]any))
			continue
		}
		return node
	}
}

// walk calls see with every path of keys that the schema allows; [] is an
// element of a list.
func (root tree) walk(node tree, path string, see func(path string)) {
	node = root.follow(node)
	if items, ok := node["items"].(map[string]any); ok {
		root.walk(items, path+"[]", see)
	}
	properties, _ := node["properties"].(map[string]any)
	for name, child := range properties {
		see(join(path, name))
		root.walk(child.(map[string]any), join(path, name), see)
	}
}

// decodable calls see with every path of keys that the decoder takes.
func decodable(t reflect.Type, path string, see func(path string)) {
	catalogued := func(kind string, params faults.Params) {
		see(join(path, kind))
		for _, name := range params.Names() {
			see(join(path, kind) + "." + name)
		}
	}
	switch _, isPart := reflect.New(t).Interface().(part); {
	case t == reflect.TypeFor[Op]():
		see(join(path, "refused"))
		see(join(path, "rival"))
		for _, o := range faults.Operations() {
			catalogued(string(o.Kind), o.Params)
		}
	case t == reflect.TypeFor[Fault]():
		for _, e := range faults.All() {
			catalogued(string(e.Kind), e.Params)
		}
	case isPart:
	case t.Kind() == reflect.Pointer:
		decodable(t.Elem(), path, see)
	case t.Kind() == reflect.Slice:
		decodable(t.Elem(), path+"[]", see)
	case t.Kind() == reflect.Struct:
		for _, f := range fieldsOf(t) {
			see(join(path, f.name))
			decodable(t.Field(f.index).Type, join(path, f.name), see)
		}
	}
}

func TestSchemaAndDecoderTakeTheSameKeys(t *testing.T) {
	inSchema, inDecoder := map[string]bool{}, map[string]bool{}
	root := readSchema(t)
	root.walk(root, "", func(path string) { inSchema[path] = true })
	decodable(reflect.TypeFor[Form](), "", func(path string) { inDecoder[path] = true })
	assert.Equal(t, sortedKeys(inDecoder), sortedKeys(inSchema))
	assert.True(t, inSchema["spec.steps[].fault.volume-loss.leave"])
	assert.False(t, inSchema["spec.steps[].fault.machine-loss.for"])
}

// Each key of the schema is put in a document by itself; the decoder may find
// fault with its value, not with the key.
func TestEverySchemaKeyDecodes(t *testing.T) {
	root := readSchema(t)
	root.walk(root, "", func(path string) {
		src := document(path)
		d := newDecoder(newText("t.yaml", holdsScenario, []byte(src)), Standard(), nil)
		var n yaml.Node
		require.NoError(t, yaml.Unmarshal([]byte(src), &n))
		var form Form
		d.decode(n.Content[0], reflect.ValueOf(&form).Elem(), "")
		for _, found := range d.found {
			assert.NotContains(t, []string{"S010", "S013", "S014", "S024"}, found.Code, "%s: %s", path, found)
		}
	})
}

// document nests {a: [{b: x}]} for the path a[].b.
func document(path string) string {
	open, end := "", ""
	for _, key := range strings.Split(path, ".") {
		name, isList := strings.CutSuffix(key, "[]")
		open += fmt.Sprintf("{%q: ", name)
		end = "}" + end
		if isList {
			open += "["
			end = "]" + end
		}
	}
	return open + "x" + end
}

// Every type of parameter can be written, or a kind could be in the catalogue and in no scenario.
func TestEveryParameterCanBeWritten(t *testing.T) {
	see := func(kind string, params faults.Params) {
		for _, p := range params {
			assert.Contains(t, written, p.Type, "%s: %s", kind, p.Name)
		}
	}
	for _, e := range faults.All() {
		see(string(e.Kind), e.Params)
	}
	for _, o := range faults.Operations() {
		see(string(o.Kind), o.Params)
	}
}

// Whatever the schema marks as required is what the decoder asks for.
func TestSchemaRequiresWhatTheDecoderRequires(t *testing.T) {
	root := readSchema(t)
	step := root.follow(tree{"$ref": "#/$defs/Step"})
	assert.Equal(t, []any{"name"}, step["required"])
	assert.Equal(t, []any{"apiVersion", "kind", "metadata", "spec"}, root["required"])
	crash := root.follow(tree{"$ref": "#/$defs/Fault"})["properties"].(map[string]any)["agent-crash"].(map[string]any)
	assert.Equal(t, []any{"phase"}, crash["required"])
	assert.Equal(t, []any{map[string]any{"required": []any{"action"}}, map[string]any{"required": []any{"effect"}}}, crash["oneOf"])
}
