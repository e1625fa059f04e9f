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

// KnownBug says that a scenario shows a known bug of etcd: the release that has
// it must be failed by the check that names the damage, and the one that fixed
// it must pass.
type KnownBug struct {
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

// knownBug holds a scenario to the bug that it says it shows: each cell runs one of its two releases,
// both are run, and the check judges them.
func (r review) knownBug() Diagnostics {
	c := r.form.Spec.KnownBug
	if c == nil {
		return nil
	}
	version := Release(r.plan.Ring.Version)
	judged := slices.ContainsFunc(r.plan.Invariants, func(i ringproof.Invariant) bool { return i.Check == string(c.Check) })
	switch {
	case c.Affected == c.Fixed:
		return r.say("spec.knownBug.fixed", Error, "S052", "", "%s can't both have the bug and be without it", c.Fixed)
	case version != c.Affected && version != c.Fixed:
		help := fmt.Sprintf("write matrix: {etcd: [%s, %s]} and ring: {version: \"${matrix.etcd}\"}", c.Affected, c.Fixed)
		return r.say("spec.knownBug", Error, "S052", help, "a cell runs %s, which is neither the affected release nor the fixed one", version)
	case !judged:
		return r.say("spec.knownBug.check", Error, "S052", "", "the invariants don't hold %s", c.Check)
	}
	return nil
}

// unpaired finds a known bug of which one release is left out.
func (s *Scenario) unpaired() Diagnostics {
	if s.KnownBug == nil {
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
	for _, release := range []Release{s.KnownBug.Affected, s.KnownBug.Fixed} {
		if !run[release] {
			c := complaint{code: "S052", message: fmt.Sprintf("no cell runs %s", release)}
			found = append(found, s.text.at(d.keyed("spec.knownBug"), Error, c, "make both releases values of an axis"))
		}
	}
	return found
}

//go:embed known-bugs/*.yaml
var knownBugs embed.FS

// KnownBugs returns the scenarios that show known bugs of etcd, by name.
func KnownBugs() ([]*Scenario, error) { return Standard().embedded(knownBugs, "known-bugs") }
