// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// TestStillness: only of a time in which the subject must have heard that the ring
// is suspended can it be told whether it left the ring alone.
func TestStillness(t *testing.T) {
	outage := func(landed, healed float64) func(*ringproof.History) {
		return func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(landed), Kind: ringproof.EventFaultLanded, Step: "out", Fault: ringproof.FaultStoreOutage})
			if healed > 0 {
				event(h, ringproof.Event{At: sec(healed), Kind: ringproof.EventFaultHealed, Step: "out", Fault: ringproof.FaultStoreOutage})
			}
		}
	}
	for name, test := range map[string]struct {
		from, to float64
		plant    func(*ringproof.History)
		want     []ringproof.Span
	}{
		"from when it was heard":   {40, 60, nil, []ringproof.Span{{From: sec(45), To: sec(60)}}},
		"too short to be heard of": {40, 44, nil, nil},
		"an outage before it":      {40, 60, outage(30, 35), []ringproof.Span{{From: sec(45), To: sec(60)}}},
		"an outage in it":          {40, 60, outage(42, 50), []ringproof.Span{{From: sec(55), To: sec(60)}}},
		"an outage that lasts":     {40, 60, outage(30, 0), nil},
		"a controller that is stopped in it": {40, 60, func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(42), Kind: ringproof.EventFaultLanded, Step: "out", Fault: ringproof.FaultKubePause})
			event(h, ringproof.Event{At: sec(50), Kind: ringproof.EventFaultHealed, Step: "out", Fault: ringproof.FaultKubePause})
		}, []ringproof.Span{{From: sec(55), To: sec(60)}}},
		"an outage after it": {40, 60, outage(61, 62), []ringproof.Span{{From: sec(45), To: sec(60)}}},
		"never resumed": {40, 69, func(h *ringproof.History) { drop(h, ringproof.EventStepBegun) },
			[]ringproof.Span{{From: sec(45), To: sec(70)}}},
		"a host that gave nothing": {40, 60, func(h *ringproof.History) {
			h.Evidence.Starved = ringproof.Starved{{Span: ringproof.Span{From: sec(40), To: sec(50)}, Lost: ringproof.Duration(5 * time.Second)}}
		}, []ringproof.Span{{From: sec(50), To: sec(60)}}},
		"resumed by a rival at once": {40, 39, nil, nil},
		"resumed before its answer": {40, 60, func(h *ringproof.History) {
			asks(h, "hold", ringproof.OpSuspend, 37)
			asks(h, "rival", ringproof.OpResume, 38)
			event(h, ringproof.Event{At: sec(39), Kind: ringproof.EventStepDone, Step: "rival"})
		}, nil},
		"asked before a rival's answer": {40, 60, func(h *ringproof.History) {
			asks(h, "rival", ringproof.OpResume, 37)
			asks(h, "hold", ringproof.OpSuspend, 38)
			event(h, ringproof.Event{At: sec(39), Kind: ringproof.EventStepDone, Step: "rival"})
		}, nil},
		"asked after a rival's answer": {40, 60, func(h *ringproof.History) {
			asks(h, "rival", ringproof.OpResume, 37)
			event(h, ringproof.Event{At: sec(38), Kind: ringproof.EventStepDone, Step: "rival"})
			asks(h, "hold", ringproof.OpSuspend, 39)
		}, []ringproof.Span{{From: sec(45), To: sec(60)}}},
	} {
		h := healthy()
		suspended(h, test.from, test.to)
		if test.plant != nil {
			test.plant(h)
		}
		assert.Equal(t, test.want, stillness(h), name)
	}
}

// asks begins a step in which an operator asks for it.
func asks(h *ringproof.History, step string, kind ringproof.OpKind, at float64) {
	h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: step, Op: &ringproof.Op{Kind: kind}})
	event(h, ringproof.Event{At: sec(at), Kind: ringproof.EventStepBegun, Step: step})
}

func TestWorkBoundedTellsOfStillness(t *testing.T) {
	h := healthy()
	suspended(h, 40, 60)
	f := workBounded.Finding(h, nil)
	assert.Equal(t, ringproof.Pass, f.Verdict, f.Message)
	assert.Contains(t, f.Message, "nothing changed in 15s of a ring that was suspended")

	h = healthy()
	suspended(h, 28, 32) // the learner is added before it can be known
	f = workBounded.Finding(h, nil)
	assert.Equal(t, ringproof.Pass, f.Verdict, f.Message)
	assert.NotContains(t, f.Message, "suspended")
}
