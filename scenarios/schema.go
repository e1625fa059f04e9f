// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"

	"github.com/invopop/jsonschema"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// Schema returns the JSON schema of a scenario file, made of the types in
// form.go and the faults' catalogue.
func Schema() []byte {
	reflector := jsonschema.Reflector{RequiredFromJSONSchemaTags: true, Anonymous: true, ExpandedStruct: true, Mapper: durations}
	schema := reflector.Reflect(&Form{})
	schema.ID = "https://ringproof.dev/schemas/scenario-v1alpha1.json"
	schema.Title = "ringproof scenario"
	defs := schema.Definitions
	defs["Step"].OneOf = requireOne([]string{"op", "fault", "assert"})
	for name, def := range defs {
		if name != "Metadata" && name != "Matrix" {
			substitutable(defs, name, def)
		}
	}
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic("scenarios: the schema can't be printed: " + err.Error())
	}
	return append(text, '\n')
}

// SubjectSchema returns the JSON schema of a subject's file.
func SubjectSchema() []byte {
	reflector := jsonschema.Reflector{RequiredFromJSONSchemaTags: true, Anonymous: true, ExpandedStruct: true, Mapper: durations}
	schema := reflector.Reflect(&SubjectForm{})
	schema.ID = "https://ringproof.dev/schemas/subject-v1alpha1.json"
	schema.Title = "ringproof subject"
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic("scenarios: the schema can't be printed: " + err.Error())
	}
	return append(text, '\n')
}

func durations(t reflect.Type) *jsonschema.Schema {
	if t == reflect.TypeFor[ringproof.Duration]() {
		return &jsonschema.Schema{Type: "string", Pattern: durationPattern}
	}
	return nil
}

// JSONSchema is made of the catalogue.
func (Fault) JSONSchema() *jsonschema.Schema {
	s := choice("a fault", faults.Kinds())
	for _, entry := range faults.All() {
		one := parameters(entry.Doc, entry.Params)
		if len(entry.OneOf) > 0 {
			one.OneOf = requireOne(entry.OneOf)
		}
		s.Properties.Set(string(entry.Kind), one)
	}
	return s
}

// JSONSchema is made of the catalogue.
func (Op) JSONSchema() *jsonschema.Schema {
	s := choice("an operation that is asked of the subject", faults.OperationKinds())
	for _, entry := range faults.Operations() {
		s.Properties.Set(string(entry.Kind), parameters(entry.Doc, entry.Params))
	}
	for _, flag := range []struct{ name, doc string }{
		{"refused", "the subject must refuse it"},
		{"rival", "of a detached step: the next one is another operator's, who doesn't wait until this one is heard, so that both ask at once"},
	} {
		s.Properties.Set(flag.name, orReference(&jsonschema.Schema{Type: "boolean", Description: flag.doc}))
	}
	return s
}

// choice is an object of which exactly one of the keys is given.
func choice(doc string, kinds []string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema, OneOf: requireOne(kinds), Description: doc}
}

// parameters is the object of what a fault or an operation takes.
func parameters(doc string, params faults.Params) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Description: doc, Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, p := range params {
		s.Properties.Set(p.Written(), orReference(parameter(p)))
		if p.Required {
			s.Required = append(s.Required, p.Written())
		}
	}
	return s
}

func parameter(p faults.Param) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	switch form := reflect.Zero(written[p.Type]).Interface().(type) {
	case int:
		f := fieldFor(p)
		s = &jsonschema.Schema{Type: "integer", Minimum: json.Number(strconv.Itoa(*f.min)), Maximum: json.Number(strconv.Itoa(*f.max))}
	case ringproof.Duration:
		s.Pattern = durationPattern
	case map[string]Text:
		s = &jsonschema.Schema{Type: "object", AdditionalProperties: Text("").JSONSchema()}
	case interface{ JSONSchema() *jsonschema.Schema }:
		s = form.JSONSchema()
	}
	s.Description = p.Doc
	for _, value := range p.Values {
		s.Enum = append(s.Enum, value)
	}
	return s
}

func requireOne(names []string) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	for _, name := range names {
		all = append(all, &jsonschema.Schema{Required: []string{name}})
	}
	return all
}

// substitutable lets every scalar of the spec be ${matrix.axis} instead.
func substitutable(defs jsonschema.Definitions, name string, def *jsonschema.Schema) {
	defs[name] = orReference(def)
	if def.Properties == nil {
		return
	}
	for pair := def.Properties.Oldest(); pair != nil; pair = pair.Next() {
		pair.Value = orReference(pair.Value)
		if pair.Value.Items != nil {
			pair.Value.Items = orReference(pair.Value.Items)
		}
	}
}

func orReference(s *jsonschema.Schema) *jsonschema.Schema {
	narrow := s.Type == "string" && (len(s.Enum) > 0 || s.Pattern != "")
	if !narrow && !slices.Contains([]string{"integer", "number", "boolean"}, s.Type) {
		return s
	}
	own := *s
	own.Description = ""
	ref := &jsonschema.Schema{Type: "string", Pattern: `\$\{matrix\.[^}]+\}`}
	return &jsonschema.Schema{Description: s.Description, AnyOf: []*jsonschema.Schema{&own, ref}}
}
