// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/scenarios"
)

func (p *program) listCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "list",
		Short: "what there is: scenarios, faults, targets, effects, ops, checks, events, mutants, known-bugs, worlds, etcd, variables, words",
	},
		listingCommand("scenarios", scenarioListing),
		listingCommand("faults", faultListing),
		listingCommand("targets", targetListing),
		listingCommand("effects", effectListing),
		listingCommand("ops", opListing),
		listingCommand("checks", checkListing),
		listingCommand("events", eventListing),
		listingCommand("mutants", p.mutantListing()),
		listingCommand("known-bugs", bugListing),
		renamed("canaries", listingCommand("known-bugs", bugListing)),
		listingCommand("worlds", p.worldListing()),
		listingCommand("etcd", etcdListing),
		listingCommand("variables", variableListing),
		listingCommand("words", termListing))
}

// row is one thing in a list: as JSON it is itself, for people its columns.
type row interface{ columns() []string }

// listed is a list with the names of its columns.
type listed struct {
	header []string
	rows   []row
}

func (l listed) print(c *cobra.Command, asJSON bool) error {
	if asJSON {
		return printJSON(c.OutOrStdout(), append([]row{}, l.rows...))
	}
	var lines [][]string
	for _, r := range l.rows {
		lines = append(lines, r.columns())
	}
	return printTable(c.OutOrStdout(), l.header, lines)
}

// listing is a list that can be asked for.
type listing struct {
	short  string
	header []string
	rows   func() ([]row, error)
}

func listingCommand(name string, l listing) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   name,
		Short: l.short,
		Args:  none,
		RunE: func(c *cobra.Command, _ []string) error {
			rows, err := l.rows()
			if err != nil {
				return err
			}
			return listed{l.header, rows}.print(c, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return c
}

func rowsOf[E any, R row](all []E, as func(E) R) []row {
	rows := make([]row, 0, len(all))
	for _, e := range all {
		rows = append(rows, as(e))
	}
	return rows
}

// scenarioEntry is a shipped scenario and how many cells it has.
type scenarioEntry struct {
	*scenarios.Scenario
	Cells int `json:"cells"`
}

func (s scenarioEntry) columns() []string {
	return []string{s.Name, fmt.Sprint(s.Cells), cmp.Or(string(s.Mode), "safe"), s.Hypothesis}
}

var scenarioListing = listing{"the shipped scenarios, with what each claims", []string{"SCENARIO", "CELLS", "MODE", "HYPOTHESIS"}, func() ([]row, error) {
	shipped, err := scenarios.Shipped()
	return rowsOf(shipped, func(s *scenarios.Scenario) scenarioEntry { return scenarioEntry{s, len(s.Cells(1))} }), err
}}

type faultEntry struct{ faults.Entry }

func (f faultEntry) columns() []string {
	return []string{string(f.Kind), parameters(f.Params, f.OneOf), f.Doc}
}

// parameters prints "action|effect phase [nth]".
func parameters(all faults.Params, oneOf []string) string {
	names := slices.DeleteFunc([]string{strings.Join(oneOf, "|")}, func(p string) bool { return p == "" })
	for _, p := range all {
		switch {
		case slices.Contains(oneOf, p.Written()):
		case p.Required:
			names = append(names, p.Written())
		default:
			names = append(names, "["+p.Written()+"]")
		}
	}
	return strings.Join(names, " ")
}

var faultListing = listing{"the faults that can be injected", []string{"FAULT", "PARAMETERS", "WHAT IT DOES"}, func() ([]row, error) {
	return rowsOf(faults.All(), func(e faults.Entry) faultEntry { return faultEntry{e} }), nil
}}

type variableEntry struct{ scenarios.Variable }

func (v variableEntry) columns() []string { return []string{"{{." + v.Name + "}}", v.In, v.Doc} }

var variableListing = listing{"what a subject's file fills in (docs/subjects.md)", []string{"VARIABLE", "ONLY IN", "WHAT IT IS"}, func() ([]row, error) {
	return rowsOf(scenarios.Variables(), func(v scenarios.Variable) variableEntry { return variableEntry{v} }), nil
}}

type targetEntry struct{ faults.Selector }

func (e targetEntry) columns() []string { return []string{e.Form, e.Doc} }

var targetListing = listing{"what a fault or an operation can be aimed at", []string{"TARGET", "WHAT IT IS"}, func() ([]row, error) {
	return rowsOf(faults.Selectors(), func(s faults.Selector) targetEntry { return targetEntry{s} }), nil
}}

type effectEntry struct{ faults.Effect }

func (e effectEntry) columns() []string { return []string{e.Form, e.Doc} }

var effectListing = listing{"the side effects of a subject that agent-crash can cut", []string{"EFFECT", "WHAT HAPPENS"}, func() ([]row, error) {
	return rowsOf(faults.Effects(), func(e faults.Effect) effectEntry { return effectEntry{e} }), nil
}}

type opEntry struct{ faults.Operation }

func (o opEntry) columns() []string {
	return []string{string(o.Kind), parameters(o.Params, nil), o.Doc}
}

var opListing = listing{"the operations that a subject can be asked for", []string{"OP", "PARAMETERS", "WHAT IT DOES"}, func() ([]row, error) {
	return rowsOf(faults.Operations(), func(o faults.Operation) opEntry { return opEntry{o} }), nil
}}

// checkEntry is a check, with the modes that it judges.
type checkEntry struct {
	Name   string       `json:"name"`
	Claim  string       `json:"claim"`
	Source string       `json:"source"`
	Params []checkParam `json:"params"`
	Modes  []string     `json:"modes"`
}

type checkParam struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	Doc     string `json:"doc"`
}

func (e checkEntry) columns() []string {
	var params []string
	for _, p := range e.Params {
		params = append(params, p.Name+"="+p.Default)
	}
	return []string{e.Name, strings.Join(params, " "), e.Claim}
}

func newCheckEntry(c checks.Check) checkEntry {
	e := checkEntry{Name: c.Name, Claim: c.Claim, Source: c.Source, Params: []checkParam{}, Modes: []string{}}
	for _, p := range c.Params {
		e.Params = append(e.Params, checkParam(p))
	}
	all := append(scenarios.Standard().Checks, scenarios.Check{Name: "assumptions"}, scenarios.Check{Name: "steps"}) // of every mode
	for _, known := range all {
		if known.Name != c.Name {
			continue
		}
		for _, mode := range []ringproof.Mode{ringproof.ModeSafe, ringproof.ModeDisaster} {
			if known.Fits(mode) {
				e.Modes = append(e.Modes, cmp.Or(string(mode), "safe"))
			}
		}
	}
	return e
}

var checkListing = listing{"the checks that judge a history", []string{"CHECK", "PARAMETERS", "WHAT HOLDS WHEN IT PASSES"}, func() ([]row, error) {
	return rowsOf(append(checks.Always(), checks.All()...), newCheckEntry), nil
}}

// eventEntry is something that happens, and what it means.
type eventEntry struct {
	Kind ringproof.EventKind `json:"kind"`
	Doc  string              `json:"doc"`
}

func (e eventEntry) columns() []string { return []string{string(e.Kind), e.Doc} }

var eventListing = listing{"what happens in a run, and a step can wait for", []string{"EVENT", "WHAT IT SAYS"}, func() ([]row, error) {
	docs := ringproof.EventKinds()
	return rowsOf(slices.Sorted(maps.Keys(docs)), func(k ringproof.EventKind) eventEntry { return eventEntry{k, docs[k]} }), nil
}}

// mutantEntry is a mutant, and what it cost to find when that was measured last.
type mutantEntry struct {
	harness.Mutant
	Seeds    int      `json:"seeds"`    // of its scenario; 0: never
	Runs     int      `json:"runs"`     // of drawn plans; 0: never
	Seconds  float64  `json:"seconds"`  // of one worker, for the drawn plans
	FailedBy []string `json:"failedBy"` // in the drawn plans
	cost     []string
}

func (m mutantEntry) columns() []string {
	return append(append([]string{m.Name, m.Check, m.Scenario}, m.cost...), m.Hazard)
}

func (r Registry) mutantListing() listing {
	of := r.own()
	return listing{"the " + of.Name + " with one hazard put in, the check that must notice, and what it cost to find: seeds of its scenario, runs of drawn plans and their seconds, as medians", []string{"MUTANT", "CHECK", "SCENARIO", "SEEDS", "RUNS", "SECONDS", "HAZARD"}, func() ([]row, error) {
		kept, err := of.costs()
		return rowsOf(of.Mutants, func(m harness.Mutant) mutantEntry {
			f, measured := kept.Of(m.Name)
			if !measured {
				return mutantEntry{Mutant: m, FailedBy: []string{}, cost: []string{"-", "-", "-"}}
			}
			return mutantEntry{Mutant: m, Seeds: f.Seeds, Runs: f.Runs, Seconds: f.Seconds, FailedBy: f.FailedBy, cost: figures(kept, f)}
		}), err
	}}
}

// bugEntry is a known bug of etcd, and the scenario that shows it.
type bugEntry struct {
	Name string `json:"name"`
	scenarios.KnownBug
	Hypothesis string `json:"hypothesis"`
}

func (e bugEntry) columns() []string {
	return []string{e.Name, string(e.Bug), string(e.Affected), string(e.Fixed), string(e.Check), e.Hypothesis}
}

var bugListing = listing{"known bugs of etcd that the checks must notice", []string{"SCENARIO", "BUG", "AFFECTED", "FIXED", "CHECK", "HYPOTHESIS"}, func() ([]row, error) {
	all, err := scenarios.KnownBugs()
	return rowsOf(all, func(s *scenarios.Scenario) bugEntry { return bugEntry{s.Name, *s.KnownBug, s.Hypothesis} }), err
}}

func (r Registry) worldListing() listing {
	return listing{"where plans can run", []string{"WORLD", "NEEDS", "WHAT RUNS"}, func() ([]row, error) {
		return rowsOf(r.Worlds, func(w World) World { return w }), nil
	}}
}

var etcdListing = listing{"the etcd releases in the cache", releaseHeader, func() ([]row, error) {
	cache, err := etcdbin.DefaultCache()
	if err != nil {
		return nil, environment(err)
	}
	found, err := cache.List()
	return rowsOf(found, func(r etcdbin.Release) release { return release{r} }), environment(err)
}}
