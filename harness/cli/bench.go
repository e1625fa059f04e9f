// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/harness/explore"
	"github.com/ringproof/ringproof/scenarios"
	"github.com/ringproof/ringproof/sim"
)

// speeds are the figures of bench sim, each the median of its rounds.
type speeds struct {
	SimulatedPerWall       float64 `json:"simulated_per_wall"`        // seconds a second: 3 members, their agents, 50 op/s
	SimulatedPerWallFaulty float64 `json:"simulated_per_wall_faulty"` // 5 members, faults one after another
	RaftAlonePerWall       float64 `json:"raft_alone_per_wall"`       // of the first, with raft and nothing else
	PlanSeconds            float64 `json:"plan_seconds"`              // wall time of the lifecycle, judged
	PeakMB                 float64 `json:"peak_mb"`                   // of this process
}

func (p *program) benchCommand() *cobra.Command {
	bench := &cobra.Command{Use: "bench", Short: "measure ringproof itself"}
	asJSON, profile, rounds := false, "", 20
	simulation := &cobra.Command{
		Use:     "sim",
		Short:   "simulated seconds a second, on one core, and the cost of one plan",
		Args:    none,
		PreRunE: func(c *cobra.Command, _ []string) error { return counts(c, "rounds") },
		RunE: func(c *cobra.Command, _ []string) error {
			return profiled(profile, func() error { return p.benchSim(c, rounds, asJSON) })
		},
	}
	simulation.Flags().IntVar(&rounds, "rounds", rounds, "how often each is measured, all in turn")
	simulation.Flags().StringVar(&profile, "profile", "", "write where the time goes to `FILE`, for go tool pprof")
	simulation.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	bench.AddCommand(simulation, p.benchVirtualCommand())
	return bench
}

// profiled runs f, and writes its CPU profile to a file that has a name.
func profiled(name string, f func() error) error {
	if name == "" {
		return f()
	}
	out, err := os.Create(name)
	if err != nil {
		return environment(err)
	}
	err = pprof.StartCPUProfile(out)
	if err == nil {
		err = f()
		pprof.StopCPUProfile()
	}
	return errors.Join(err, out.Close())
}

// Both rings live for two minutes of their time, as long as a long plan, and the
// faulty one is hit every ten seconds.
const (
	calmFor = 2 * time.Minute
	hits    = 12
	apart   = 10 * time.Second
)

// course is what is measured: the same work in every round, and the collection of what a
// round leaves behind.
type course struct {
	run       func(context.Context) (simulated float64, err error)
	simulated float64
	took      []time.Duration // of each round
}

// measure is one round.
func (c *course) measure(ctx context.Context) error {
	began := time.Now()
	simulated, err := c.run(ctx)
	if err != nil {
		return err
	}
	runtime.GC()
	c.took = append(c.took, time.Since(began))
	if len(c.took) > 1 && simulated != c.simulated {
		return fmt.Errorf("a run of %v s of its time had %v when it was run again: it is not the same work; explore --verify-determinism shows where two runs part", c.simulated, simulated)
	}
	c.simulated = simulated
	return nil
}

// median is the time of a round.
func (c *course) median() time.Duration {
	sorted := slices.Sorted(slices.Values(c.took))
	return sorted[len(sorted)/2]
}

// perWall is seconds of its time a second.
func (c *course) perWall() float64 { return c.simulated / c.median().Seconds() }

// courses are what bench sim measures.
type courses struct{ ring, faulty, plan, alone course }

func (r Registry) coursesOf(lifecycle ringproof.Plan) courses {
	judged := func(ctx context.Context) (float64, error) {
		out, err := r.Simulate(ctx, lifecycle, explore.Options{})
		return out.SimSeconds, err
	}
	return courses{ring: course{run: r.living(calm(lifecycle))}, faulty: course{run: r.living(battered(lifecycle))},
		plan: course{run: judged}, alone: course{run: raftAlone}}
}

// measure measures all in turn, so that a slow while hits none of them alone.
func (c *courses) measure(ctx context.Context, rounds int, line *liveLine) error {
	for n := range rounds {
		for _, course := range []*course{&c.ring, &c.faulty, &c.plan, &c.alone} {
			if err := course.measure(ctx); err != nil {
				return err
			}
		}
		line.tell("round %d of %d: %.0f simulated seconds a second", n+1, rounds, c.ring.perWall())
	}
	return nil
}

func (r Registry) benchSim(c *cobra.Command, rounds int, asJSON bool) error {
	lifecycle, err := r.benchPlan("lifecycle")
	if err != nil {
		return err
	}
	if err := oneCore(); err != nil {
		fmt.Fprintln(c.ErrOrStderr(), "measuring on more than one core:", err)
	}
	measured, line := r.coursesOf(lifecycle), newLiveLine(c.ErrOrStderr())
	err = measured.measure(c.Context(), rounds, line)
	line.end()
	if err != nil {
		return environment(err)
	}
	return measured.speeds().print(c.OutOrStdout(), asJSON)
}

func (c *courses) speeds() speeds {
	return speeds{
		SimulatedPerWall: c.ring.perWall(), SimulatedPerWallFaulty: c.faulty.perWall(), RaftAlonePerWall: c.alone.perWall(),
		PlanSeconds: c.plan.median().Seconds(), PeakMB: peakMB(),
	}
}

// living carries out a plan.
func (r Registry) living(p ringproof.Plan) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		t, err := r.trial(p)
		if err != nil {
			return 0, err
		}
		w, err := t.simulated(sim.Options{})
		if err != nil {
			return 0, err
		}
		_, err = harness.Run(ctx, p, w, harness.Options{})
		return w.Now().Seconds(), err
	}
}

func (r Registry) benchPlan(name string) (ringproof.Plan, error) {
	shipped, err := scenarios.Shipped()
	if err != nil {
		return ringproof.Plan{}, err
	}
	for _, s := range shipped {
		if s.Name == name {
			plan, found := s.Resolve(s.Cells(1)[0], r.own().Name, place{World: Sim()})
			if found.Failed() {
				return plan, fmt.Errorf("%s", found)
			}
			// Idle minutes are faster than any others: they would hide the rest.
			for i, v := range plan.Invariants {
				if v.Check == "quiescent" {
					plan.Invariants[i].Params = nil
				}
			}
			return plan, nil
		}
	}
	return ringproof.Plan{}, fmt.Errorf("no scenario %s is shipped", name)
}

// calm is a ring of three to which nothing happens.
func calm(p ringproof.Plan) ringproof.Plan {
	p.Ring.Size, p.Ring.Machines = 3, 3
	p.Steps = []ringproof.Step{{Name: "live", After: &ringproof.Trigger{Event: ringproof.EventHealPhase, Timeout: ringproof.Duration(calmFor)},
		Assert: &ringproof.Assert{Voters: 3}}}
	return p
}

// battered is a ring of five that is hit again and again.
func battered(p ringproof.Plan) ringproof.Plan {
	p.Ring.Size, p.Ring.Machines = 5, 5
	p.Steps = nil
	kinds := []ringproof.Fault{
		{Kind: ringproof.FaultKill, Target: "leader", Scope: "process"},
		{Kind: ringproof.FaultPartition, Target: "follower", Shape: "split"},
		{Kind: ringproof.FaultPause, Target: "leader", Scope: "machine", For: ringproof.Duration(3 * time.Second)},
		{Kind: ringproof.FaultKill, Target: "follower", Scope: "machine"},
	}
	for i := range hits {
		fault := kinds[i%len(kinds)]
		fault.For = ringproof.Duration(5 * time.Second)
		p.Steps = append(p.Steps, ringproof.Step{Name: "fault-" + strconv.Itoa(i+1), Fault: &fault,
			After: &ringproof.Trigger{Event: ringproof.EventStepBegun, Delay: ringproof.Duration(apart), Timeout: ringproof.Duration(time.Millisecond)}})
	}
	p.Steps[0].After = nil
	return p
}

// peakMB is the most memory that this process ever held, by the kernel's count.
func peakMB() float64 {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024
		}
	}
	return 0
}

func (s speeds) print(w io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(s)
	}
	_, err := fmt.Fprintf(w, `%8.0f  simulated seconds a second: 3 members, their agents, 50 op/s
%8.0f  simulated seconds a second: 5 members, a fault every 10 s, 50 op/s
%8.0f  simulated seconds a second: etcd's raft alone, with the messages of the first
%8.2f  seconds for one plan of a full lifecycle, judged
%8.0f  MB at most
`, s.SimulatedPerWall, s.SimulatedPerWallFaulty, s.RaftAlonePerWall, s.PlanSeconds, s.PeakMB)
	return err
}
