// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// Param is one parameter of a fault or an operation. It is held by the field of
// [ringproof.Fault] or [ringproof.Op] of that name, or, where there is none, among their
// Params.
type Param struct {
	Name     string   `json:"name"`
	Key      string   `json:"key,omitempty"` // as it is written in a scenario; "": by its name
	Doc      string   `json:"doc"`
	Type     Type     `json:"type,omitempty"`
	Values   []string `json:"values,omitempty"` // of a word: the legal ones, a fault's default first; empty: free
	Bare     bool     `json:"bare,omitempty"`   // of a word: none has no default, and means something of its own
	Required bool     `json:"required,omitempty"`
	Least    int      `json:"least,omitempty"`  // of a number: the smallest
	Most     int      `json:"most,omitempty"`   // of a number: the largest; 0: no limit
	Signed   bool     `json:"signed,omitempty"` // of a duration: it may be negative
}

// Type is how a parameter is written.
type Type string

// The types of parameters.
const (
	TypeWord     Type = ""         // one of its values, or any
	TypeTarget   Type = "target"   // a selector of machines
	TypeNumber   Type = "number"   // a whole one
	TypeDuration Type = "duration" // 15s, for a day at most
	TypeShift    Type = "shift"    // a duration that may be longer, such as 400d
	TypeAction   Type = "action"   // something that the subject does
	TypeEffect   Type = "effect"   // one call at the subject's seams
	TypeRelease  Type = "release"  // of etcd
	TypeFlags    Type = "flags"    // of etcd, by name
)

// Params are what may be written under a fault or an operation.
type Params []Param

// Find returns the parameter with that name.
func (all Params) Find(name string) (Param, bool) {
	i := slices.IndexFunc(all, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return Param{}, false
	}
	return all[i], true
}

// Written is how a scenario names the parameter.
func (p Param) Written() string { return cmp.Or(p.Key, p.Name) }

// FindWritten returns the parameter that a scenario means.
func (all Params) FindWritten(key string) (Param, bool) {
	i := slices.IndexFunc(all, func(p Param) bool { return p.Written() == key })
	if i < 0 {
		return Param{}, false
	}
	return all[i], true
}

// Names lists how the parameters are written in a scenario.
func (all Params) Names() []string {
	names := make([]string, 0, len(all))
	for _, p := range all {
		names = append(names, p.Written())
	}
	return names
}

// Put gives the step, a *ringproof.Fault or a *ringproof.Op, a value of a parameter: a
// string, an int, a ringproof.Duration or a map[string]string. One that no field is for
// is kept as text.
func Put(step any, param string, value any) {
	v := reflect.ValueOf(step).Elem()
	if f := fieldOf(v, param); f.IsValid() {
		f.Set(reflect.ValueOf(value))
		return
	}
	params := v.FieldByName("Params")
	if params.IsNil() {
		params.Set(reflect.ValueOf(map[string]string{}))
	}
	params.SetMapIndex(reflect.ValueOf(param), reflect.ValueOf(fmt.Sprint(value)))
}

// Get is the text of what the step, a *ringproof.Fault or a *ringproof.Op, has of a
// parameter; "" where it has none.
func Get(step any, param string) string {
	v := reflect.ValueOf(step).Elem()
	if f := fieldOf(v, param); f.IsValid() {
		return textOf(f)
	}
	params, _ := v.FieldByName("Params").Interface().(map[string]string)
	return params[param]
}

// textOf prints a field; one that is zero is absent.
func textOf(field reflect.Value) string {
	if field.IsZero() || field.Kind() == reflect.Map && field.Len() == 0 {
		return ""
	}
	return fmt.Sprint(field.Interface())
}

// Completed is the fault with the first legal word wherever none was written, unless one is
// required, or none means something of its own.
func Completed(f ringproof.Fault) ringproof.Fault {
	entry, _ := Lookup(f.Kind)
	for _, p := range entry.Params {
		if len(p.Values) > 0 && !p.Required && !p.Bare && Get(&f, p.Name) == "" {
			Put(&f, p.Name, p.Values[0])
		}
	}
	return f
}

// apart are fields that hold no parameter.
var apart = []string{"kind", "params", "refused", "rival"}

// fieldOf is the field that the parameter is kept in; the zero Value if there is none.
func fieldOf(step reflect.Value, param string) reflect.Value {
	for i := range step.NumField() {
		if name := nameOf(step.Type().Field(i)); name == param && !slices.Contains(apart, name) {
			return step.Field(i)
		}
	}
	return reflect.Value{}
}

func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
