// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

func ask(name, target, request string) ringproof.Step {
	return ringproof.Step{Name: name, Op: &ringproof.Op{Kind: ringproof.OpAsk, Target: target, Request: request}, Timeout: seconds(5)}
}

// asked are the requests of a kind that the member on the machine answered.
func asked(h ringproof.History, machine string, kind ringproof.RequestKind) (found []ringproof.Operation) {
	for _, o := range h.Operations {
		if o.Endpoint == machine && o.Request.Kind == kind && o.Acked() {
			found = append(found, o)
		}
	}
	return found
}

func TestAMemberIsAsked(t *testing.T) {
	h := play(t, &toy{}, ring(ask("defragment", "m2", "defrag")))
	only(t, h, ringproof.EventStepDone, "defragment")
	require.Len(t, asked(h, "m2", ringproof.RequestDefrag), 1)
	assert.Empty(t, asked(h, "m1", ringproof.RequestDefrag))
	assert.Equal(t, "ask m2 for defrag", only(t, h, ringproof.EventStepBegun, "defragment").Text)
}

// TestHistoryIsDiscardedOnceItWasSeen: what was not, no check could judge.
func TestHistoryIsDiscardedOnceItWasSeen(t *testing.T) {
	h := play(t, &toy{}, ring(ask("compact", "m1", "compact")))
	only(t, h, ringproof.EventStepDone, "compact")
	found := asked(h, "m1", ringproof.RequestCompact)
	require.Len(t, found, 1)
	require.Positive(t, found[0].Request.Revision)
	for _, w := range h.Watches {
		assert.Zero(t, w.Compact, "a watcher was overtaken")
	}
}

// TestASurge: each client writes a key of its own, and all that was taken is in the history.
func TestASurge(t *testing.T) {
	h := play(t, &toy{}, ring(ask("import", "m2", ringproof.AskSurge)))
	only(t, h, ringproof.EventStepDone, "import")
	written := map[string]int{}
	for _, o := range asked(h, "m2", ringproof.RequestPut) {
		if strings.HasPrefix(o.Request.Key, Prefix+"import-") {
			written[o.Request.Key]++
		}
	}
	assert.Len(t, written, surgers)
	for key, n := range written {
		assert.Equal(t, surged/surgers, n, key)
	}
}

// TestNobodyTakesASurge: the ring has no quorum, and the step ends all the same.
func TestNobodyTakesASurge(t *testing.T) {
	pause := faulty("pause", ringproof.Fault{Kind: ringproof.FaultPause, Target: "m2", For: seconds(60)})
	h := play(t, &toy{}, ring(pause, ask("import", "m2", ringproof.AskSurge)))
	only(t, h, ringproof.EventStepMissed, "import")
}

// TestNobodyAnswers: the member is down, which says nothing of the subject.
func TestNobodyAnswers(t *testing.T) {
	pause := faulty("pause", ringproof.Fault{Kind: ringproof.FaultPause, Target: "m2", For: seconds(30)})
	h := play(t, &toy{}, ring(pause, ask("status", "m2", "status")))
	only(t, h, ringproof.EventStepMissed, "status")
	assert.Empty(t, of(h, ringproof.EventStepFailed, "status"))
}
