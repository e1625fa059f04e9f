// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/scenarios"
)

func (p *program) explainCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain WORD",
		Short: "what a word of ringproof means",
		Long: `explain prints what a word means: a code of lint, a fault, effect, operation,
check, event, target, mutant or scenario, or a word of the reports.`,
		Example: `  ringproof explain S043
  ringproof explain volume-loss
  ringproof explain full strength`,
		Args: some("a word: a code, fault, effect, op, check, event, target, mutant or scenario, or one of the reports"),
		RunE: func(c *cobra.Command, args []string) error {
			found, err := p.explain(strings.Join(args, " "))
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), found)
			}
			for i, t := range found {
				if i > 0 {
					fmt.Fprintln(c.OutOrStdout())
				}
				t.print(c.OutOrStdout())
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

// topic is a word that can be explained. A word may be several.
type topic struct {
	Kind  string `json:"kind"`
	Word  string `json:"word"`
	Title string `json:"title"`
	Facts []fact `json:"facts,omitempty"`
}

// fact is one line of an explanation.
type fact struct {
	About string `json:"about"`
	Text  string `json:"text"`
}

func (t topic) print(w io.Writer) {
	fmt.Fprintf(w, "%s (%s): %s\n", t.Word, t.Kind, t.Title)
	for _, f := range t.Facts {
		fmt.Fprintf(w, "  %-12s %s\n", f.About, f.Text)
	}
}

func (r Registry) explain(word string) ([]topic, error) {
	all, err := r.topics()
	if err != nil {
		return nil, err
	}
	var found []topic
	var words []string
	for _, t := range all {
		if strings.EqualFold(t.Word, word) || t.Kind == "target" && t.Word == faults.Form(word) {
			found = append(found, t)
		}
		words = append(words, t.Word)
	}
	if len(found) > 0 {
		return found, nil
	}
	if meant, ok := nearest(word, words); ok {
		return nil, usage("nothing is called %q; did you mean %s?", word, meant)
	}
	return nil, usage("nothing is called %q; see ringproof list", word)
}

func (r Registry) topics() ([]topic, error) {
	shipped, err := scenarioTopics()
	return slices.Concat(codeTopics(), r.faultTopics(), effectTopics(), r.opTopics(), checkTopics(), eventTopics(), targetTopics(), r.mutantTopics(), shipped, variableTopics(), termTopics()), err
}

func scenarioTopics() ([]topic, error) {
	shipped, err := scenarios.Shipped()
	var all []topic
	for _, s := range shipped {
		all = append(all, topic{"scenario", s.Name, s.Description, []fact{
			{"claims", s.Hypothesis}, {"cells", fmt.Sprint(len(s.Cells(1)))}, {"run it", "ringproof run --run " + s.Name},
		}})
	}
	return all, err
}

func codeTopics() []topic {
	var all []topic
	for _, c := range scenarios.Codes() {
		all = append(all, topic{"code", c.Code, c.Title, []fact{{"more", c.Doc}}})
	}
	return all
}

func (r Registry) faultTopics() []topic {
	var all []topic
	for _, f := range faults.All() {
		t := topic{Kind: "fault", Word: string(f.Kind), Title: f.Doc, Facts: paramFacts(f.Params)}
		if len(f.OneOf) > 0 {
			t.Facts = append(t.Facts, fact{"give", "one of " + strings.Join(f.OneOf, ", ")})
		}
		if len(f.Targets) > 0 {
			t.Facts = append(t.Facts, fact{"targets", strings.Join(f.Targets, ", ")})
		}
		t.Facts = append(t.Facts, fact{"fair", f.Fairness}, fact{"heals", f.Heals}, fact{"worlds", strings.Join(r.here(f.Worlds), ", ")})
		all = append(all, t)
	}
	return all
}

// here are those of the worlds that this program has.
func (r Registry) here(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, err := r.worldOf(name)
		return err != nil
	})
}

func paramFacts(params faults.Params) (facts []fact) {
	for _, p := range params {
		facts = append(facts, fact{p.Written(), paramText(p)})
	}
	return facts
}

func paramText(p faults.Param) string {
	text := p.Doc
	if len(p.Values) > 0 {
		text += " (" + strings.Join(p.Values, ", ") + ")"
	}
	if p.Signed {
		text += "; it may be negative"
	}
	if p.Most > 0 {
		text += fmt.Sprintf("; at most %d", p.Most)
	}
	if p.Required {
		text += "; required"
	}
	return text
}

func effectTopics() []topic {
	var all []topic
	for _, e := range faults.Effects() {
		all = append(all, topic{"effect", e.Form, e.Doc, []fact{
			{"cut it", fmt.Sprintf("fault: {%s: {effect: %q, phase: after}}", ringproof.FaultAgentCrash, e.Form)},
		}})
	}
	return all
}

func (r Registry) opTopics() []topic {
	var all []topic
	for _, o := range faults.Operations() {
		t := topic{Kind: "op", Word: string(o.Kind), Title: o.Doc, Facts: paramFacts(o.Params)}
		if _, takes := o.Params.Find("target"); takes {
			t.Facts = append(t.Facts, fact{"targets", strings.Join(o.Targets, ", ")})
		}
		t.Facts = append(t.Facts, fact{"owed", o.Owes}, fact{"worlds", strings.Join(r.here(o.Worlds), ", ")})
		all = append(all, t)
	}
	return all
}

func checkTopics() []topic {
	var all []topic
	for _, c := range append(checks.Always(), checks.All()...) {
		t := topic{"check", c.Name, c.Claim, []fact{{"source", c.Source}}}
		for _, p := range c.Params {
			t.Facts = append(t.Facts, fact{p.Name, fmt.Sprintf("%s; %s when absent", p.Doc, p.Default)})
		}
		t.Facts = append(t.Facts, fact{"modes", strings.Join(newCheckEntry(c).Modes, ", ")})
		all = append(all, t)
	}
	return all
}

func eventTopics() []topic {
	docs := ringproof.EventKinds()
	var all []topic
	for _, kind := range slices.Sorted(maps.Keys(docs)) {
		all = append(all, topic{"event", string(kind), docs[kind], []fact{{"wait for it", fmt.Sprintf("after: {event: %s}", kind)}}})
	}
	return all
}

func targetTopics() []topic {
	var all []topic
	for _, s := range faults.Selectors() {
		all = append(all, topic{Kind: "target", Word: s.Form, Title: s.Doc})
	}
	return all
}

func variableTopics() []topic {
	var all []topic
	for _, v := range scenarios.Variables() {
		t := topic{Kind: "variable", Word: v.Name, Title: v.Doc, Facts: []fact{{"write", "{{." + v.Name + "}} in a subject's file"}}}
		if v.In != "" {
			t.Facts = append(t.Facts, fact{"only in", v.In})
		}
		all = append(all, t)
	}
	return all
}

func (r Registry) mutantTopics() []topic {
	of := r.own()
	kept, err := of.costs()
	if err != nil {
		panic(err) // it is part of the program
	}
	var all []topic
	for _, m := range of.Mutants {
		t := topic{"mutant", m.Name, m.Hazard, []fact{
			{"source", m.Source}, {"noticed by", m.Check}, {"in", m.Scenario},
			{"try", fmt.Sprintf("ringproof run --subject %s+%s", of.Name, m.Name)},
		}}
		if m.Undrawn != "" {
			t.Facts = append(t.Facts, fact{"not drawn", m.Undrawn})
		}
		if f, measured := kept.Of(m.Name); measured {
			t.Facts = append(t.Facts, costs(of.Name, kept, f)...)
		}
		all = append(all, t)
	}
	return all
}

// costs says what the mutant cost to find, and shows a drawn plan that fails it.
func costs(subject string, s harness.Costs, f harness.Cost) []fact {
	cost := figures(s, f)
	facts := []fact{{"seeds", cost[0] + " of its scenario"}}
	switch {
	case f.Unsearched:
		return facts
	case f.Runs == 0:
		return append(facts, fact{"runs", cost[1] + " drawn plans"})
	}
	return append(facts, fact{"runs", fmt.Sprintf("%s of drawn plans, %ss of a worker, failed by %s", cost[1], cost[2], strings.Join(f.FailedBy, ", "))},
		fact{"drawn", fmt.Sprintf("ringproof explore --runs 1 --seed %d --subject %s+%s", f.Seed, subject, f.Name)},
		fact{"measured by", fmt.Sprintf("%s: medians of %d starts", s.Command, len(s.Starts))})
}
