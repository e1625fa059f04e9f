// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/harness/explore"
)

// TestSummed wants the middle of five starts, of which those that found nothing
// come last: with three of them there is no median.
func TestSummed(t *testing.T) {
	h := func(ran int, seconds float64, checks ...string) *hunt {
		return &hunt{subject: "reference", mutant: "m", seed: uint64(100 + ran), ran: ran, seconds: seconds, checks: checks}
	}
	never := h(mostRuns, 90)
	trials := []harness.Trial{harness.NewTrial("m", harness.OfMutant, "mine", nil), harness.NewTrial("m", harness.OfMutant, "mine", nil), harness.NewTrial("m", harness.OfMutant, "mine", nil)}
	for i, seeds := range []int{7, 1, 3} {
		trials[i].Seeds, trials[i].FailedBy = seeds, []string{"mine"}
	}
	hunts := []*hunt{never, h(5, 2, "watch", "mine"), h(9, 0.126, "mine"), h(2, 0.5, "mine"), never, {mutant: "other", ran: 1, checks: []string{"mine"}}}
	assert.Equal(t, harness.Cost{Name: "m", Seeds: 7, Runs: 9, Seconds: 2, FailedBy: []string{"mine", "watch"}, Seed: 105}, summed("m", trials, hunts))

	trials[0].FailedBy, hunts[1] = []string{"another"}, never
	assert.Equal(t, harness.Cost{Name: "m", FailedBy: []string{"mine"}, Seed: 109}, summed("m", trials, hunts))
}

// found is a run that checks failed.
func found(checks ...string) explore.Result {
	r := explore.Result{Outcome: explore.Outcome{WallSeconds: 1}}
	for _, name := range checks {
		r.Outcome.Findings = append(r.Outcome.Findings, ringproof.Finding{Check: name, Verdict: ringproof.Fail})
	}
	return r
}

// runs answers every job with what its plan came to, by its seed and subject.
type runs map[string]explore.Result

func (r runs) Run(_ context.Context, jobs []explore.Job) []explore.Result {
	var all []explore.Result
	for _, j := range jobs {
		all = append(all, r[fmt.Sprint(j.Plan.Subject, " ", j.Plan.Seed)])
	}
	return all
}

// TestHunt has the reference fail the third plan too: what the mutant is found by
// is the fifth, and no run after it counts.
func TestHunt(t *testing.T) {
	none := found()
	r := runs{"reference+m 10": none, "reference+m 11": none, "reference+m 12": found("watch"), "reference 12": found("watch"),
		"reference+m 13": none, "reference+m 14": found("converges", "watch"), "reference 14": none, "reference+m 15": found("available")}
	h := &hunt{subject: "reference", mutant: "m", seed: 10}
	for rounds := 0; !h.over(); rounds++ {
		require.Less(t, rounds, 2)
		jobs := h.due()
		require.Len(t, jobs, ahead)
		require.NoError(t, h.count(t.Context(), r, jobs, r.Run(t.Context(), jobs)))
	}
	assert.Equal(t, &hunt{subject: "reference", mutant: "m", seed: 14, ran: 5, seconds: 5, checks: []string{"converges", "watch"}}, h)
}

func TestNearest(t *testing.T) {
	words := []string{"volume-loss", "machine-loss", "kill"}
	for word, want := range map[string]string{"volume-los": "volume-loss", "Kill": "kill", "kil": "kill", "xyzzy": ""} {
		got, ok := nearest(word, words)
		assert.Equal(t, want, got)
		assert.Equal(t, want != "", ok)
	}
}
