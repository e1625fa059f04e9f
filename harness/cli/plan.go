// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/scenarios"
)

func (p *program) planCommand() *cobra.Command {
	f := runFlags{program: p}
	var asJSON bool
	c := &cobra.Command{
		Use:   "plan [SCENARIO.yaml|DIR...]",
		Short: "show what run would do, cell by cell; without arguments the shipped scenarios",
		Example: `  ringproof plan --run leader-killed
  ringproof plan my-scenario.yaml --json`,
		PreRunE: func(c *cobra.Command, _ []string) error { return counts(c, "jobs", "seeds") },
		RunE: func(c *cobra.Command, args []string) error {
			cells, err := planned(c, f, args)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), cells)
			}
			return cells.print(c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&f.world, "world", p.Worlds[0].Name, "the world to plan for: "+choices(p.Worlds))
	c.Flags().StringVar(&f.subject, "subject", p.own().Name, "what is on trial: "+p.subjects())
	c.Flags().StringArrayVar(&f.cells, "run", nil, "only cells of this name: scenario, scenario[k=v] or scenario[k=v]#seed; repeatable")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the first run of each cell")
	c.Flags().Uint64Var(&f.seeds, "seeds", 1, "how many seeds for each cell")
	c.Flags().IntVar(&f.jobs, "jobs", abreast(), "cells at once, for the estimated time in the local world")
	c.Flags().BoolVar(&asJSON, "json", false, "print the plans as JSON")
	return c
}

// plans is what run would do.
type plans struct {
	Cells []planCell `json:"cells"`
	Jobs  int        `json:"jobs"`
	// EstimateSeconds is for all cells, so many at once as Jobs says; in the
	// simulated world it is virtual time, one cell after another.
	EstimateSeconds float64 `json:"estimateSeconds"`
}

// planCell is one cell of it.
type planCell struct {
	Cell            string         `json:"cell"`
	World           string         `json:"world"`
	Etcd            string         `json:"etcd"`
	Steps           []string       `json:"steps"` // in sentences
	FaultsPerOp     float64        `json:"faultsPerOp"`
	EstimateSeconds float64        `json:"estimateSeconds"`
	NotApplicable   string         `json:"notApplicable,omitempty"`
	Skipped         string         `json:"skipped,omitempty"` // this host can't run it
	Plan            ringproof.Plan `json:"plan"`              // as replay takes it

	virtual bool // the time that it takes
}

func planned(c *cobra.Command, f runFlags, args []string) (plans, error) {
	jobs, err := f.chosen(c, args)
	if err != nil {
		return plans{}, err
	}
	all := plans{Cells: []planCell{}, Jobs: max(f.jobs, 1)}
	if f.in().Simulated {
		all.Jobs = 1
	}
	for _, job := range jobs {
		cell := newPlanCell(job)
		cell.virtual = f.in().Simulated
		all.Cells = append(all.Cells, cell)
		all.EstimateSeconds += cell.EstimateSeconds / float64(all.Jobs)
	}
	return all, nil
}

func newPlanCell(job harness.Job) planCell {
	p := job.Plan
	cell := planCell{Cell: p.Cell, World: p.World, Etcd: p.Ring.Version, Steps: []string{}, NotApplicable: job.NotApplicable, Skipped: job.Lacking,
		FaultsPerOp: scenarios.FaultsPerOp(p), Plan: p}
	for _, s := range p.Steps {
		cell.Steps = append(cell.Steps, s.Name+": "+faults.Sentence(s))
	}
	if p.End != nil {
		cell.Steps = append(cell.Steps, "end: "+faults.SentenceOfEnd(*p.End))
	}
	if job.NotApplicable+job.Lacking == "" {
		cell.EstimateSeconds = scenarios.Estimate(p).Seconds()
	}
	return cell
}

func (all plans) print(w io.Writer) error {
	for _, cell := range all.Cells {
		cell.print(w)
	}
	time := about(all.EstimateSeconds)
	if len(all.Cells) > 0 && all.Cells[0].virtual {
		time += ofVirtualTime
	} else {
		time += fmt.Sprintf(" with %d at once", all.Jobs)
	}
	_, err := fmt.Fprintf(w, "%s, about %s\n", ringproof.Counted(len(all.Cells), "cell"), time)
	return err
}

func (cell planCell) print(w io.Writer) {
	r, load := cell.Plan.Ring, cell.Plan.Workload
	fmt.Fprintln(w, cell.Cell)
	fmt.Fprintf(w, "  %s of etcd %s on %s, %s", ringproof.Counted(r.Size, "voter"), r.Version, ringproof.Counted(r.Machines, "machine"), r.Security)
	if load.Clients > 0 {
		fmt.Fprintf(w, "; %s, %s, %g operations a second", load.Profile, ringproof.Counted(load.Clients, "client"), load.Rate)
	}
	fmt.Fprintln(w)
	for i, step := range cell.Steps {
		fmt.Fprintf(w, "  %d. %s\n", i+1, step)
	}
	if cell.NotApplicable != "" {
		fmt.Fprintf(w, "  not applicable: %s\n\n", cell.NotApplicable)
		return
	}
	if cell.Skipped != "" {
		fmt.Fprintf(w, "  skipped: %s\n\n", cell.Skipped)
		return
	}
	time := about(cell.EstimateSeconds)
	if cell.virtual {
		time += ofVirtualTime
	}
	fmt.Fprintf(w, "  %.1f faults an operation, about %s\n\n", cell.FaultsPerOp, time)
}

// ofVirtualTime is what simulated time costs nobody.
const ofVirtualTime = " of virtual time"

func about(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d > 10*time.Minute {
		return fmt.Sprintf("%.0f minutes", d.Minutes())
	}
	return d.Round(time.Second).String()
}
