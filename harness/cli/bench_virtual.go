// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
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
	World   string  `json:"world"`
	PerWall float64 `json:"per_wall"` // seconds of its time a second, the median of the rounds
	Seconds float64 `json:"seconds"`  // of its time, in one round
}

// life is a ring that bench virtual measures.
type life struct {
	ring string
	plan ringproof.Plan
}

// lives are the rings that bench virtual measures.
func (p *program) lives(kubernetes bool) (all []life, err error) {
	lifecycle, err := p.benchPlan("lifecycle")
	if err != nil {
		return nil, err
	}
	add := func(ring, on string, change func(*ringproof.Plan)) {
		plan := calm(lifecycle)
		plan.Ring.On, plan.Ring.Security = on, "tls"
		plan.Workload.Clients, plan.Workload.Rate = 1, 1
		change(&plan)
		plan.Cell = fmt.Sprintf("bench-%d#1", len(all)+1)
		plan.Subject = p.own().Name
		all = append(all, life{ring, plan})
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
	return all, nil
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
	asJSON, kubernetes, beside, rounds := false, true, true, 3
	c := &cobra.Command{
		Use:   "virtual",
		Short: "virtual seconds a second of real etcd, on machines and on Kubernetes",
		Long: `virtual measures how many seconds of a ring's life take one second of the host's.

The rings on machines live once more in the local world beside it, where a second
takes a second, and building the network and the disks its share.`,
		Args:    none,
		PreRunE: func(c *cobra.Command, _ []string) error { return counts(c, "rounds") },
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := p.lives(kubernetes)
			if err != nil {
				return err
			}
			var real measuring
			if beside {
				real.runFlags = runFlags{program: p, world: "local", subject: f.subject}
				if real.releases, err = install(c, &real.runFlags, jobsOf("local", onMachines(all))); err != nil {
					return notInstalled(err)
				}
			}
			return enclosed(c, f, jobsOf(f.world, all), func(f runFlags, releases map[string]etcdbin.Release) error {
				figures, err := measuring{f, releases}.rounds(c, all, rounds)
				if err == nil && beside {
					var once []benched
					once, err = real.rounds(c, onMachines(all), 1)
					figures = append(figures, once...)
				}
				if err != nil {
					return environment(err)
				}
				return printBenched(c, figures, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&kubernetes, "kubernetes", true, "measure rings on Kubernetes too, whose control plane is built the first time")
	c.Flags().BoolVar(&beside, "local", true, "measure those on machines in the local world beside it, once")
	c.Flags().IntVar(&rounds, "rounds", rounds, "how often each is measured in virtual time, all in turn")
	c.Flags().StringVar(&f.out, "out", "", "")
	_ = c.Flags().MarkHidden("out")
	return c
}

// jobsOf are the lives as jobs in a world.
func jobsOf(world string, all []life) (jobs []harness.Job) {
	for _, l := range all {
		l.plan.World = world
		jobs = append(jobs, harness.Job{Plan: l.plan})
	}
	return jobs
}

func onMachines(all []life) []life {
	return slices.DeleteFunc(slices.Clone(all), func(l life) bool { return l.plan.Ring.On == ringproof.OnKubernetes })
}

// measuring is a world in which lives are measured, with what runs there.
type measuring struct {
	runFlags
	releases map[string]etcdbin.Release
}

// rounds measures each life so many times, all in turn.
func (m measuring) rounds(c *cobra.Command, all []life, rounds int) (figures []benched, err error) {
	line := newLiveLine(c.ErrOrStderr())
	defer line.end()
	rates, lasted := make([][]float64, len(all)), make([]float64, len(all))
	for n := range rounds {
		for i, l := range all {
			line.tell("%s, round %d of %d: %s", m.world, n+1, rounds, l.ring)
			rate, seconds, err := m.life(c.Context(), l.plan)
			if err != nil {
				return nil, err
			}
			rates[i], lasted[i] = append(rates[i], rate), seconds
		}
	}
	for i, l := range all {
		slices.Sort(rates[i])
		figures = append(figures, benched{l.ring, m.world, rates[i][rounds/2], lasted[i]})
	}
	return figures, nil
}

// life is how many seconds of a ring's time took one of the host's, and how many there were.
func (m measuring) life(ctx context.Context, plan ringproof.Plan) (rate, seconds float64, err error) {
	plan.World = m.world
	w, err := m.enter(plan, m.releases, nil)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	h, err := harness.Run(ctx, plan, w, harness.Options{})
	if err != nil {
		return 0, 0, err
	}
	if rate, virtual := h.Measures["virtualPerSecond"]; virtual {
		return rate, h.Measures["virtualSeconds"], nil
	}
	seconds = time.Duration(h.Events[len(h.Events)-1].At).Seconds()
	return seconds / time.Since(began).Seconds(), seconds, nil
}

func printBenched(c *cobra.Command, figures []benched, asJSON bool) error {
	if asJSON {
		return printJSON(c.OutOrStdout(), figures)
	}
	for _, of := range figures {
		fmt.Fprintf(c.OutOrStdout(), "%8.1f  %s seconds a second: %s\n", of.PerWall, of.World, of.Ring)
	}
	return nil
}
