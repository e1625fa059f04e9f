// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/internal/suite"
	"github.com/ringproof/ringproof/reports"
)

// gaugeFile holds the gauge beside the report.
const gaugeFile = "gauge.json"

func gaugeCommand() *cobra.Command {
	var f runFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "gauge [MUTANT...]",
		Short: "test ringproof itself: run every mutant, and see whether its check catches it",
		Long: `gauge runs the reference with one hazard put in, a mutant after the other, on the
scenario that shows its harm, until the check that names the harm has failed it.

  caught        the intended check failed it
  mistaken      it failed, but only by other checks
  escaped       every cell of the scenario passed
  inconclusive  no cell failed it, and not all could be judged

The table is kept as gauge.json in --out. The report beside it shows the cells;
there, failing is what a mutant should do. Exit code 0: all were caught; 1: one
was mistaken or escaped; 3: one is inconclusive.`,
		RunE: func(c *cobra.Command, args []string) error { return gauge(c, f, args, asJSON) },
	}
	f.add(c)
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of each cell")
	c.Flags().BoolVar(&asJSON, "json", false, "print the table as JSON")
	return c
}

// catch is what became of one mutant.
type catch struct {
	Mutant   string   `json:"mutant"`
	Check    string   `json:"check"`    // that must fail it
	CaughtBy []string `json:"caughtBy"` // the checks that failed it
	Verdict  string   `json:"verdict"`
	Seconds  float64  `json:"seconds"` // on the wall, all its cells
	Cells    []string `json:"cells"`   // that ran
	Replay   string   `json:"replay,omitempty"`

	jobs   []suite.Job // yet to run
	unsure bool
}

// What becomes of a mutant.
const (
	caught   = "caught"
	mistaken = "mistaken"
	escaped  = "escaped"
	unjudged = "inconclusive"
)

func (m catch) columns() []string {
	return []string{m.Mutant, m.Check, strings.Join(m.CaughtBy, " "), m.Verdict, fmt.Sprintf("%.1f", m.Seconds)}
}

func gauge(c *cobra.Command, f runFlags, names []string, asJSON bool) error {
	f.seeds = 1
	catches, jobs, err := f.mutants(c, names)
	if err != nil {
		return err
	}
	return enclosed(c, f, jobs, func(f runFlags, releases map[string]etcdbin.Release) error {
		report := f.report("mutants of the reference", releases)
		for round := 0; ; round++ {
			due := next(catches)
			if len(due) == 0 || c.Context().Err() != nil {
				break
			}
			cells, err := f.cellsOf(c, due, releases)
			if err != nil {
				return err
			}
			for _, cell := range cells {
				credit(catches, cell)
			}
			report.Cells = append(report.Cells, cells...)
		}
		for i := range catches {
			catches[i].judge()
		}
		return gauged(c, f, catches, report, asJSON)
	})
}

// mutants are those named, or all of the world, with the cells to run each on.
func (f runFlags) mutants(c *cobra.Command, names []string) ([]catch, []suite.Job, error) {
	if err := known(f.world); err != nil {
		return nil, nil, err
	}
	var catches []catch
	var all []suite.Job
	for _, name := range names {
		if _, err := subject.LookupMutant(name); err != nil {
			return nil, nil, usage("%w", err)
		}
	}
	for _, m := range subject.Mutants() {
		if m.World != f.world || len(names) > 0 && !slices.Contains(names, m.Name) {
			continue
		}
		f.subject, f.cells = subject.Reference+"+"+m.Name, []string{m.Scenario}
		jobs, err := f.chosen(c, nil)
		if err != nil {
			return nil, nil, err
		}
		catches = append(catches, catch{Mutant: m.Name, Check: m.Check, CaughtBy: []string{}, Cells: []string{}, jobs: jobs})
		all = append(all, jobs...)
	}
	return catches, all, nil
}

// next takes the next cell of every mutant that isn't caught yet.
func next(catches []catch) []suite.Job {
	var due []suite.Job
	for i := range catches {
		if m := &catches[i]; len(m.jobs) > 0 && !m.caught() {
			due = append(due, m.jobs[0])
			m.jobs = m.jobs[1:]
		}
	}
	return due
}

func (m *catch) caught() bool { return slices.Contains(m.CaughtBy, m.Check) }

// credit adds what a cell came to to its mutant.
func credit(catches []catch, cell reports.Cell) {
	i := slices.IndexFunc(catches, func(m catch) bool { return cell.Subject == subject.Reference+"+"+m.Mutant })
	if i < 0 {
		return
	}
	m := &catches[i]
	m.Cells = append(m.Cells, cell.Name)
	m.Replay = cell.Replay
	if cell.Measurements.WallSeconds != nil {
		m.Seconds += *cell.Measurements.WallSeconds
	}
	for _, f := range cell.Findings {
		if f.Verdict == ringproof.Fail && !slices.Contains(m.CaughtBy, f.Check) {
			m.CaughtBy = append(m.CaughtBy, f.Check)
		}
	}
	m.unsure = m.unsure || cell.Verdict == ringproof.Inconclusive
}

func (m *catch) judge() {
	switch {
	case m.caught():
		m.Verdict = caught
	case len(m.CaughtBy) > 0:
		m.Verdict = mistaken
	case m.unsure || len(m.Cells) == 0 || len(m.jobs) > 0:
		m.Verdict = unjudged
	default:
		m.Verdict = escaped
	}
}

// gauged keeps and prints the table, and ends with its verdict.
func gauged(c *cobra.Command, f runFlags, catches []catch, report reports.Report, asJSON bool) error {
	if err := reports.Write(f.out, report); err != nil {
		return environment(err)
	}
	text, err := json.MarshalIndent(catches, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(f.out, gaugeFile), append(text, '\n'), 0o644); err != nil {
		return environment(err)
	}
	rows := rowsOf(catches, func(m catch) catch { return m })
	if err := (listed{[]string{"MUTANT", "CHECK", "CAUGHT BY", "VERDICT", "SECONDS"}, rows}).print(c, asJSON); err != nil {
		return err
	}
	return gaugeVerdict(c, catches, filepath.Join(f.out, reports.PageFile))
}

func gaugeVerdict(c *cobra.Command, catches []catch, page string) error {
	count := map[string]int{}
	for _, m := range catches {
		count[m.Verdict]++
		if m.Verdict != caught && m.Replay != "" {
			fmt.Fprintf(c.ErrOrStderr(), "%s %s; replay: %s\n", m.Mutant, m.Verdict, m.Replay)
		}
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s: %d caught, %d mistaken, %d escaped, %d inconclusive\nreport: %s\n",
		counted(len(catches), "mutant"), count[caught], count[mistaken], count[escaped], count[unjudged], page)
	switch {
	case count[mistaken]+count[escaped] > 0:
		return errVerdict{ringproof.Fail}
	case count[caught] < len(catches):
		return errVerdict{ringproof.Inconclusive}
	}
	return nil
}
