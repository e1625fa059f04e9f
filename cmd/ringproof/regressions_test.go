// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"bytes"
	"context"
	"flag"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness/explore"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/scenarios"
)

// simulatedOutcome runs a plan.
func simulatedOutcome(t *testing.T, p ringproof.Plan) explore.Outcome {
	t.Helper()
	o, err := registry.Simulate(context.Background(), p, explore.Options{})
	require.NoError(t, err)
	return o
}

// Every bug that was ever found stays here.
func TestRegressions(t *testing.T) {
	all, err := scenarios.Regressions()
	require.NoError(t, err)
	for _, r := range all {
		t.Run(r.Name, func(t *testing.T) {
			o := simulatedOutcome(t, r.Plan)
			assert.Equal(t, r.Plan.Expect.Verdict, o.Verdict.String(), "%v", o.Findings)
			if check := r.Plan.Expect.Check; check != "" {
				_, err := o.KeyOf(check)
				assert.NoError(t, err)
			}
		})
	}
}

// Drawn plans are fair, so whatever fails one is a bug: of the reference, of
// the model, or of the plan's drawing. The smallest is printed as YAML; put it
// in scenarios/regressions once it is understood.
func TestTheReferenceSurvivesDrawnPlans(t *testing.T) {
	simulatedOutcome(t, explore.Genome{Seed: 1}.Plan(1))
	// The same plans in every run: to look for more is what explore is for.
	require.NoError(t, flag.Set("rapid.checks", "30"))
	require.NoError(t, flag.Set("rapid.seed", "1"))
	rapid.Check(t, func(t *rapid.T) {
		p := explore.Drawn(func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(t, label) })
		p.Subject = subject.Reference
		o, err := registry.Simulate(context.Background(), p, explore.Options{})
		require.NoError(t, err)
		if key, err := o.KeyOf(""); err == nil {
			p.Expect = explore.Expected(o, key)
			var text bytes.Buffer
			require.NoError(t, scenarios.WritePlan(&text, p))
			t.Fatalf("%s: %v\n%s", key, o.Findings, &text)
		}
	})
}
