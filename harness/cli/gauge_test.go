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
	trials := []harness.GaugeTrial{harness.NewGaugeTrial("m", harness.OfMutant, "mine", nil), harness.NewGaugeTrial("m", harness.OfMutant, "mine", nil), harness.NewGaugeTrial("m", harness.OfMutant, "mine", nil)}
	for i, seeds := range []int{7, 1, 3} {
		trials[i].Seeds, trials[i].CaughtBy = seeds, []string{"mine"}
	}
	hunts := []*hunt{never, h(5, 2, "watch", "mine"), h(9, 0.126, "mine"), h(2, 0.5, "mine"), never, {mutant: "other", ran: 1, checks: []string{"mine"}}}
	assert.Equal(t, harness.Cost{Name: "m", Seeds: 7, Runs: 9, Seconds: 2, FailedBy: []string{"mine", "watch"}, Seed: 105}, summed("m", trials, hunts))

	trials[0].CaughtBy, hunts[1] = []string{"another"}, never
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

func TestSentences(t *testing.T) {
	none := 0
	for want, step := range map[string]ringproof.Step{
		"cut the power of all, for 2s, ended one by one, 3s apart": {Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Target: "all", Scope: "machine", For: ringproof.Duration(2e9), Stagger: ringproof.Duration(3e9)}},
		"kill etcd on leader":                                                           {Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Target: "leader", Scope: "process"}},
		"fail every store call of all, for 8s":                                          {Fault: &ringproof.Fault{Kind: ringproof.FaultStoreOutage, For: ringproof.Duration(8e9)}},
		"keep the others from hearing leader":                                           {Fault: &ringproof.Fault{Kind: ringproof.FaultPartition, Target: "leader", Shape: "one-way"}},
		"crash the agent before promote number 2, started again after 5s":               {Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Action: "promote", Phase: "before", Nth: 2, For: ringproof.Duration(5e9)}},
		"lose the reply of promote to the agent":                                        {Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Action: "promote", Phase: "reply-lost", For: ringproof.Duration(5e9)}},
		"refuse the agent on m1 etcd put":                                               {Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Effect: "etcd put", Phase: "refused", Target: "m1"}},
		"show the agent a view 1 decision old at decision 3 about the ring":             {Fault: &ringproof.Fault{Kind: ringproof.FaultStaleView, Nth: 3}},
		"show the agent on m2 a view 4 decisions old at decisions 1 to 2 about a start": {Fault: &ringproof.Fault{Kind: ringproof.FaultStaleView, Target: "m2", Decision: "boot", Back: 4, Count: 2}},
		"keep the agent from decisions 2 to 4 about the ring":                           {Fault: &ringproof.Fault{Kind: ringproof.FaultSkippedView, Decision: "next", Nth: 2, Count: 3}},
		"lose 30 of 100 replies to all, for 5s":                                         {Fault: &ringproof.Fault{Kind: ringproof.FaultReplyLoss, Percent: 30, For: ringproof.Duration(5e9)}},
		"delay every packet from and to leader by 200ms":                                {Fault: &ringproof.Fault{Kind: ringproof.FaultSlowNetwork, Target: "leader", By: ringproof.Duration(2e8)}},
		"set the clock of follower 5m ahead":                                            {Fault: &ringproof.Fault{Kind: ringproof.FaultClockSkew, Target: "follower", By: ringproof.Duration(300e9)}},
		"set the clock of follower 5m back":                                             {Fault: &ringproof.Fault{Kind: ringproof.FaultClockSkew, Target: "follower", By: ringproof.Duration(-300e9)}},
		"let 400d pass by all clocks, for 40s":                                          {Fault: &ringproof.Fault{Kind: ringproof.FaultTimePasses, By: ringproof.Duration(400 * 24 * 3600e9), For: ringproof.Duration(40e9)}},
		"swap the disks of m1,m2":                                                       {Fault: &ringproof.Fault{Kind: ringproof.FaultDiskSwap, Target: "m1,m2"}},
		"lose the disk of leader, for good, off for 20s first":                          {Fault: &ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "leader", For: ringproof.Duration(20e9)}},
		"1s after a member stopped answering (step dark), ask for 4 voters, which must be refused": {
			After: &ringproof.Trigger{Event: ringproof.EventMemberDown, Step: "dark", Delay: ringproof.Duration(1e9)}, Op: &ringproof.Op{Kind: ringproof.OpScale, To: 4, Refused: true}},
		"at the end of grow and crash, expect within 1m 1 voter, 0 learners, equal data everywhere": {
			Join: []string{"grow", "crash"}, Assert: &ringproof.Assert{Within: ringproof.Duration(60e9), Voters: 1, Learners: &none, HashKV: "equal"}},
	} {
		assert.Equal(t, want, sentence(step))
	}
}
