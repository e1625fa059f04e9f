// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// tenanted is one lease of 5 s, granted at 1 s and renewed at 4 s, with two keys
// that were seen to go at 10 s, in revision 4.
func tenanted() *ringproof.History {
	const a, b = "/w/a", "/w/b"
	put := func(key, value string) ringproof.Request {
		return ringproof.Request{Kind: ringproof.RequestPut, Key: key, Value: value, Lease: 7}
	}
	kv := func(key, value string, revision int64) ringproof.KV {
		return ringproof.KV{Key: key, Value: value, CreateRevision: revision, ModRevision: revision, Version: 1, Lease: 7}
	}
	ask := func(at float64, r ringproof.Request, answer ringproof.Response) ringproof.Operation {
		return ringproof.Operation{Call: sec(at), Return: sec(at + 0.1), Request: r, Response: &answer}
	}
	x, y := kv(a, "x", 2), kv(b, "y", 3)
	gone := func(prev ringproof.KV) ringproof.WatchEvent {
		return ringproof.WatchEvent{At: sec(10), Revision: 4, Delete: true, KV: ringproof.KV{Key: prev.Key, ModRevision: 4}, Prev: &prev}
	}
	return &ringproof.History{
		Operations: []ringproof.Operation{
			ask(1, ringproof.Request{Kind: ringproof.RequestGrant, TTL: 5}, ringproof.Response{Revision: 1, Lease: 7, TTL: 5}),
			ask(2, put(a, "x"), ringproof.Response{Revision: 2}),
			ask(3, put(b, "y"), ringproof.Response{Revision: 3}),
			ask(4, ringproof.Request{Kind: ringproof.RequestKeepAlive, Lease: 7}, ringproof.Response{Revision: 3, TTL: 5}),
			ask(11, ringproof.Request{Kind: ringproof.RequestRange, Key: "/w/"}, ringproof.Response{Revision: 4}),
		},
		Watches: []ringproof.Watch{{Start: 1, Endpoint: "m1", Events: []ringproof.WatchEvent{
			{At: sec(2), Revision: 2, Create: true, KV: x}, {At: sec(3), Revision: 3, Create: true, KV: y}, gone(x), gone(y),
		}}},
		Evidence: ringproof.Evidence{Revision: 4},
	}
}

// TestLeases plants what a wrong etcd does with leases, and what only looks
// like it.
func TestLeases(t *testing.T) {
	const fails, passes = ringproof.Fail, ringproof.Pass
	last := func(h *ringproof.History) *ringproof.Operation { return &h.Operations[len(h.Operations)-1] }
	goes := func(h *ringproof.History, at float64) {
		for i := range h.Watches[0].Events[2:] {
			h.Watches[0].Events[2+i].At = sec(at)
		}
	}
	add := func(h *ringproof.History, o ringproof.Operation) { h.Operations = append(h.Operations, o) }
	late := func(h *ringproof.History) *ringproof.Operation {
		last(h).Call, last(h).Return = sec(40), sec(41)
		last(h).Response.Revision, last(h).Response.KVs = 3, []ringproof.KV{h.Watches[0].Events[0].KV, h.Watches[0].Events[1].KV}
		h.Watches, h.Evidence = nil, ringproof.Evidence{}
		return last(h)
	}
	for name, c := range map[string]struct {
		check Check
		want  ringproof.Verdict
		plant func(h *ringproof.History)
		says  string
	}{
		"as it should be":       {leasesKeepTheirTime, passes, func(*ringproof.History) {}, "1 were seen to run out"},
		"in order":              {linearizable, passes, func(*ringproof.History) {}, ""},
		"seen as a whole":       {watchGuarantees, passes, func(*ringproof.History) {}, ""},
		"ended before its time": {leasesKeepTheirTime, fails, func(h *ringproof.History) { goes(h, 8.9) }, "expected lease 7 to live until 9s at least"},
		"at its time":           {leasesKeepTheirTime, passes, func(h *ringproof.History) { goes(h, 9) }, ""},
		"long after its time, as an alarm keeps etcd from ending it": {leasesKeepTheirTime, ringproof.Inconclusive, func(h *ringproof.History) {
			late(h)
			barred := ringproof.MemberView{ID: 1, Alarms: []string{"memberID:1 alarm:CORRUPT "}}
			h.Observations = []ringproof.Observation{{At: sec(5), Fresh: true}, {At: sec(30), Fresh: true, Members: []ringproof.MemberView{barred}}}
		}, ""},
		"long after its time, as an alarm keeps etcd from writing": {leasesKeepTheirTime, fails, func(h *ringproof.History) {
			late(h)
			full := ringproof.MemberView{ID: 1, Alarms: []string{"memberID:1 alarm:NOSPACE "}}
			h.Observations = []ringproof.Observation{{At: sec(5), Fresh: true}, {At: sec(30), Fresh: true, Members: []ringproof.MemberView{full}}}
		}, "to be over"},
		"long after its time, with nobody to end it": {leasesKeepTheirTime, ringproof.Inconclusive, func(h *ringproof.History) {
			late(h)
			h.Observations = []ringproof.Observation{{At: sec(2), Fresh: true}, {At: sec(9)}, {At: sec(39), Fresh: true}}
		}, "0 were revoked and 0 were seen to run out"},
		"long after its time, and who led came long ago": {leasesKeepTheirTime, fails, func(h *ringproof.History) {
			late(h)
			h.Observations = []ringproof.Observation{{At: sec(2), Fresh: true}, {At: sec(9)}, {At: sec(12), Fresh: true}}
		}, "to be over"},
		"renewed in an election": {leasesKeepTheirTime, passes, func(h *ringproof.History) {
			goes(h, 8.9)
			h.Events = []ringproof.Event{{At: sec(5), Kind: ringproof.EventLeaderChanged}}
		}, ""},
		"renewed by who was stopped before": {leasesKeepTheirTime, passes, func(h *ringproof.History) {
			goes(h, 8.9)
			h.Events = []ringproof.Event{{At: sec(3.5), Kind: ringproof.EventFaultHealed}}
		}, ""},
		"renewed on a host that stood still": {leasesKeepTheirTime, passes, func(h *ringproof.History) {
			goes(h, 8.9)
			h.Evidence.Starved = ringproof.Starved{{Span: ringproof.Span{From: sec(2), To: sec(4)}, Lost: ringproof.Duration(1500 * time.Millisecond)}}
		}, ""},
		"granted in an election": {leasesKeepTheirTime, fails, func(h *ringproof.History) {
			goes(h, 5.9)
			h.Events = []ringproof.Event{{At: sec(1.5), Kind: ringproof.EventLeaderChanged}}
		}, "expected lease 7 to live until 6s at least"},
		"deleted, and nobody knows whether": {leasesKeepTheirTime, ringproof.Inconclusive, func(h *ringproof.History) {
			goes(h, 6)
			add(h, ringproof.Operation{Call: sec(5), Return: sec(6), Err: "timeout", Request: ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{
				{Kind: ringproof.RequestDelete, Key: "/w/a"}, {Kind: ringproof.RequestDelete, Key: "/w/b"}}}})
		}, "0 were seen to run out"},
		"a renewal is refused": {leasesKeepTheirTime, passes, func(h *ringproof.History) {
			add(h, ringproof.Operation{Call: sec(6), Return: sec(7), Refused: true, Err: "etcdserver: requested lease not found",
				Request: ringproof.Request{Kind: ringproof.RequestKeepAlive, Lease: 7}})
		}, ""},
		"revoked, and nobody knows whether": {leasesKeepTheirTime, passes, func(h *ringproof.History) {
			goes(h, 6)
			add(h, ringproof.Operation{Call: sec(5), Return: sec(6), Request: ringproof.Request{Kind: ringproof.RequestRevoke, Lease: 7}, Err: "timeout"})
		}, ""},
		"refused before its time": {leasesKeepTheirTime, fails, func(h *ringproof.History) {
			add(h, ringproof.Operation{Call: sec(6), Return: sec(7), Refused: true, Err: "etcdserver: requested lease not found",
				Request: ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{{Kind: ringproof.RequestPut, Key: "/w/a", Value: "z", Lease: 7}}}})
		}, "refused at 7s for want of it"},
		"still there long after": {leasesKeepTheirTime, fails, func(h *ringproof.History) { late(h) }, "saw /w/a under it"},
		"still there after the last fault": {leasesKeepTheirTime, ringproof.Inconclusive, func(h *ringproof.History) {
			late(h)
			h.Events = []ringproof.Event{{At: sec(30), Kind: ringproof.EventFaultHealed}}
		}, "0 were revoked and 0 were seen to run out"},
		"no lease": {leasesKeepTheirTime, ringproof.Inconclusive, func(h *ringproof.History) { h.Operations = h.Operations[4:] }, "no client was granted"},
		"one key stays": {linearizable, fails, func(h *ringproof.History) {
			h.Watches[0].Events = h.Watches[0].Events[:3]
			last(h).Response.KVs = []ringproof.KV{*h.Watches[0].Events[2].Prev}
		}, ""},
		"one by one": {linearizable, fails, func(h *ringproof.History) {
			h.Watches[0].Events[3].Revision, h.Watches[0].Events[3].KV.ModRevision, last(h).Response.Revision = 5, 5, 5
		}, "expected"},
		"a put after": {linearizable, fails, func(h *ringproof.History) {
			add(h, ringproof.Operation{Call: sec(12), Return: sec(13), Response: &ringproof.Response{Revision: 5},
				Request: ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/a", Value: "z", Lease: 7}})
		}, ""},
		"a put under nobody's": {linearizable, fails, func(h *ringproof.History) {
			add(h, ringproof.Operation{Call: sec(12), Return: sec(13), Response: &ringproof.Response{Revision: 5},
				Request: ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/a", Value: "z", Lease: 9}})
		}, "that nobody was granted"},
		"revoked and there": {linearizable, fails, func(h *ringproof.History) {
			late(h)
			add(h, ringproof.Operation{Call: sec(5), Return: sec(6), Response: &ringproof.Response{Revision: 3}, Request: ringproof.Request{Kind: ringproof.RequestRevoke, Lease: 7}})
		}, "expected /w/a to go with lease 7"},
		"another lease in a read": {linearizable, fails, func(h *ringproof.History) {
			late(h).Response.KVs[0].Lease = 8
		}, "lease 8"},
		"a detached key goes": {linearizable, fails, func(h *ringproof.History) {
			h.Operations[1].Request.Lease = 0
			h.Watches[0].Events[0].KV.Lease, h.Watches[0].Events[2].Prev.Lease = 0, 0
		}, "only deletions that clients asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			h := tenanted()
			c.plant(h)
			f := c.check.Finding(h, nil)
			require.Equal(t, c.want, f.Verdict, f.String())
			require.Contains(t, f.Message, c.says)
		})
	}
}
