// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"errors"
	"fmt"
	"slices"
)

// Register adds a fault of one's own to the catalogue: from then on a scenario may do it,
// and lint, schema, explain and explore know it. A program calls it once for each, before it
// reads anything, or names it in the registry of its command line. The error says what the
// entry lacks. The deed, and its opposite, are in the worlds that the entry names.
func Register(e Entry) error {
	_, taken := Lookup(e.Kind)
	err := errors.Join(lacking("kind", string(e.Kind)), lacking("doc", e.Doc), lacking("fairness", e.Fairness), lacking("heals", e.Heals), elsewhere(e.Worlds), e.Params.check())
	_, takes := e.Param("target")
	switch {
	case taken:
		return fmt.Errorf("fault %q refused: the catalogue has one", e.Kind)
	case err == nil && takes != (len(e.Targets) > 0):
		err = errors.New("a target, and the forms that it may have, come together")
	}
	if err != nil {
		return fmt.Errorf("fault %q refused: %w", e.Kind, err)
	}
	catalogue = append(catalogue, e)
	return nil
}

// RegisterOperation adds an operation of one's own, as Register does a fault. A world asks
// its subject for what it doesn't know itself.
func RegisterOperation(o Operation) error {
	if _, taken := LookupOperation(o.Kind); taken {
		return fmt.Errorf("operation %q refused: the catalogue has one", o.Kind)
	}
	if err := errors.Join(lacking("kind", string(o.Kind)), lacking("doc", o.Doc), lacking("rule of what is owed", o.Owes), elsewhere(o.Worlds), o.Params.check()); err != nil {
		return fmt.Errorf("operation %q refused: %w", o.Kind, err)
	}
	operations = append(operations, o)
	return nil
}

// worlds are the names that scenarios give worlds.
var worlds = []string{"sim", "virtual", "local", "kind"}

// Worlds lists the names of the worlds that a scenario may ask for.
func Worlds() []string { return slices.Clone(worlds) }

// RegisterWorld adds the name of a world of one's own, unless it is there.
func RegisterWorld(name string) {
	if !slices.Contains(worlds, name) {
		worlds = append(worlds, name)
	}
}

func lacking(what, text string) error {
	if text == "" {
		return fmt.Errorf("its entry lacks its %s", what)
	}
	return nil
}

func elsewhere(worlds []string) error {
	if len(worlds) == 0 {
		return errors.New("its entry names no world that can do it")
	}
	return nil
}

func (all Params) check() error {
	var errs []error
	seen := map[string]bool{}
	for _, p := range all {
		if p.Name == "" || p.Doc == "" || seen[p.Name] {
			errs = append(errs, fmt.Errorf("parameter %q lacks its name or doc, or there are two", p.Name))
		}
		if p.Type == TypeFlags && p.Name != "flags" {
			errs = append(errs, fmt.Errorf("parameter %q is a mapping, which only flags can be", p.Name))
		}
		seen[p.Name] = true
	}
	return errors.Join(errs...)
}
