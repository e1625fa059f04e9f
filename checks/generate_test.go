// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
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
	forgets            int // the nth write answers without effect: a bug; 0: none

	revision int64
	log      map[string][]change
	events   []ringproof.WatchEvent
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
		}
		if p.silent && !p.applied {
			continue
		}
		answer := x.do(p.op.Request, x.forgets > 0 && writes == x.forgets && p.op.Request.Kind == ringproof.RequestPut)
		if !p.silent {
			p.op.Response = &answer
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
	return all
}

func (x *execution) request(i int) ringproof.Request {
	key := fmt.Sprintf("/w/%d", x.IntN(x.keys))
	stale := func() bool { return x.serializable > 0 && x.IntN(x.serializable) == 0 }
	switch n := x.IntN(100); {
	case n < 40:
		return ringproof.Request{Kind: ringproof.RequestPut, Key: key, Value: fmt.Sprintf("v%d", i)}
	case n < 65:
		return ringproof.Request{Kind: ringproof.RequestGet, Key: key, Serializable: stale()}
	case n < 75:
		return ringproof.Request{Kind: ringproof.RequestRange, Key: "/w/", Serializable: stale()}
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
		h.Watches = []ringproof.Watch{{Client: 0, Endpoint: "m1", Start: 1, Events: x.events}}
	}
	h.Evidence.Revision = x.revision
	h.Evidence.Dump = x.rangeAt("", x.revision)
	return h
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
	was := x.now(key, x.revision)
	x.revision++
	c := change{revision: x.revision, create: x.revision, version: 1, value: value, deleted: deletes}
	e := ringproof.WatchEvent{Revision: x.revision, Delete: deletes, KV: ringproof.KV{Key: key, ModRevision: x.revision}}
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
	return ringproof.KV{Key: key, Value: c.value, CreateRevision: c.create, ModRevision: c.revision, Version: c.version}
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
			x.write(r.Key, r.Value, false)
		}
		return ringproof.Response{Revision: x.revision}
	case ringproof.RequestDelete:
		if x.now(r.Key, at) == nil {
			return ringproof.Response{Revision: at}
		}
		x.write(r.Key, "", true)
		return ringproof.Response{Revision: x.revision, Deleted: 1}
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
