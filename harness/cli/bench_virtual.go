// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/internal/etcdbin"
)

// benched is a figure of bench virtual.
type benched struct {
	Ring    string  `json:"ring"`
	PerWall float64 `json:"per_wall"` // seconds of its time a second, the median of the rounds
	Seconds float64 `json:"seconds"`  // of its time, in one round
}

// lives are the rings that bench virtual measures.
func (p *program) lives(kubernetes bool) (names []string, plans []ringproof.Plan, err error) {
	lifecycle, err := p.benchPlan("lifecycle")
	if err != nil {
		return nil, nil, err
	}
	add := func(name, on string, change func(*ringproof.Plan)) {
		plan := calm(lifecycle)
		plan.Ring.On, plan.Ring.Security = on, "tls"
		plan.Workload.Clients, plan.Workload.Rate = 1, 1
		change(&plan)
		plan.Cell = fmt.Sprintf("bench-%d#1", len(plans)+1)
		names, plans = append(names, name), append(plans, plan)
	}
	atRest := func(*ringproof.Plan) {}
	loaded := func(p *ringproof.Plan) { p.Workload.Clients, p.Workload.Rate = 5, 50 }
	add("3 members, their agents, at rest", "", atRest)
	add("the same, 50 op/s", "", loaded)
	if kubernetes {
		add("3 members in pods, their controller, at rest", ringproof.OnKubernetes, atRest)
		add("the same, 50 op/s", ringproof.OnKubernetes, loaded)
		add("the same, and a pod deleted every 10 s", ringproof.OnKubernetes, func(p *ringproof.Plan) {
			loaded(p)
			p.Steps = deletions()
		})
	}
	return names, plans, nil
}

// deletions are of a pod every ten seconds.
func deletions() (steps []ringproof.Step) {
	for i := range hits {
		steps = append(steps, ringproof.Step{Name: fmt.Sprintf("delete-%d", i+1), Fault: &ringproof.Fault{Kind: ringproof.FaultKubeDelete, Target: "follower", Object: ringproof.ObjectPod},
			After: &ringproof.Trigger{Event: ringproof.EventStepBegun, Delay: ringproof.Duration(apart), Timeout: ringproof.Duration(time.Millisecond)}})
	}
	steps[0].After = nil
	return steps
}

// benchVirtualCommand measures the virtual world.
func (p *program) benchVirtualCommand() *cobra.Command {
	f := runFlags{program: p, world: "virtual", subject: p.own().Name}
	asJSON, kubernetes, rounds := false, true, 3
	c := &cobra.Command{
		Use:     "virtual",
		Short:   "virtual seconds a second of real etcd, on machines and on Kubernetes",
		Args:    none,
		PreRunE: func(c *cobra.Command, _ []string) error { return counts(c, "rounds") },
		RunE: func(c *cobra.Command, _ []string) error {
			names, plans, err := p.lives(kubernetes)
			if err != nil {
				return err
			}
			var jobs []harness.Job
			for _, plan := range plans {
				plan.World, plan.Subject = f.world, f.subject
				jobs = append(jobs, harness.Job{Plan: plan})
			}
			return enclosed(c, f, jobs, func(f runFlags, releases map[string]etcdbin.Release) error {
				return f.benchVirtual(c, names, jobs, releases, rounds, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&kubernetes, "kubernetes", true, "measure rings on Kubernetes too, whose control plane is built the first time")
	c.Flags().IntVar(&rounds, "rounds", rounds, "how often each is measured, all in turn")
	c.Flags().StringVar(&f.out, "out", "", "")
	_ = c.Flags().MarkHidden("out")
	return c
}

func (f runFlags) benchVirtual(c *cobra.Command, names []string, jobs []harness.Job, releases map[string]etcdbin.Release, rounds int, asJSON bool) error {
	line := newLiveLine(c.ErrOrStderr())
	measured, lasted := make([][]float64, len(jobs)), make([]float64, len(jobs))
	for n := range rounds {
		for i, j := range jobs {
			line.tell("round %d of %d: %s", n+1, rounds, names[i])
			w, err := f.enter(j.Plan, releases, nil)
			if err != nil {
				return environment(err)
			}
			h, err := harness.Run(c.Context(), j.Plan, w, harness.Options{})
			if err != nil {
				return environment(err)
			}
			measured[i] = append(measured[i], h.Measures["virtualPerSecond"])
			lasted[i] = h.Measures["virtualSeconds"]
		}
	}
	line.end()
	var all []benched
	for i, name := range names {
		slices.Sort(measured[i])
		all = append(all, benched{name, measured[i][len(measured[i])/2], lasted[i]})
	}
	if asJSON {
		encoder := json.NewEncoder(c.OutOrStdout())
		encoder.SetIndent("", "  ")
		return encoder.Encode(all)
	}
	for _, of := range all {
		fmt.Fprintf(c.OutOrStdout(), "%8.1f  virtual seconds a second: %s\n", of.PerWall, of.Ring)
	}
	return nil
}
