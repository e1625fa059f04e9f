// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/scenarios"
)

func TestRegressionsAreWhole(t *testing.T) {
	all, err := scenarios.Regressions()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, r := range all {
		assert.NotEmpty(t, r.Plan.Hypothesis, "%s doesn't say what it claims", r.Name)
		assert.Equal(t, "sim", r.Plan.World, r.Name)
		assert.NotEmpty(t, r.Plan.Invariants, "%s would be judged by whatever checks there are", r.Name)
	}
}

// A plan without what was expected of it is a plan all the same: those that a
// run wrote have none.
func TestExpectIsReadBack(t *testing.T) {
	all, err := scenarios.Regressions()
	require.NoError(t, err)
	p := all[0].Plan
	p.Expect = &ringproof.Expect{Verdict: "fail", Check: "converges", Hash: "00ff"}
	var text bytes.Buffer
	require.NoError(t, scenarios.WritePlan(&text, p))
	back, found := scenarios.ReadPlan("plan.yaml", text.Bytes())
	require.False(t, found.Failed(), "%s", found)
	assert.Equal(t, p.Expect, back.Expect)
	p.Expect = nil
	text.Reset()
	require.NoError(t, scenarios.WritePlan(&text, p))
	assert.NotContains(t, text.String(), "expect")
}
