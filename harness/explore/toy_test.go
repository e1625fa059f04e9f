// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// toy stands for the simulated world: a function of the plan alone. Its bug
// needs a lost volume and, in the same plan, a partition of two seconds or more.
func toy(_ context.Context, p ringproof.Plan, o Options) (Outcome, error) {
	switch p.Scenario {
	case "dies":
		panic("toy: the model is out of order")
	case "hangs":
		select {}
	case "refuses":
		return Outcome{}, fmt.Errorf("no such world: %w", errors.ErrUnsupported)
	case "breaks":
		return Outcome{}, errors.New("a task panicked\nits stack")
	}
	sum := digest(p)
	outcome := Outcome{Verdict: ringproof.Pass, Events: 3000, SimSeconds: 10, WallSeconds: 0.01, Tuples: toyTuples(p)}
	for _, b := range sum[:8] {
		outcome.Hash = outcome.Hash<<8 | uint64(b)
	}
	outcome.Marks = []uint64{1, 2}
	if o.TraceTo > 0 {
		outcome.TraceLines = []string{"a", "b", "c"}
	}
	if has(p, ringproof.FaultVolumeLoss, 0) && has(p, ringproof.FaultPartition, 2*second) {
		outcome.Verdict = ringproof.Fail
		outcome.Findings = append(outcome.Findings, ringproof.Finding{Check: "quorum-margin", Verdict: ringproof.Fail,
			Message: fmt.Sprintf("expected remove of %x to leave a margin of at least 0, saw -1: too few", outcome.Hash)})
	}
	if has(p, ringproof.FaultAgentCrash, 0) && p.Mode == ringproof.ModeSafe && p.Ring.Size == 5 {
		outcome.Verdict = ringproof.Merge(outcome.Verdict, ringproof.Inconclusive)
		outcome.Findings = append(outcome.Findings, ringproof.Finding{Check: "linearizable", Message: "out of time"})
	}
	return outcome, nil
}

func has(p ringproof.Plan, kind ringproof.FaultKind, least ringproof.Duration) bool {
	return p.Mode == ringproof.ModeSafe && slices.ContainsFunc(p.Steps, func(s ringproof.Step) bool {
		return s.Fault != nil && s.Fault.Kind == kind && s.Fault.For >= least
	})
}

func toyTuples(p ringproof.Plan) []string {
	var all []string
	last := ""
	for _, s := range p.Steps {
		what := ""
		switch {
		case s.Fault != nil:
			what = string(s.Fault.Kind)
		case s.Op != nil:
			what = string(s.Op.Kind)
		}
		all, last = append(all, last+" "+what), what
	}
	return all
}

// abreast runs plans in this process, so many at once, and takes a different
// time for each.
type abreast struct {
	simulate Simulate
	jobs     int
	ran      atomic.Int64
}

func (a *abreast) Run(ctx context.Context, jobs []Job) []Result {
	results := make([]Result, len(jobs))
	free := make(chan struct{}, a.jobs)
	var all sync.WaitGroup
	for i, job := range jobs {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			if results[i].Err = ctx.Err(); results[i].Err != nil {
				return
			}
			a.ran.Add(1)
			if a.jobs > 1 {
				time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
			}
			results[i].Outcome, results[i].Err = a.simulate(ctx, job.Plan, job.Options)
		})
	}
	all.Wait()
	return results
}

const (
	beWorker = "RINGPROOF_EXPLORE_WORKER" // the test binary is a worker
	bePrint  = "RINGPROOF_EXPLORE_PRINT"  // the test binary prints what it draws
)

func TestMain(m *testing.M) {
	if os.Getenv(beWorker) != "" {
		if err := Serve(context.Background(), os.Stdin, os.Stdout, toy); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(bePrint) != "" {
		fmt.Print(drawn())
		return
	}
	os.Exit(m.Run())
}

// again is this test binary as another process.
func again(t *testing.T, as string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), as+"=1")
	return cmd
}

// drawn is a digest of what seeds draw, mutants included.
func drawn() string {
	var b strings.Builder
	for seed := range uint64(200) {
		g := Genome{Seed: seed}
		child := g.Mutant(seed+1000, Genome{Seed: seed + 1})
		fmt.Fprintf(&b, "%x %x\n", digest(g.Plan(seed)), digest(child.Plan(seed)))
	}
	return b.String()
}
