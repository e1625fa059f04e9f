// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package tiny_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/harness/explore"
	"github.com/ringproof/ringproof/scenarios"
	"github.com/ringproof/ringproof/sim"

	"example.com/tiny"
)

// here runs plans one after another in this process.
type here struct{ runs int }

var _ explore.Runner = (*here)(nil)

func (r *here) Run(ctx context.Context, jobs []explore.Job) (results []explore.Result) {
	for _, job := range jobs {
		r.runs++
		w := sim.New(job.Plan.Seed, &tiny.Launcher{})
		h, err := harness.Run(ctx, job.Plan, w, harness.Options{})
		o := explore.Outcome{Hash: w.Trace.Hash, Events: w.Trace.Events}
		if err == nil {
			o.Findings = checks.Judge(&h)
			for _, f := range o.Findings {
				o.Verdict = ringproof.Merge(o.Verdict, f.Verdict)
			}
		}
		results = append(results, explore.Result{Outcome: o, Err: err})
	}
	return results
}

// drawn is the plan of a seed: two to five faults that the launcher is meant
// to survive, some of them while the one before lasts.
func drawn(seed uint64) ringproof.Plan {
	g := explore.Genome{Seed: seed}
	one := func(label string, words ...string) string { return words[g.Draw(label, len(words))] }
	p := plan()
	p.Seed, p.Cell = seed, fmt.Sprintf("tiny#%d", seed)
	for i := range 2 + g.Draw("count", 4) {
		label := func(what string) string { return fmt.Sprintf("fault/%d/%s", i, what) }
		f := &ringproof.Fault{Kind: ringproof.FaultKill, Target: one(label("target"), "leader", "follower", "m1", "m2", "m3")}
		f.Scope = one(label("scope"), "process", "agent", "machine")
		if f.Scope == "machine" {
			f.For = ringproof.Duration(time.Duration(1+g.Draw(label("for"), 8)) * time.Second)
		}
		if g.Draw(label("kind"), 12) == 0 {
			f = &ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: f.Target, Leave: one(label("leave"), "nothing", "directories")}
		}
		s := ringproof.Step{Name: fmt.Sprintf("fault-%d", i+1), Fault: f, Detach: g.Draw(label("detach"), 2) == 0}
		if i > 0 {
			s.After = &ringproof.Trigger{Event: ringproof.EventStepBegun, Delay: ringproof.Duration(g.Draw(label("delay"), 5)) * ringproof.Duration(time.Second)}
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

// TestExplored finds the launcher's bug as one would who doesn't know of it:
// plans are drawn until one fails, and that one is made small.
func TestExplored(t *testing.T) {
	runner := &here{}
	for seed := uint64(1); seed <= 50; seed++ {
		p := drawn(seed)
		result := runner.Run(t.Context(), []explore.Job{{Plan: p}})[0]
		require.NoError(t, result.Err)
		key, err := result.Outcome.KeyOf("no-identity-reuse")
		if err != nil {
			require.False(t, loses(p), "seed %d loses a volume, and %v", seed, err)
			continue
		}
		small, err := explore.Shrinker{Runner: runner, Runs: 100}.Shrink(t.Context(), p, key)
		require.NoError(t, err)
		var text bytes.Buffer
		require.NoError(t, scenarios.WritePlan(&text, small.Plan))
		t.Logf("found in run %d, with %d faults; shrunk in %d runs and %.1f s to\n%s", seed, len(p.Steps), small.Runs, small.Seconds, &text)
		assert.True(t, small.Minimal)
		require.Equal(t, 1, small.Faults, "the lost volume is enough")
		assert.Equal(t, ringproof.FaultVolumeLoss, small.Plan.Steps[0].Fault.Kind)
		assert.Equal(t, "no-identity-reuse", small.Plan.Expect.Check)

		again := runner.Run(t.Context(), []explore.Job{{Plan: small.Plan}})[0]
		assert.Equal(t, small.Plan.Expect.Hash, explore.HexHash(again.Outcome.Hash), "the saved plan is the same run")
		return
	}
	t.Fatal("no plan found the bug")
}

func loses(p ringproof.Plan) bool {
	for _, s := range p.Steps {
		if s.Fault.Kind == ringproof.FaultVolumeLoss {
			return true
		}
	}
	return false
}
