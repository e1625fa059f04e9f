// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

func TestRestartsInTurn(t *testing.T) {
	for _, test := range []struct {
		name  string
		h     *ringproof.History
		fault func(*ringproof.History)
		want  ringproof.Verdict
		says  string
	}{
		{"one after the other", rolled("3.5.35", 2, 3, 1), nil, ringproof.Pass, "3 ends of voters' etcds"},
		{"while another is away", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) { away(h, "m2", 12, 25) }, ringproof.Fail, "etcd of m3 to be ended while all other voters serve, saw m2 away"},
		{"a voter short, so that the rest are no quorum", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) { leaving(h, "m2", 14) }, ringproof.Fail,
			"etcd of m3 to be ended once the ring has the 3 voters that were asked for, saw 2: without it they are no quorum"},
		{"a voter short that somebody else has just removed", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			leaving(h, "m2", 14)
			h.Evidence.Changes = append(h.Evidence.Changes, ringproof.ConfChange{Kind: "remove", At: sec(14), Foreign: true})
		}, ringproof.Fail, "etcd of m1 to be ended once"}, // and not m3's
		{"as another has become a voter since it was seen to serve", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			h.Plan.Ring.Size = 3
			joins(h, 2, 21)
		}, ringproof.Pass, "2 ends"},
		{"before another becomes a voter", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			h.Plan.Ring.Size = 3
			joins(h, 2, 23)
		}, ringproof.Fail, "etcd of m3 to be ended once the ring has the 3 voters that were asked for, saw 2"},
		{"while another is away that a fault has hit", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m2", 12, 25)
			event(h, ringproof.Event{At: sec(11), Kind: ringproof.EventFaultLanded, Machine: "m2", Fault: ringproof.FaultPause})
		}, ringproof.Pass, "2 ends"},
		{"while another has been away for long that a fault has hit", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m2", 12, 40)
			event(h, ringproof.Event{At: sec(11), Kind: ringproof.EventFaultLanded, Machine: "m2", Fault: ringproof.FaultMachineLoss})
		}, ringproof.Fail, "etcd of m1 to be ended while all other voters serve, saw m2 away"},
		{"while another was without a leader, and had one again within the look", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m2", 19, 21)
			away(h, "m3", 20, 21)
			h.Observations[20].Until = sec(20.9)
		}, ringproof.Pass, "3 ends"},
		{"while another was without a leader, and still is by the look after", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m2", 19, 22)
			away(h, "m3", 20, 21)
			h.Observations[20].Until = sec(20.9)
		}, ringproof.Fail, "etcd of m3 to be ended while all other voters serve, saw m2 away"},
		{"two between two looks", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(10.6), Kind: ringproof.EventProcessExited, Machine: "m3"})
		}, ringproof.Fail, "etcd of m3 to be ended while all other voters serve, saw m2 away"},
		{"after an election in which nobody served", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m2", 16, 21)
			away(h, "m1", 17, 21)
			away(h, "m3", 17, 21)
		}, ringproof.Pass, "3 ends"},
		{"after an election in which nobody served, and one doesn't yet", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m2", 16, 23)
			away(h, "m1", 17, 21)
			away(h, "m3", 17, 21)
		}, ringproof.Fail, "etcd of m3 to be ended while all other voters serve, saw m2 away"},
		{"two between two looks, of which the one was started again before the other ended", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(20.2), Kind: ringproof.EventProcessExited, Machine: "m2"})
			event(h, ringproof.Event{At: sec(20.3), Kind: ringproof.EventProcessStarted, Machine: "m2"})
		}, ringproof.Pass, "4 ends"},
		{"two between two looks, of which the one was started again when the other had ended", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(20.2), Kind: ringproof.EventProcessExited, Machine: "m2"})
			event(h, ringproof.Event{At: sec(20.6), Kind: ringproof.EventProcessStarted, Machine: "m2"})
		}, ringproof.Fail, "saw m2 away"},
		{"two that cease to serve at once, and take their time to end", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m1", 14, 18)
			away(h, "m3", 14, 18)
			event(h, ringproof.Event{At: sec(16.2), Kind: ringproof.EventProcessExited, Machine: "m1"})
			event(h, ringproof.Event{At: sec(16.6), Kind: ringproof.EventProcessExited, Machine: "m3"})
		}, ringproof.Fail, "etcd of m1 to be ended while all other voters serve, saw m3 away"},
		{"two that nobody hears for a while, of which one is ended then", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m1", 14, 16)
			away(h, "m3", 14, 16)
			event(h, ringproof.Event{At: sec(16.6), Kind: ringproof.EventProcessExited, Machine: "m3"})
		}, ringproof.Pass, "ends"},
		{"two that end by themselves", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(15), Kind: ringproof.EventProcessExited, Machine: "m2", Text: "etcd, pid 7, fatal: failed to save Raft hard state and entries: no space left on device"})
			event(h, ringproof.Event{At: sec(15), Kind: ringproof.EventProcessExited, Machine: "m1", Text: "etcd, pid 8, panic: failed to save snapshot"})
			away(h, "m1", 15, 17)
			away(h, "m2", 15, 17)
		}, ringproof.Pass, "3 ends"},
		{"one that has come up since the look", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m2", 11, 13)
			event(h, ringproof.Event{At: sec(12.6), Kind: ringproof.EventProcessExited, Machine: "m3"})
			away(h, "m3", 13, 14)
		}, ringproof.Pass, "4 ends"},
		{"one that takes its time to end, after another has come back", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(18.3), Kind: ringproof.EventProcessExited, Machine: "m2"})
			away(h, "m3", 19, 21)
		}, ringproof.Pass, "4 ends"},
		{"one that takes its time to end, before another has come back", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(18.3), Kind: ringproof.EventProcessExited, Machine: "m2"})
			away(h, "m2", 19, 20)
			away(h, "m3", 19, 21)
		}, ringproof.Fail, "etcd of m3 to be ended while all other voters serve, saw m2 away"},
		{"one that takes its time to end, while a fault ends another", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(19.6), Kind: ringproof.EventFaultLanded, Machine: "m2", Fault: ringproof.FaultKill})
			event(h, ringproof.Event{At: sec(19.6), Kind: ringproof.EventProcessExited, Machine: "m2"})
			away(h, "m3", 18, 21)
		}, ringproof.Pass, "3 ends"},
		{"one that takes its time to end, while a fault ends another that is back before", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(17.4), Kind: ringproof.EventFaultLanded, Machine: "m2", Fault: ringproof.FaultKill})
			event(h, ringproof.Event{At: sec(17.5), Kind: ringproof.EventProcessExited, Machine: "m2"})
			away(h, "m2", 18, 19)
			away(h, "m3", 18, 21)
		}, ringproof.Pass, "3 ends"},
		{"one that takes its time to end, while another leaves", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(18.3), Kind: ringproof.EventProcessExited, Machine: "m2"})
			leaving(h, "m2", 19)
			h.Plan.Ring.Size = 1
			away(h, "m3", 19, 21)
		}, ringproof.Pass, "ends"},
		{"a fault was over long before", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(3), Kind: ringproof.EventFaultLanded, Machine: "m2", Fault: ringproof.FaultKill})
			away(h, "m2", 12, 25)
		}, ringproof.Fail, "saw m2 away"},
		{"a fault never ended", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(3), Kind: ringproof.EventFaultLanded, Machine: "m2", Fault: ringproof.FaultClockSkew})
			away(h, "m2", 12, 25)
		}, ringproof.Pass, "2 ends"},
		{"by an operator beside", meddled(rolled("3.5.35", 2, 3, 1), 12.2, 24.2), func(h *ringproof.History) { away(h, "m2", 12, 25) }, ringproof.Pass, "2 ends"},
		{"by an operator before", meddled(rolled("3.5.35", 2, 3, 1), 2, 3), func(h *ringproof.History) { away(h, "m2", 12, 25) }, ringproof.Fail, "saw m2 away"},
		{"the only one, without which there is no list", rolled("3.5.35", 1), func(h *ringproof.History) {
			for i := range h.Observations {
				h.Observations[i].Members = h.Observations[i].Members[:1]
			}
			h.Observations[11] = ringproof.Observation{At: sec(11)}
		}, ringproof.Pass, "1 end "},
		{"one that has left", rolled("3.5.35", 2, 3, 1), func(h *ringproof.History) {
			away(h, "m2", 12, 25)
			for i, o := range h.Observations[21:] {
				h.Observations[21+i].Members = o.Members[:2]
			}
		}, ringproof.Pass, "2 ends"},
		{"pods that end with their set, after they were seen to serve", rolled("3.5.35"), func(h *ringproof.History) { ofPods(h, ringproof.FaultSetDeleted, "background") },
			ringproof.Inconclusive, "no voter's etcd was seen"},
		{"pods that end with the object that asks for their ring", rolled("3.5.35"), func(h *ringproof.History) { ofPods(h, ringproof.FaultRingDeleted, "background") },
			ringproof.Inconclusive, "no voter's etcd was seen"},
		{"pods of a set that is to keep none", rolled("3.5.35"), func(h *ringproof.History) { ofPods(h, ringproof.FaultSetScaled, ringproof.ScaledToNone) },
			ringproof.Inconclusive, "no voter's etcd was seen"},
		{"two pods of a set that is to keep one fewer: one of them had to end", rolled("3.5.35"), func(h *ringproof.History) { ofPods(h, ringproof.FaultSetScaled, ringproof.ScaledFewer) },
			ringproof.Pass, "1 end "},
		{"pods of a set that is to keep one more", rolled("3.5.35"), func(h *ringproof.History) { ofPods(h, ringproof.FaultSetScaled, ringproof.ScaledMore) },
			ringproof.Fail, "etcd of m3 to be ended while all other voters serve, saw m2 away"},
		{"pods that need none of what was deleted", rolled("3.5.35"), func(h *ringproof.History) { ofPods(h, ringproof.FaultObjectsDeleted, "") },
			ringproof.Fail, "etcd of m3 to be ended while all other voters serve, saw m2 away"},
		{"pods that end though their set has left them", rolled("3.5.35"), func(h *ringproof.History) { ofPods(h, ringproof.FaultSetDeleted, ringproof.Orphan) },
			ringproof.Fail, "etcd of m3 to be ended while all other voters serve, saw m2 away"},
		{"ended by a fault", rolled("3.5.35", 2), func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(10.4), Kind: ringproof.EventFaultLanded, Machine: "m2", Fault: ringproof.FaultKill})
		}, ringproof.Inconclusive, "no voter's etcd was seen"},
		{"none was ended", rolled("3.5.35"), nil, ringproof.Inconclusive, "no voter's etcd was seen"},
		{"never looked at", &ringproof.History{}, nil, ringproof.Inconclusive, "no voter's etcd was seen"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.fault != nil {
				test.fault(test.h)
			}
			f := restartsInTurn.Finding(test.h, nil)
			assert.Equal(t, test.want, f.Verdict, f.String())
			assert.Contains(t, f.Message, test.says)
		})
	}
}

// ofPods has a fault hit what makes the members' pods, and two of them end two seconds later.
func ofPods(h *ringproof.History, kind ringproof.FaultKind, how string) {
	h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "set", Fault: &ringproof.Fault{Kind: kind, How: how}})
	event(h, ringproof.Event{At: sec(11.4), Kind: ringproof.EventFaultLanded, Step: "set", Fault: kind})
	event(h, ringproof.Event{At: sec(13.2), Kind: ringproof.EventProcessExited, Machine: "m2"})
	event(h, ringproof.Event{At: sec(13.4), Kind: ringproof.EventProcessExited, Machine: "m3"})
	away(h, "m2", 14, 16)
	away(h, "m3", 14, 16)
}

// meddled has an operator restart somebody from one second to another.
func meddled(h *ringproof.History, from, to float64) *ringproof.History {
	h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "restart", Op: &ringproof.Op{Kind: ringproof.OpRestart, Target: "follower"}})
	event(h, ringproof.Event{At: sec(from), Kind: ringproof.EventStepBegun, Step: "restart"})
	event(h, ringproof.Event{At: sec(to), Kind: ringproof.EventStepDone, Step: "restart"})
	return h
}
