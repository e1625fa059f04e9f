// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// toldOf is a ring of three in pods that serves for 40 s, then has no quorum for 100 s, and
// serves again for 100 s. It is looked at each second, and its status, which is right, is
// read every two.
func toldOf() *ringproof.History {
	h := &ringproof.History{Plan: ringproof.Plan{Mode: ringproof.ModeSafe, Ring: ringproof.RingSpec{On: ringproof.OnKubernetes}}, Evidence: ringproof.Evidence{Spec: 3}}
	for at := range 240 {
		serves := at < 40 || at >= 140
		o := ringproof.Observation{At: sec(float64(at)), Fresh: serves}
		for i := range 3 {
			o.Members = append(o.Members, ringproof.MemberView{ID: ringproof.MemberID(i + 1), Serving: serves || i == 0})
		}
		h.Observations = append(h.Observations, o)
		if at%2 == 1 {
			continue
		}
		s := ringproof.Status{At: sec(float64(at) + 0.5), Available: "True", Current: true, Voters: 3, Alive: sec(float64(at)).String()}
		if !serves {
			s.Available = "False"
		}
		h.Evidence.Statuses = append(h.Evidence.Statuses, s)
	}
	event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultPause})
	event(h, ringproof.Event{At: sec(140), Kind: ringproof.EventHealPhase})
	return h
}

// saying has the status say something else from one second to another.
func saying(h *ringproof.History, from, to int, change func(*ringproof.Status)) {
	for i := range h.Evidence.Statuses {
		if s := &h.Evidence.Statuses[i]; s.At >= sec(float64(from)) && s.At < sec(float64(to)) {
			change(s)
		}
	}
}

func TestStatusHonest(t *testing.T) {
	available := func(as string) func(*ringproof.Status) { return func(s *ringproof.Status) { s.Available = as } }
	for _, test := range []struct {
		name   string
		change func(h *ringproof.History)
		want   ringproof.Verdict
		says   string
	}{
		{"it is right", func(*ringproof.History) {}, ringproof.Pass, "120 readings"},
		{"it says that all is well", func(h *ringproof.History) { saying(h, 40, 140, available("True")) }, ringproof.Fail, "that the ring serves, which it did not"},
		{"for half a minute", func(h *ringproof.History) { saying(h, 40, 75, available("True")) }, ringproof.Pass, ""},
		{"twice for half a minute", func(h *ringproof.History) {
			saying(h, 40, 80, available("True"))
			saying(h, 90, 139, available("True"))
		}, ringproof.Pass, ""},
		{"and nobody can read it", func(h *ringproof.History) {
			saying(h, 40, 140, available("True"))
			h.Evidence.Statuses = append(h.Evidence.Statuses[:35:35], h.Evidence.Statuses[45:]...)
		}, ringproof.Pass, ""},
		{"and who writes it is dead", func(h *ringproof.History) {
			saying(h, 40, 140, func(s *ringproof.Status) { s.Available, s.Alive = "True", "as before" })
		}, ringproof.Pass, ""},
		{"and nobody writes it", func(h *ringproof.History) {
			saying(h, 40, 140, func(s *ringproof.Status) { s.Available, s.Alive = "True", "" })
		}, ringproof.Pass, ""},
		{"and a client is answered", func(h *ringproof.History) {
			saying(h, 40, 140, available("True"))
			h.Operations = append(h.Operations, ringproof.Operation{Return: sec(90), Response: &ringproof.Response{}})
		}, ringproof.Pass, ""},
		{"and a client is answered by one member", func(h *ringproof.History) {
			saying(h, 40, 140, available("True"))
			h.Operations = append(h.Operations, ringproof.Operation{Request: ringproof.Request{Serializable: true}, Return: sec(90), Response: &ringproof.Response{}},
				ringproof.Operation{Request: ringproof.Request{Kind: ringproof.RequestKeepAlive}, Return: sec(90), Response: &ringproof.Response{}})
		}, ringproof.Fail, "that the ring serves, which it did not"},
		{"and nobody looks at the ring", func(h *ringproof.History) {
			saying(h, 40, 140, available("True"))
			h.Observations = h.Observations[:40]
		}, ringproof.Inconclusive, "20 times"},
		{"and no member answers who looks", func(h *ringproof.History) {
			saying(h, 40, 140, available("True"))
			for i := range h.Observations {
				h.Observations[i].Fresh, h.Observations[i].Members, h.Observations[i].Machines = false, nil, []ringproof.MachineView{{Up: true, Etcd: true}}
			}
		}, ringproof.Inconclusive, "0 times"},
		{"and no etcd runs", func(h *ringproof.History) {
			saying(h, 40, 140, available("True"))
			for i := range h.Observations {
				h.Observations[i].Fresh, h.Observations[i].Members, h.Observations[i].Machines = false, nil, []ringproof.MachineView{{Up: true}}
			}
		}, ringproof.Fail, "that the ring serves, which it did not"},
		{"and the host keeps it waiting", func(h *ringproof.History) {
			saying(h, 40, 140, available("True"))
			h.Evidence.Starved = ringproof.Starved{{Span: ringproof.Span{From: sec(40), To: sec(140)}, Lost: ringproof.Duration(sec(60))}}
		}, ringproof.Inconclusive, "kept the run waiting"},
		{"it says that nobody is served", func(h *ringproof.History) { saying(h, 150, 240, available("False")) }, ringproof.Fail, "that the ring does not serve, which it did"},
		{"where a fault may part it from the ring", func(h *ringproof.History) {
			saying(h, 150, 240, available("False"))
			h.Events = h.Events[:1]
		}, ringproof.Inconclusive, "at the end"},
		{"it doesn't know", func(h *ringproof.History) { saying(h, 40, 240, available("Unknown")) }, ringproof.Pass, ""},
		{"it is of an earlier spec", func(h *ringproof.History) { saying(h, 0, 70, func(s *ringproof.Status) { s.Current = false }) }, ringproof.Fail, "nothing of what is asked for now"},
		{"it counts them wrong", func(h *ringproof.History) { saying(h, 150, 240, func(s *ringproof.Status) { s.Voters = 4 }) }, ringproof.Fail, "that the voters are 4"},
		{"it says for ever that something is missing", func(h *ringproof.History) {
			saying(h, 0, 240, func(s *ringproof.Status) { s.Degraded = "True" })
		}, ringproof.Fail, "that the ring is not as asked"},
		{"it calls a person for ever", func(h *ringproof.History) { saying(h, 60, 240, func(s *ringproof.Status) { s.Halted = "True" }) }, ringproof.Fail, "or needs a person"},
		{"while something is asked for that is not done", func(h *ringproof.History) {
			h.Plan.Steps = []ringproof.Step{{Name: "edit", Op: &ringproof.Op{Kind: ringproof.OpEdit}}}
			event(h, ringproof.Event{At: sec(130), Kind: ringproof.EventStepBegun, Step: "edit"})
			event(h, ringproof.Event{At: sec(230), Kind: ringproof.EventStepDone, Step: "edit"})
			saying(h, 40, 231, func(s *ringproof.Status) { s.Degraded = "True" })
		}, ringproof.Pass, ""},
		{"it says at last that something is missing", func(h *ringproof.History) {
			saying(h, 210, 240, func(s *ringproof.Status) { s.Degraded = "True" })
		}, ringproof.Inconclusive, "at the end"},
		{"it says that nothing is missing while an etcd is away", func(h *ringproof.History) {
			saying(h, 0, 240, func(s *ringproof.Status) { s.Degraded = "False" })
			for i := range h.Observations {
				o := &h.Observations[i]
				o.Fresh, o.Machines = true, []ringproof.MachineView{{Name: "m1", Up: true, Etcd: o.At < sec(40) || o.At >= sec(140)}}
				o.Members[0].Machine, o.Members[0].Serving = "m1", o.Machines[0].Etcd
			}
			saying(h, 0, 240, available("True"))
		}, ringproof.Fail, "no etcd ran where a member votes"},
		{"it lists somebody who has left", func(h *ringproof.History) {
			saying(h, 150, 240, func(s *ringproof.Status) { s.Members = []ringproof.MemberID{1, 2, 4} })
		}, ringproof.Fail, "who is in the ring"},
		{"it lists who is there", func(h *ringproof.History) {
			saying(h, 0, 240, func(s *ringproof.Status) { s.Members = []ringproof.MemberID{1, 2, 3} })
		}, ringproof.Pass, ""},
		{"it says nothing of how the ring fares", func(h *ringproof.History) {
			saying(h, 0, 240, func(s *ringproof.Status) { s.Available, s.Voters = "", -1 })
		}, ringproof.Inconclusive, "never while it said"},
		{"nobody who writes it was ever seen", func(h *ringproof.History) { saying(h, 0, 240, func(s *ringproof.Status) { s.Alive = "" }) }, ringproof.Inconclusive, "never while it said"},
		{"it counts nobody", func(h *ringproof.History) { saying(h, 0, 240, func(s *ringproof.Status) { s.Voters = -1 }) }, ringproof.Pass, ""},
		{"it is wrong for the last half minute, of a minute that is allowed", func(h *ringproof.History) { saying(h, 210, 240, available("False")) }, ringproof.Inconclusive, "at the end"},
		{"it counts them wrong at last", func(h *ringproof.History) {
			saying(h, 210, 240, func(s *ringproof.Status) { s.Voters = 4 })
		}, ringproof.Inconclusive, "at the end"},
		{"it was read for two seconds", func(h *ringproof.History) { h.Evidence.Statuses = h.Evidence.Statuses[:2] }, ringproof.Inconclusive, "1 time"},
		{"it was read for six seconds, and no more at the end", func(h *ringproof.History) {
			h.Evidence.Statuses = h.Evidence.Statuses[:4]
			event(h, ringproof.Event{At: sec(240), Kind: ringproof.EventRunEnds})
		}, ringproof.Inconclusive, "3 times, at last at 6.5s"},
		{"it was read for six seconds, of a run of ten", func(h *ringproof.History) {
			h.Evidence.Statuses = h.Evidence.Statuses[:4]
			event(h, ringproof.Event{At: sec(10), Kind: ringproof.EventRunEnds})
		}, ringproof.Pass, "4 readings"},
		{"it was never read", func(h *ringproof.History) { h.Evidence.Statuses = nil }, ringproof.Inconclusive, "read 0 times"},
	} {
		h := toldOf()
		test.change(h)
		f := statusHonest.Finding(h, nil)
		assert.Equal(t, test.want, f.Verdict, "%s: %s", test.name, f.Message)
		assert.Contains(t, f.Message, test.says, test.name)
	}
	assert.True(t, statusHonest.suits(toldOf().Plan))
	assert.False(t, statusHonest.suits(ringproof.Plan{Mode: ringproof.ModeSafe}), "nobody has an object")
}
