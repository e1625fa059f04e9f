// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"encoding/json"
	"reflect"
	"slices"

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
	eachFault(defs)
	defs["Op"].OneOf = requireOne(Ops())
	defs["Fault"].OneOf = requireOne(faults.Kinds())
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

// eachFault gives every fault the parameters that the catalogue says it takes.
func eachFault(defs jsonschema.Definitions) {
	harm := defs["Harm"]
	for _, entry := range faults.All() {
		s := &jsonschema.Schema{Type: "object", Description: entry.Doc, Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
		for _, param := range entry.Params {
			written, _ := harm.Properties.Get(param.Name)
			property := *written
			property.Description = param.Doc
			for _, value := range param.Values {
				property.Enum = append(property.Enum, value)
			}
			s.Properties.Set(param.Name, &property)
			if param.Required {
				s.Required = append(s.Required, param.Name)
			}
		}
		if len(entry.OneOf) > 0 {
			s.OneOf = requireOne(entry.OneOf)
		}
		for pair := s.Properties.Oldest(); pair != nil; pair = pair.Next() {
			pair.Value = orReference(pair.Value)
		}
		defs["Fault"].Properties.Set(string(entry.Kind), s)
	}
	delete(defs, "Harm")
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
