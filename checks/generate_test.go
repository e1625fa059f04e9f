// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	_ "github.com/ringproof/ringproof/internal/needs" // the seed, in CI
)

// chance is where a generated execution takes its choices from.
type chance interface{ IntN(n int) int }

// drawn takes choices from rapid, so that a failing execution shrinks.
type drawn struct{ t *rapid.T }

func (d drawn) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "") }

// execution generates what clients of one correct etcd see: each operation
// takes effect at a real moment between its call and its return.
type execution struct {
	chance
	ops, clients, keys int
	foreign            int // one revision in so many is the subject's; 0: none
	unknown            int // one operation in so many gets no answer; 0: none
	serializable       int // one read in so many is stale; 0: none
	watched            bool
	gaps               int // one revision in so many is shown by no stream; 0: all are
	general            int // one transaction in so many has branches of its own; 0: none
	leases             int // one request in so many is about a lease, and many puts name one; 0: none
	forgets            int // the nth write answers without effect: a bug; 0: none

	at       ringproof.Instant // when what is done now takes effect
	revision int64
	log      map[string][]change
	events   []ringproof.WatchEvent
	granted  []tenancy
}

// tenancy is a lease of the execution, and when its client knows of it.
type tenancy struct {
	id    int64
	known ringproof.Instant // Forever: its grant had no answer
	until ringproof.Instant // it can't run out before
	over  bool
}

type planned struct {
	op      ringproof.Operation
	effect  ringproof.Instant
	silent  bool // no answer
	applied bool
}

func (x *execution) run() ringproof.History {
	x.revision, x.log = 1, map[string][]change{}
	all := x.schedule()
	slices.SortStableFunc(all, func(a, b *planned) int { return cmp.Compare(a.effect, b.effect) })
	writes := 0
	for i, p := range all {
		if x.foreign > 0 && x.IntN(x.foreign) == 0 {
			x.write("/ringadm/leader", fmt.Sprintf("f%d", i), false)
		}
		if p.op.Request.Writes() {
			writes++
		}
		if p.op.Request.Kind == ringproof.RequestTxn { // now, or a little stale
			p.op.Request.Compare = mod(x.now(p.op.Request.Key, x.revision-int64(x.IntN(4))))
			x.aim(&p.op.Request)
		}
		if x.at = p.effect; x.leases > 0 {
			x.expire()
			x.lease(&p.op.Request, p.op.Call)
		}
		if p.silent && !p.applied {
			continue
		}
		if x.wanting(&p.op.Request, x.revision) {
			p.op.Refused, p.op.Err = !p.silent, "etcdserver: requested lease not found"
			continue
		}
		answer := x.do(p.op.Request, x.forgets > 0 && writes == x.forgets && p.op.Request.Kind == ringproof.RequestPut)
		if !p.silent {
			p.op.Response = &answer
			if p.op.Request.Kind == ringproof.RequestGrant {
				x.granted[len(x.granted)-1].known = p.op.Return
			}
		}
	}
	return x.history(all)
}

func (x *execution) schedule() []*planned {
	free := make([]ringproof.Instant, x.clients)
	var all []*planned
	for i := range x.ops {
		client := i % x.clients
		call := free[client] + ringproof.Instant(1+x.IntN(50))
		effect := call + ringproof.Instant(1+x.IntN(30))
		p := &planned{op: ringproof.Operation{Client: client, Call: call, Request: x.request(i)}, effect: effect, applied: true}
		p.op.Return = effect + ringproof.Instant(1+x.IntN(30))
		if x.unknown > 0 && x.IntN(x.unknown) == 0 {
			p.silent, p.applied = true, x.IntN(2) == 0
			p.op.Err = "context deadline exceeded"
			p.effect += ringproof.Instant(x.IntN(80)) // after the client gave up
		}
		free[client] = p.op.Return
		all = append(all, p)
	}
	if x.leases > 0 { // which live for seconds
		for _, p := range all {
			p.op.Call, p.op.Return, p.effect = p.op.Call*tick, p.op.Return*tick, p.effect*tick
		}
	}
	return all
}

func (x *execution) request(i int) ringproof.Request {
	key := fmt.Sprintf("/w/%d", x.IntN(x.keys))
	if x.leases > 0 && x.IntN(x.leases) == 0 {
		return ringproof.Request{Kind: []ringproof.RequestKind{ringproof.RequestGrant, ringproof.RequestGrant, ringproof.RequestKeepAlive, ringproof.RequestRevoke}[x.IntN(4)]}
	}
	stale := func() bool { return x.serializable > 0 && x.IntN(x.serializable) == 0 }
	switch n := x.IntN(100); {
	case n < 40:
		return ringproof.Request{Kind: ringproof.RequestPut, Key: key, Value: fmt.Sprintf("v%d", i)}
	case n < 65:
		return ringproof.Request{Kind: ringproof.RequestGet, Key: key, Serializable: stale()}
	case n < 75:
		return ringproof.Request{Kind: ringproof.RequestRange, Key: "/w/", Serializable: stale()}
	case n < 90 && x.general > 0 && x.IntN(x.general) == 0:
		return x.transaction(fmt.Sprintf("v%d", i), 1)
	case n < 90:
		return ringproof.Request{Kind: ringproof.RequestTxn, Key: key, Value: fmt.Sprintf("v%d", i)}
	default:
		return ringproof.Request{Kind: ringproof.RequestDelete, Key: key}
	}
}

func (x *execution) history(all []*planned) ringproof.History {
	slices.SortStableFunc(all, func(a, b *planned) int { return cmp.Compare(a.op.Call, b.op.Call) })
	var h ringproof.History
	for i, p := range all {
		p.op.ID = i
		h.Operations = append(h.Operations, p.op)
	}
	if x.watched {
		h.Watches = x.streams()
	}
	h.Evidence.Revision = x.revision
	h.Evidence.Dump = x.rangeAt("", x.revision)
	return h
}

// streams show every event, but those in the gaps between two of them.
func (x *execution) streams() []ringproof.Watch {
	all := []ringproof.Watch{{Client: 0, Endpoint: "m1", Start: 1}}
	for i, e := range x.events {
		last := &all[len(all)-1]
		begins := i == 0 || x.events[i-1].Revision < e.Revision
		switch {
		case begins && x.gaps > 0 && x.IntN(x.gaps) == 0:
			all = append(all, ringproof.Watch{Client: 0, Endpoint: "m1", Start: e.Revision + 1})
		case e.Revision >= last.Start:
			last.Events = append(last.Events, e)
		}
	}
	return all
}

func (x *execution) now(key string, revision int64) *change {
	log := x.log[key]
	for i := len(log) - 1; i >= 0; i-- {
		if log[i].revision <= revision {
			if log[i].deleted {
				return nil
			}
			return &log[i]
		}
	}
	return nil
}

func (x *execution) write(key, value string, deletes bool) {
	x.revision++
	x.change(key, value, 0, deletes)
}

// change is a write at the revision of now.
func (x *execution) change(key, value string, lease int64, deletes bool) {
	was := x.now(key, x.revision)
	c := change{revision: x.revision, create: x.revision, version: 1, value: value, lease: lease, deleted: deletes}
	e := ringproof.WatchEvent{At: x.at, Revision: x.revision, Delete: deletes, KV: ringproof.KV{Key: key, ModRevision: x.revision}}
	if was != nil {
		c.create, c.version = was.create, was.version+1
		prev := kvOf(key, was)
		e.Prev = &prev
	}
	if !deletes {
		e.KV, e.Create = kvOf(key, &c), c.create == c.revision
	}
	x.log[key] = append(x.log[key], c)
	x.events = append(x.events, e)
}

func kvOf(key string, c *change) ringproof.KV {
	return ringproof.KV{Key: key, Value: c.value, CreateRevision: c.create, ModRevision: c.revision, Version: c.version, Lease: c.lease}
}

func (x *execution) rangeAt(prefix string, revision int64) []ringproof.KV {
	var kvs []ringproof.KV
	for k := range x.keys {
		key := fmt.Sprintf("/w/%d", k)
		if c := x.now(key, revision); c != nil && len(prefix) <= len(key) && key[:len(prefix)] == prefix {
			kvs = append(kvs, kvOf(key, c))
		}
	}
	slices.SortFunc(kvs, func(a, b ringproof.KV) int { return cmp.Compare(a.Key, b.Key) })
	return kvs
}

func (x *execution) get(key string, revision int64) []ringproof.KV {
	if c := x.now(key, revision); c != nil {
		return []ringproof.KV{kvOf(key, c)}
	}
	return nil
}

// do answers as etcd does.
func (x *execution) do(r ringproof.Request, forget bool) ringproof.Response {
	at := x.revision
	if r.Serializable {
		at = max(1, at-int64(x.IntN(5)))
	}
	switch r.Kind {
	case ringproof.RequestGet:
		return ringproof.Response{Revision: at, KVs: x.get(r.Key, at)}
	case ringproof.RequestRange:
		return ringproof.Response{Revision: at, KVs: x.rangeAt(r.Key, at)}
	case ringproof.RequestPut:
		if forget {
			x.revision++ // taken, and not kept
		} else {
			x.revision++
			x.change(r.Key, r.Value, r.Lease, false)
		}
		return ringproof.Response{Revision: x.revision}
	case ringproof.RequestGrant:
		x.granted = append(x.granted, tenancy{id: int64(len(x.granted) + 1), known: ringproof.Forever, until: x.at.Add(lifetime)})
		return ringproof.Response{Revision: x.revision, Lease: int64(len(x.granted)), TTL: int64(lifetime / time.Second)}
	case ringproof.RequestKeepAlive:
		x.granted[r.Lease-1].until = x.at.Add(lifetime)
		return ringproof.Response{Revision: x.revision, TTL: int64(lifetime / time.Second)}
	case ringproof.RequestRevoke:
		x.end(r.Lease)
		return ringproof.Response{Revision: x.revision}
	case ringproof.RequestDelete:
		if x.now(r.Key, at) == nil {
			return ringproof.Response{Revision: at}
		}
		x.write(r.Key, "", true)
		return ringproof.Response{Revision: x.revision, Deleted: 1}
	}
	if r.General() {
		return x.transact(&r)
	}
	if mod(x.now(r.Key, at)) != r.Compare {
		return ringproof.Response{Revision: at, KVs: x.get(r.Key, at)}
	}
	x.write(r.Key, r.Value, false)
	return ringproof.Response{Revision: x.revision, Succeeded: true}
}

// realistic is the workload of the benchmarks: five clients, eight keys, and a
// few operations without an answer.
func realistic(ops int, watched bool) ringproof.History {
	x := execution{
		chance: rand.New(rand.NewPCG(1, 2)), ops: ops, clients: 5, keys: 8,
		foreign: 20, unknown: 500, serializable: 10, watched: watched,
	}
	return x.run()
}
