// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness/explore"
)

// TestTracedKeepsWhatIsAskedFor: the lines of a range, and marks by which two runs are
// seen to part.
func TestTracedKeepsWhatIsAskedFor(t *testing.T) {
	run := func(other int) traced {
		kept := traced{o: explore.Options{TraceFrom: 3, TraceTo: 5}}
		for i := 1; i <= 3*explore.MarkEvery; i++ {
			line := fmt.Sprintf("line %d", i)
			if i == other {
				line = "another"
			}
			kept.add(line)
		}
		return kept
	}
	one, same, parts := run(0), run(0), run(explore.MarkEvery+7)
	assert.Equal(t, []string{"line 3", "line 4"}, one.kept)
	assert.Equal(t, 3*explore.MarkEvery, one.lines)
	require.Len(t, one.marks, 3)
	assert.Equal(t, one.marks, same.marks)
	assert.Equal(t, one.marks[0], parts.marks[0])
	assert.NotEqual(t, one.marks[1], parts.marks[1])
	assert.NotEqual(t, one.marks[2], parts.marks[2], "two runs that have parted stay apart")
}

// TestAWorldThatBreaksHasJudgedNothing: it is no pass and no finding, and what nobody
// waits for any more is neither.
func TestAWorldThatBreaksHasJudgedNothing(t *testing.T) {
	broken := World{Name: "broken", Repeatable: true, Open: func(Trial) (ringproof.World, error) { return nil, errors.New("no ground to stand on") }}
	told := 0
	a := abroad{runFlags: runFlags{program: &program{Registry: Registry{Worlds: []World{broken}, Subjects: []Subject{{Name: "s"}}}}, world: "broken"}, abreast: 2,
		told: func(explore.Outcome) { told++ }}
	jobs := make([]explore.Job, 5)
	for i := range jobs {
		jobs[i].Plan.Subject = "s"
	}
	for _, r := range a.Run(t.Context(), jobs) {
		require.NoError(t, r.Err)
		assert.Equal(t, ringproof.Inconclusive, r.Outcome.Verdict)
		require.Len(t, r.Outcome.Findings, 1)
		assert.Equal(t, "no ground to stand on", r.Outcome.Findings[0].Message)
	}
	assert.Equal(t, len(jobs), told)
	jobs[0].Options.Journal = true
	a.Worlds[0].Open = func(Trial) (ringproof.World, error) { return nil, nil }
	assert.Contains(t, a.Run(t.Context(), jobs[:1])[0].Outcome.Findings[0].Message, "has no subject keep a journal")

	ended, end := context.WithCancel(t.Context())
	end()
	for _, r := range a.Run(ended, jobs) {
		assert.ErrorIs(t, r.Err, context.Canceled)
	}
}

// TestWhatOnlyTimeFailsMustFailTwice: a host that stood still for ten seconds had a plan
// without any fault fail for its gap, and shrinking took that plan for the smallest.
func TestWhatOnlyTimeFailsMustFailTwice(t *testing.T) {
	outcome := func(checks ...string) (o explore.Outcome) {
		for _, c := range checks {
			o.Findings = append(o.Findings, ringproof.Finding{Check: c, Verdict: ringproof.Fail, Message: "as it should not be"})
			o.Verdict = ringproof.Fail
		}
		return o
	}
	verdicts := func(first, second explore.Outcome) (ringproof.Verdict, []ringproof.Verdict) {
		var each []ringproof.Verdict
		both := agreed(first, second)
		for _, f := range both.Findings {
			each = append(each, f.Verdict)
		}
		return both.Verdict, each
	}
	whole, each := verdicts(outcome("available"), outcome())
	assert.Equal(t, ringproof.Inconclusive, whole)
	assert.Equal(t, []ringproof.Verdict{ringproof.Inconclusive}, each)
	whole, _ = verdicts(outcome("available"), outcome("available"))
	assert.Equal(t, ringproof.Fail, whole)
	whole, each = verdicts(outcome("no-identity-reuse", "available"), outcome())
	assert.Equal(t, ringproof.Fail, whole, "a member on two disks is one however slow the host is")
	assert.Equal(t, []ringproof.Verdict{ringproof.Fail, ringproof.Inconclusive}, each)
}

// TestATraceIsAHashOrNone: a run in real time has none, and a saved plan expects none.
func TestATraceIsAHashOrNone(t *testing.T) {
	hash, err := hashOf("")
	require.NoError(t, err)
	assert.Empty(t, explore.Expected(explore.Outcome{Hash: hash}, "").Hash)
	hash, err = hashOf("00000000000000ff")
	require.NoError(t, err)
	assert.Equal(t, "00000000000000ff", explore.Expected(explore.Outcome{Hash: hash}, "").Hash)
	_, err = hashOf("no hash")
	assert.Error(t, err)
}
