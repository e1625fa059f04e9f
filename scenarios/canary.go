// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"embed"
	"fmt"
	"regexp"
	"slices"

	"github.com/invopop/jsonschema"

	"github.com/ringproof/ringproof"
)

// Canary says that a scenario shows a known bug of etcd: the release that has
// it must be failed by the check that names the harm, and the one that mended
// it must pass.
type Canary struct {
	Bug      Bug       `json:"bug" jsonschema:"required" jsonschema_description:"its issue: etcd#18089"`
	Affected Release   `json:"affected" jsonschema:"required" jsonschema_description:"a release that has the bug"`
	Fixed    Release   `json:"fixed" jsonschema:"required" jsonschema_description:"a later release that doesn't"`
	Check    CheckName `json:"check" jsonschema:"required" jsonschema_description:"the check that must fail the affected release"`
}

// Bug names an issue of etcd's.
type Bug string

const bugPattern = `^etcd#[1-9][0-9]*$`

var bug = regexp.MustCompile(bugPattern)

func (b *Bug) parse(text string, _ Known) (complaint, bool) {
	*b = Bug(text)
	if bug.MatchString(text) {
		return complaint{}, true
	}
	return complaint{"S019", fmt.Sprintf("bug %q: name its issue, such as etcd#18089", text), nil}, false
}

// JSONSchema gives the pattern of an issue.
func (Bug) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: bugPattern}
}

// CheckName is the name of a check.
type CheckName string

func (c *CheckName) parse(text string, known Known) (complaint, bool) {
	*c = CheckName(text)
	if _, ok := known.check(text); ok {
		return complaint{}, true
	}
	return complaint{"S020", fmt.Sprintf("unknown check %q", text), known.checkNames()}, false
}

// JSONSchema allows any word: checks are known by name only here.
func (CheckName) JSONSchema() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }

// canary holds a canary to its word: each cell runs one of its two releases,
// both are run, and the check judges them.
func (r review) canary() Diagnostics {
	c := r.form.Spec.Canary
	if c == nil {
		return nil
	}
	version := Release(r.plan.Ring.Version)
	judged := slices.ContainsFunc(r.plan.Invariants, func(i ringproof.Invariant) bool { return i.Check == string(c.Check) })
	switch {
	case c.Affected == c.Fixed:
		return r.say("spec.canary.fixed", Error, "S052", "", "%s can't both have the bug and be without it", c.Fixed)
	case version != c.Affected && version != c.Fixed:
		help := fmt.Sprintf("write matrix: {etcd: [%s, %s]} and ring: {version: \"${matrix.etcd}\"}", c.Affected, c.Fixed)
		return r.say("spec.canary", Error, "S052", help, "a cell runs %s, which is neither the affected release nor the fixed one", version)
	case !judged:
		return r.say("spec.canary.check", Error, "S052", "", "the invariants don't hold %s", c.Check)
	}
	return nil
}

// unpaired finds a canary that leaves one of its releases out.
func (s *Scenario) unpaired() Diagnostics {
	if s.Canary == nil {
		return nil
	}
	run := map[Release]bool{}
	var d *decoder
	for _, values := range combinations(s.Axes) {
		var form Form
		form, d = s.decode(values)
		run[form.Spec.Ring.Version] = true
	}
	var found Diagnostics
	for _, release := range []Release{s.Canary.Affected, s.Canary.Fixed} {
		if !run[release] {
			c := complaint{code: "S052", message: fmt.Sprintf("no cell runs %s", release)}
			found = append(found, s.text.at(d.keyed("spec.canary"), Error, c, "make both releases values of an axis"))
		}
	}
	return found
}

//go:embed canaries/*.yaml
var canaries embed.FS

// Canaries returns the scenarios that show known bugs of etcd, by name.
func Canaries() ([]*Scenario, error) { return Standard().embedded(canaries, "canaries") }
