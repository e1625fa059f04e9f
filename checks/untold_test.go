// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

func names(findings []ringproof.Finding) (all []string) {
	for _, f := range findings {
		all = append(all, f.Check)
	}
	return all
}

// TestWhatASubjectNeverTellsIsNotJudged: whoever says of none of its processes that
// it leads has not shown that one of them does.
func TestWhatASubjectNeverTellsIsNotJudged(t *testing.T) {
	h := healthy()
	require.Empty(t, Unjudged(h.Plan))
	require.Contains(t, names(Judge(h)), "one-lead")
	h.Plan.Subject, h.Plan.Untold = "theirs", []ringproof.EventKind{ringproof.EventLeads, ringproof.EventWaiting}
	assert.NotContains(t, names(Judge(h)), "one-lead")
	assert.Equal(t, []string{"one-lead: theirs never tells of leads"}, Unjudged(h.Plan))
	h.Plan.Untold = append(h.Plan.Untold, ringproof.EventActionBegun)
	assert.Equal(t, []string{"one-lead: theirs never tells of leads and action-begun"}, Unjudged(h.Plan))
	for _, f := range Judge(h) {
		assert.Equal(t, ringproof.Pass, f.Verdict, f.String())
		if f.Check == "quiescent" {
			assert.Contains(t, f.Message, "what else the subject did it doesn't tell")
		}
	}

	h = ruined()
	require.Contains(t, names(Judge(h)), "halts")
	h.Plan.Untold = []ringproof.EventKind{ringproof.EventHalted}
	assert.NotContains(t, names(Judge(h)), "halts", "a halt of which nobody tells is none that was seen")
	assert.Contains(t, names(Judge(h)), "disaster", "what it does everybody sees")
}

// TestAnEndThatNobodySawIsNoPanicEither: of an etcd that printed nothing nobody knows
// how it ended.
func TestAnEndThatNobodySawIsNoPanicEither(t *testing.T) {
	h := healthy()
	event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventProcessExited, Machine: "m2", Text: "etcd, pid 7"})
	require.Equal(t, ringproof.Pass, noPanic.Finding(h, nil).Verdict)
	h.Evidence.Mute = []string{"m9"}
	require.Equal(t, ringproof.Pass, noPanic.Finding(h, nil).Verdict, "no etcd of m9 has ended")
	h.Evidence.Mute = []string{"m2"}
	f := noPanic.Finding(h, nil)
	require.Equal(t, ringproof.Inconclusive, f.Verdict)
	require.Contains(t, f.Message, "the etcd on m2")
}
