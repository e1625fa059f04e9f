// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package tiny_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/sim"

	"example.com/tiny"
)

func plan(steps ...ringproof.Step) ringproof.Plan {
	return ringproof.Plan{Cell: "tiny#1", Scenario: "tiny", Seed: 1, Subject: "tiny", World: "sim",
		Ring:       ringproof.RingSpec{Size: 3, Machines: 3, Version: "v3.6.16", Security: "plain"},
		Workload:   ringproof.Workload{Profile: "kv-txn-watch", Clients: 5, Keys: 8, Rate: 50},
		Invariants: []ringproof.Invariant{{Check: "linearizable"}, {Check: "no-identity-reuse"}, {Check: "converges"}}, Steps: steps}
}

// judge runs the plan, and returns the checks that failed it.
func judge(t *testing.T, p ringproof.Plan) (failed []string, trace sim.Trace) {
	w := sim.New(p.Seed, &tiny.Launcher{})
	h, err := harness.Run(t.Context(), p, w, harness.Options{OnEvent: func(e ringproof.Event) { t.Log(e) }})
	require.NoError(t, err)
	for _, f := range checks.Judge(&h) {
		if f.Verdict == ringproof.Fail {
			failed = append(failed, f.Check+": "+f.Message)
		}
	}
	t.Logf("trace %s, %d operations", h.Trace, len(h.Operations))
	return failed, w.Trace
}

func TestCalm(t *testing.T) {
	failed, trace := judge(t, plan())
	require.Empty(t, failed)
	_, again := judge(t, plan())
	require.Equal(t, trace, again)
}

func TestVolumeLost(t *testing.T) {
	failed, _ := judge(t, plan(ringproof.Step{Name: "lose", Fault: &ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "follower"}}))
	require.NotEmpty(t, failed)
	require.Contains(t, failed[0], "no-identity-reuse")
}

func BenchmarkCalm(b *testing.B) {
	p := plan(ringproof.Step{Name: "live", After: &ringproof.Trigger{Event: ringproof.EventHealPhase, Timeout: ringproof.Duration(10 * time.Minute)}, Assert: &ringproof.Assert{Voters: 3}})
	for b.Loop() {
		w := sim.New(p.Seed, &tiny.Launcher{})
		_, err := harness.Run(b.Context(), p, w, harness.Options{})
		require.NoError(b, err)
		b.ReportMetric(w.Now().Seconds(), "simulated-s/op")
		b.ReportMetric(float64(w.Trace.Events), "events/op")
	}
}
