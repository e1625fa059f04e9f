// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// movedToTLS is a ring of three, looked at each second, that has come to TLS after 20 s, as
// the network and the last look have it.
func movedToTLS() *ringproof.History {
	h := &ringproof.History{Plan: ringproof.Plan{Ring: ringproof.RingSpec{Peers: "plain"}, Steps: []ringproof.Step{{Name: "encrypt", Op: &ringproof.Op{Kind: ringproof.OpPeers, Peers: "tls"}}}}}
	for at := range 40 {
		o := ringproof.Observation{At: sec(float64(at)), Fresh: true}
		for i := range 3 {
			name := fmt.Sprintf("m%d", i+1)
			m := ringproof.MemberView{ID: ringproof.MemberID(i + 1), Machine: name, Serving: true, PeerURLs: []string{"http://10.0.0.1:2380"}}
			if at > 10 {
				m.PeerURLs = []string{"https://10.0.0.1:2381"}
			}
			o.Members = append(o.Members, m)
			o.Machines = append(o.Machines, ringproof.MachineView{Name: name, Clear: map[bool]ringproof.Answer{true: ringproof.Yes, false: ringproof.No}[at < 20]})
		}
		h.Observations = append(h.Observations, o)
	}
	h.Evidence.Final = h.Observations[39]
	h.Evidence.Talks = []ringproof.Talk{{From: "m1", To: "m2", Plain: sec(18), TLS: sec(39)}, {From: "m2", To: "m1", TLS: sec(39)}}
	event(h, ringproof.Event{At: sec(5), Kind: ringproof.EventStepBegun, Step: "encrypt"})
	event(h, ringproof.Event{At: sec(30), Kind: ringproof.EventStepDone, Step: "encrypt"})
	return h
}

// thereUntil has a member of the machine be there until a moment.
func thereUntil(h *ringproof.History, id ringproof.MemberID, machine string, at int) {
	for i := range at {
		o := &h.Observations[i]
		o.Members = append(o.Members, ringproof.MemberView{ID: id, Machine: machine, Serving: true})
		o.Machines = append(o.Machines, ringproof.MachineView{Name: machine})
	}
	h.Evidence.Changes = append(h.Evidence.Changes, entry("add-voter", id, 0), entry("remove", id, float64(at)))
	h.Evidence.Changes[len(h.Evidence.Changes)-2].Initial = true
}

func TestNoPlaintextPeer(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(h *ringproof.History)
		want   ringproof.Verdict
		says   string
	}{
		{"moved", func(*ringproof.History) {}, ringproof.Pass, "2 pairs of machines"},
		{"a member listens for both", func(h *ringproof.History) { h.Evidence.Final.Machines[1].Clear = ringproof.Yes }, ringproof.Fail, "m2 listen for plain text"},
		{"nobody knows whether a member listens for both", func(h *ringproof.History) { h.Evidence.Final.Machines[1].Clear = "" }, ringproof.Inconclusive, "whether m2 listens for plain text is not known"},
		{"a machine without a member isn't known", func(h *ringproof.History) {
			h.Evidence.Final.Machines = append(h.Evidence.Final.Machines, ringproof.MachineView{Name: "m4"})
		}, ringproof.Pass, "2 pairs"},
		{"a port answers in plain text, whatever flags say", func(h *ringproof.History) {
			h.Evidence.PeerPorts = []ringproof.Port{{Machine: "m1"}, {Machine: "m2", Plain: true}}
		}, ringproof.Fail, "saw m2 answer in it"},
		{"a member is listed with both", func(h *ringproof.History) {
			h.Evidence.Final.Members[2].PeerURLs = []string{"http://10.0.0.3:2380", "https://10.0.0.3:2381"}
		}, ringproof.Fail, "m3 listed at http:"},
		{"something goes in the clear", func(h *ringproof.History) { h.Evidence.Talks[1].Plain = sec(25) }, ringproof.Fail, "m2 speak plain text to m1"},
		{"who has left and hasn't heard speaks in the clear", func(h *ringproof.History) {
			h.Evidence.Talks = append(h.Evidence.Talks, ringproof.Talk{From: "m4", To: "m1", Plain: sec(25)})
			thereUntil(h, 4, "m4", 18)
		}, ringproof.Pass, "2 pairs of machines"},
		{"who has left and is back speaks in the clear", func(h *ringproof.History) {
			h.Evidence.Talks = append(h.Evidence.Talks, ringproof.Talk{From: "m3", To: "m1", Plain: sec(35)})
			thereUntil(h, 4, "m3", 8)
		}, ringproof.Fail, "m3 speak plain text to m1"},
		{"nobody saw what goes between them", func(h *ringproof.History) { h.Evidence.Talks = nil }, ringproof.Inconclusive, "was not seen"},
		{"a ring of one has no peers", func(h *ringproof.History) {
			h.Evidence.Talks, h.Evidence.Final.Members = nil, h.Evidence.Final.Members[:1]
		}, ringproof.Pass, ""},
		{"no list", func(h *ringproof.History) { h.Evidence.Final.Members = nil }, ringproof.Inconclusive, "no members"},
		{"it never ended", func(h *ringproof.History) { h.Events = h.Events[:1] }, ringproof.Inconclusive, "not seen to end"},
	} {
		h := movedToTLS()
		test.change(h)
		f := noPlaintextPeer.Finding(h, nil)
		assert.Equal(t, test.want, f.Verdict, test.name)
		assert.Contains(t, f.Message, test.says, test.name)
	}
	assert.True(t, noPlaintextPeer.suits(movedToTLS().Plan))
	assert.False(t, noPlaintextPeer.suits(ringproof.Plan{}), "nobody asks for it")
}
