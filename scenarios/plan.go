// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// WritePlan saves a plan as YAML, its keys in the order of the Go type.
func WritePlan(w io.Writer, p ringproof.Plan) error {
	// A list without elements is written as one, not as null.
	p.Invariants = append([]ringproof.Invariant{}, p.Invariants...)
	p.Steps = append([]ringproof.Step{}, p.Steps...)
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("writing plan: %w", err)
	}
	// JSON is YAML; read as nodes it keeps the order of its keys.
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return fmt.Errorf("writing plan: %w", err)
	}
	plain(&root)
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(&root); err != nil {
		return fmt.Errorf("writing plan: %w", err)
	}
	return encoder.Close()
}

// plain drops JSON's braces and quotes; the encoder quotes what needs it.
func plain(n *yaml.Node) {
	n.Style = 0
	if len(n.Content) == 0 && n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
	for _, child := range n.Content {
		plain(child)
	}
}

// ReadPlan reads a plan in YAML or JSON, as strictly as a scenario is read. It
// is what replay takes.
func ReadPlan(name string, src []byte) (ringproof.Plan, Diagnostics) {
	t := newText(name, holdsScenario, src)
	tree, found := readTree(t, src)
	if found.Failed() {
		return ringproof.Plan{}, found.ordered()
	}
	if found := otherwise(t, tree, holdsPlan); found.Failed() {
		return ringproof.Plan{}, found
	}
	dropNulls(tree)
	d := newDecoder(t, Known{}, nil)
	var p ringproof.Plan
	d.decode(tree, reflect.ValueOf(&p).Elem(), "")
	if len(d.found) == 0 {
		d.judgePlan(p)
	}
	if found := d.found.ordered(); found.Failed() {
		return ringproof.Plan{}, found
	}
	return p, nil
}

// dropNulls takes out the keys without a value: Go's JSON writes an absent list
// as null.
func dropNulls(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		var kept []*yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i+1].Tag != "!!null" {
				kept = append(kept, n.Content[i], n.Content[i+1])
			}
		}
		n.Content = kept
	}
	for _, child := range n.Content {
		dropNulls(child)
	}
}

func (d *decoder) judgePlan(p ringproof.Plan) {
	d.require("cell", p.Cell != "")
	d.require("scenario", p.Scenario != "")
	d.require("subject", p.Subject != "")
	d.require("ring.size", p.Ring.Size > 0)
	d.require("ring.machines", p.Ring.Machines >= p.Ring.Size)
	d.require("ring.version", p.Ring.Version != "")
	if domain := Domain(""); p.Ring.Domain != "" {
		if c, ok := domain.parse(p.Ring.Domain, Known{}); !ok {
			d.complain(d.placed("ring.domain"), c, "")
		}
	}
	if _, err := ParseCellName(p.Cell); p.Cell != "" && err != nil {
		d.complain(d.placed("cell"), complaint{code: "S026", message: err.Error()}, "")
	}
	if p.Mode != ringproof.ModeSafe && p.Mode != ringproof.ModeDisaster {
		d.complain(d.placed("mode"), complaint{"S019", fmt.Sprintf("unknown mode %q", p.Mode), []string{string(ringproof.ModeDisaster)}}, "")
	}
	names := map[string]bool{}
	for i, s := range p.Steps {
		path := fmt.Sprintf("steps[%d]", i)
		d.judgeStep(s, names, path)
		if names[s.Name] || s.Name == "" {
			d.complain(d.placed(path), complaint{code: "S027", message: fmt.Sprintf("the step's name %q is empty, or a step before has it", s.Name)}, "")
		}
		names[s.Name] = true
	}
}

func (d *decoder) require(path string, there bool) {
	if !there {
		d.complain(d.placed(path), complaint{code: "S011", message: fmt.Sprintf("a plan needs %q", path)}, "is this a plan that ringproof wrote?")
	}
}

func (d *decoder) judgeStep(s ringproof.Step, earlier map[string]bool, path string) {
	d.exactlyOne("S022", "a step", path, map[string]bool{"op": s.Op != nil, "fault": s.Fault != nil, "assert": s.Assert != nil})
	if s.After != nil {
		if _, ok := ringproof.EventKinds()[s.After.Event]; !ok {
			d.complain(d.placed(path+".after.event"), complaint{"S015", fmt.Sprintf("unknown event %q", s.After.Event), eventNames()}, "")
		}
	}
	for i, name := range s.Join {
		if !earlier[name] {
			d.complain(d.placed(fmt.Sprintf("%s.join[%d]", path, i)), complaint{"S041", fmt.Sprintf("unknown step %q", name), sortedKeys(earlier)}, "")
		}
	}
	if s.Op != nil {
		d.judgeParams(faults.ValidateOperation(*s.Op), path+".op", "S013")
	}
	if s.Fault != nil {
		d.judgeParams(faults.Validate(*s.Fault), path+".fault", "S014")
	}
	if s.Assert != nil {
		if _, err := regexp.Compile(s.Assert.Said); err != nil {
			d.complain(d.placed(path+".assert.said"), complaint{code: "S060", message: fmt.Sprintf("the pattern %q can't be read: %v", s.Assert.Said, err)}, "")
		}
	}
	for _, target := range targets(&s) {
		if *target == faults.Random {
			d.complain(d.placed(path), complaint{code: "S051", message: "a plan holds no random target"}, "")
		}
	}
}
