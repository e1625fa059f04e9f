// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
)

// transaction draws one with branches; each of its puts has a value of its own,
// and none changes a key twice.
func (x *execution) transaction(value string, depth int) ringproof.Request {
	r := ringproof.Request{Kind: ringproof.RequestTxn}
	for range x.IntN(3) {
		r.If = append(r.If, ringproof.Comparison{Key: x.key(),
			Target: []string{"mod", "create", "version"}[x.IntN(3)], Is: []string{"=", "!=", "<", ">"}[x.IntN(4)]})
	}
	r.Then, r.Else = x.branch(value+"t", depth), x.branch(value+"e", depth)
	if len(r.Then) == 0 {
		r.Then = []ringproof.Request{{Kind: ringproof.RequestGet, Key: x.key()}}
	}
	return r
}

func (x *execution) key() string { return fmt.Sprintf("/w/%d", x.IntN(x.keys)) }

func (x *execution) branch(value string, depth int) []ringproof.Request {
	var all []ringproof.Request
	changed := map[string]bool{}
	for n := range x.IntN(4) {
		key := x.key()
		switch kind := x.IntN(6); {
		case kind < 2 && !changed[key]:
			changed[key] = true
			all = append(all, ringproof.Request{Kind: ringproof.RequestPut, Key: key, Value: fmt.Sprintf("%s%d", value, n)})
		case kind == 2 && !changed[key]:
			changed[key] = true
			all = append(all, ringproof.Request{Kind: ringproof.RequestDelete, Key: key})
		case kind == 3:
			all = append(all, ringproof.Request{Kind: ringproof.RequestRange, Key: "/w/", Limit: int64(x.IntN(3)), From: []string{"", "/w/1"}[x.IntN(2)]})
		case kind == 4 && depth > 0 && len(changed) == 0:
			return append(all, x.transaction(value+"n", depth-1))
		default:
			all = append(all, ringproof.Request{Kind: ringproof.RequestGet, Key: key})
		}
	}
	return all
}

// aim gives the comparisons numbers that may hold, and some reads a past.
func (x *execution) aim(r *ringproof.Request) {
	for i := range r.If {
		was := x.now(r.If[i].Key, x.revision-int64(x.IntN(3)))
		r.If[i].Number = map[string]int64{"mod": mod(was), "create": was.created(), "version": was.versions()}[r.If[i].Target]
	}
	for _, branch := range [][]ringproof.Request{r.Then, r.Else} {
		for i := range branch {
			x.aim(&branch[i])
			if branch[i].Kind == ringproof.RequestGet && x.IntN(3) == 0 {
				branch[i].Revision = 1 + int64(x.IntN(int(x.revision)))
			}
		}
	}
}

// transact answers as etcd does. It compares everything with the state before,
// and sees what it wrote itself.
func (x *execution) transact(r *ringproof.Request) ringproof.Response {
	before, wrote := x.revision, false
	answer := x.carryOut(r, before, &wrote)
	answer.Revision = x.revision
	return answer
}

func (x *execution) carryOut(r *ringproof.Request, before int64, wrote *bool) ringproof.Response {
	change := func(key, value string, lease int64, deletes bool) {
		if !*wrote {
			x.revision++
		}
		*wrote = true
		x.change(key, value, lease, deletes)
	}
	answer := ringproof.Response{Succeeded: !slices.ContainsFunc(r.If, func(c ringproof.Comparison) bool { return !holds(&c, x.now(c.Key, before)) })}
	branch := r.Else
	if answer.Succeeded {
		branch = r.Then
	}
	for i := range branch {
		each, result := &branch[i], ringproof.Response{}
		at := x.revision
		if each.Revision > 0 {
			at = each.Revision
		}
		switch each.Kind {
		case ringproof.RequestPut:
			change(each.Key, each.Value, each.Lease, false)
		case ringproof.RequestDelete:
			if x.now(each.Key, at) != nil {
				change(each.Key, "", 0, true)
				result.Deleted = 1
			}
		case ringproof.RequestGet:
			result.KVs = x.get(each.Key, at)
		case ringproof.RequestRange:
			result = page(x.rangeAt("/w/", at), each)
		default:
			result = x.carryOut(each, before, wrote)
		}
		answer.Results = append(answer.Results, result)
	}
	return answer
}

func page(kvs []ringproof.KV, r *ringproof.Request) (answer ringproof.Response) {
	kvs = slices.DeleteFunc(kvs, func(kv ringproof.KV) bool { return kv.Key < r.From })
	if r.Limit > 0 && len(kvs) > int(r.Limit) {
		kvs, answer.More = kvs[:r.Limit], true
	}
	answer.KVs = kvs
	return answer
}

func transactions(t *rapid.T) execution {
	return execution{
		chance: drawn{t}, ops: rapid.IntRange(1, 40).Draw(t, "ops"), clients: 3, keys: 3, foreign: 8, general: 1,
		unknown: rapid.SampledFrom([]int{0, 6}).Draw(t, "unknown"), serializable: 6, watched: rapid.Bool().Draw(t, "watched"),
	}
}

func TestTransactionsOfACorrectEtcdPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := transactions(t)
		h := x.run()
		if h.Acked() == 0 {
			return
		}
		for _, c := range []Check{linearizable, watchGuarantees, acknowledgedWritesSurvive, revisionMonotone} {
			f := c.Finding(&h, nil)
			require.NotEqual(t, ringproof.Fail, f.Verdict, "%s\n%s", f, opsText(&h))
			if c.Name == linearizable.Name && (x.watched || x.unknown == 0) {
				require.Equal(t, ringproof.Pass, f.Verdict, "%s\n%s", f, opsText(&h))
			}
		}
	})
}

// broken is what a wrong etcd answers to a transaction. Each reports whether it
// changed anything.
var broken = map[string]func(x *execution, r *ringproof.Response) bool{
	"other branch": func(_ *execution, r *ringproof.Response) bool { r.Succeeded = !r.Succeeded; return true },
	"a result is missing": func(_ *execution, r *ringproof.Response) bool {
		r.Results = r.Results[:len(r.Results)-1]
		return true
	},
	"an old value": func(x *execution, r *ringproof.Response) bool {
		return inResults(r, func(r *ringproof.Response) bool {
			if len(r.KVs) > 0 {
				r.KVs[0].Value += "?"
			}
			return len(r.KVs) > 0
		})
	},
	"a key is gone": func(x *execution, r *ringproof.Response) bool {
		return inResults(r, func(r *ringproof.Response) bool {
			if len(r.KVs) > 0 {
				r.KVs = r.KVs[1:]
				return true
			}
			return false
		})
	},
	"more that isn't": func(x *execution, r *ringproof.Response) bool {
		return inResults(r, func(r *ringproof.Response) bool {
			if len(r.KVs) > 0 && !r.More && r.KVs[len(r.KVs)-1].Key == "/w/2" {
				r.More = true
				return true
			}
			return false
		})
	},
	"nothing deleted": func(x *execution, r *ringproof.Response) bool {
		return inResults(r, func(r *ringproof.Response) bool {
			if r.Deleted > 0 {
				r.Deleted = 0
				return true
			}
			return false
		})
	},
	"its own revision": func(_ *execution, r *ringproof.Response) bool { r.Revision++; return true },
}

func inResults(r *ringproof.Response, change func(*ringproof.Response) bool) bool {
	for i := range r.Results {
		if len(r.Results[i].Results) > 0 && inResults(&r.Results[i], change) || change(&r.Results[i]) {
			return true
		}
	}
	return false
}

func TestTransactionsOfABrokenEtcdFail(t *testing.T) {
	for name, spoil := range broken {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			broke, caught := 0, 0
			rapid.Check(t, func(t *rapid.T) {
				x := execution{chance: drawn{t}, ops: 30, clients: 2, keys: 3, general: 1, watched: true}
				h := x.run()
				n := slices.IndexFunc(h.Operations, func(o ringproof.Operation) bool {
					return o.Response != nil && len(o.Response.Results) > 0 && spoil(&x, o.Response)
				})
				if n < 0 {
					return
				}
				broke++
				switch f := linearizable.Finding(&h, nil); {
				case f.Verdict == ringproof.Fail:
					caught++
				case name != "its own revision" && name != "other branch":
					t.Fatalf("%s: %s\n%s", name, f, opsText(&h))
				}
			})
			require.NotZero(t, broke)
			require.Greater(t, caught, broke/4)
		})
	}
}

// TestATransactionThatAnUnansweredWriteMayExplain can't be told: the write may
// have come before it.
func TestATransactionThatAnUnansweredWriteMayExplain(t *testing.T) {
	read := ringproof.Request{Kind: ringproof.RequestTxn, If: []ringproof.Comparison{{Key: "/w/0", Target: "version", Is: ">", Number: 1}},
		Then: []ringproof.Request{{Kind: ringproof.RequestGet, Key: "/w/1"}}}
	h := ringproof.History{Operations: []ringproof.Operation{
		{ID: 1, Call: 1, Return: 2, Request: ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/0", Value: "a"}, Response: &ringproof.Response{Revision: 2}},
		{ID: 2, Call: 3, Return: 4, Request: ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/0", Value: "b"}, Err: "timed out"},
		{ID: 3, Call: 5, Return: 6, Request: read, Response: &ringproof.Response{Revision: 3, Succeeded: true, Results: []ringproof.Response{{}}}},
	}}
	f := linearizable.Finding(&h, nil)
	require.Equal(t, ringproof.Inconclusive, f.Verdict, f.String())
	h.Operations[1].Refused = true
	f = linearizable.Finding(&h, nil)
	require.Equal(t, ringproof.Fail, f.Verdict, f.String())
}

// TestPartsOfATransactionShareARevision: of three writes without an answer all
// were done before the first that has one, which only the version tells; the
// transaction that tells it writes two keys in doubt.
func TestPartsOfATransactionShareARevision(t *testing.T) {
	put := func(id int, value string, answer *ringproof.Response) ringproof.Operation {
		return ringproof.Operation{ID: id, Call: ringproof.Instant(3*id + 1), Return: ringproof.Instant(3*id + 2),
			Request: ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/0", Value: value}, Response: answer}
	}
	other := put(2, "c", nil)
	other.Request.Key = "/w/1"
	both := ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{
		{Kind: ringproof.RequestPut, Key: "/w/0", Value: "d"}, {Kind: ringproof.RequestPut, Key: "/w/1", Value: "e"},
		{Kind: ringproof.RequestGet, Key: "/w/0"}, {Kind: ringproof.RequestGet, Key: "/w/1"}}}
	h := ringproof.History{Operations: []ringproof.Operation{
		put(0, "a", nil), put(1, "b", &ringproof.Response{Revision: 4}), other,
		{ID: 3, Call: 13, Return: 14, Request: both, Response: &ringproof.Response{Revision: 6, Succeeded: true, Results: []ringproof.Response{{}, {},
			{KVs: []ringproof.KV{{Key: "/w/0", Value: "d", CreateRevision: 2, ModRevision: 6, Version: 3}}},
			{KVs: []ringproof.KV{{Key: "/w/1", Value: "e", CreateRevision: 5, ModRevision: 6, Version: 2}}}}}},
	}}
	f := linearizable.Finding(&h, nil)
	require.NotEqual(t, ringproof.Fail, f.Verdict, f.String())
	h.Operations[3].Response.Results[2].KVs[0].Version = 5 // more writes than there were
	f = linearizable.Finding(&h, nil)
	require.Equal(t, ringproof.Fail, f.Verdict, f.String())
}

// TestABranchThatNobodyKnows: what the transaction compared depends on a write
// without an answer, and only what it did in either case was seen.
func TestABranchThatNobodyKnows(t *testing.T) {
	inner := ringproof.Request{Kind: ringproof.RequestTxn, If: []ringproof.Comparison{{Key: "/w/0", Target: "mod", Is: "=", Number: 2}},
		Then: []ringproof.Request{{Kind: ringproof.RequestPut, Key: "/w/1", Value: "c"}}}
	outer := ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{inner, {Kind: ringproof.RequestPut, Key: "/w/2", Value: "d"}}}
	h := ringproof.History{Operations: []ringproof.Operation{
		{ID: 0, Call: 1, Return: 2, Request: ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/0", Value: "a"}},
		{ID: 1, Call: 3, Return: 4, Request: outer},
		{ID: 2, Call: 5, Return: 6, Request: ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/0", Value: "b"}, Response: &ringproof.Response{Revision: 9}},
	}}
	h.Evidence.Revision = 9
	h.Evidence.Dump = []ringproof.KV{{Key: "/w/0", Value: "b", CreateRevision: 2, ModRevision: 9, Version: 2},
		{Key: "/w/1", Value: "c", CreateRevision: 5, ModRevision: 5, Version: 1}, {Key: "/w/2", Value: "d", CreateRevision: 5, ModRevision: 5, Version: 1}}
	for _, c := range []Check{linearizable, acknowledgedWritesSurvive} {
		f := c.Finding(&h, nil)
		require.NotEqual(t, ringproof.Fail, f.Verdict, f.String())
	}
}

// TestDeletionsOfATransactionWithoutAnAnswer are of one revision, and all are
// its doing.
func TestDeletionsOfATransactionWithoutAnAnswer(t *testing.T) {
	put := func(id int, key string) ringproof.Operation {
		return ringproof.Operation{ID: id, Call: ringproof.Instant(3 * id), Return: ringproof.Instant(3*id + 1),
			Request: ringproof.Request{Kind: ringproof.RequestPut, Key: key, Value: key}, Response: &ringproof.Response{Revision: int64(id + 1)}}
	}
	event := func(key string, revision int64, deleted bool) ringproof.WatchEvent {
		e := ringproof.WatchEvent{Revision: revision, Delete: deleted, Create: !deleted, KV: ringproof.KV{Key: key, ModRevision: revision}}
		if !deleted {
			e.KV.Value, e.KV.CreateRevision, e.KV.Version = key, revision, 1
		}
		return e
	}
	h := ringproof.History{Operations: []ringproof.Operation{put(1, "/w/0"), put(2, "/w/1"),
		{ID: 3, Call: 9, Return: 10, Request: ringproof.Request{Kind: ringproof.RequestTxn,
			Then: []ringproof.Request{{Kind: ringproof.RequestDelete, Key: "/w/0"}, {Kind: ringproof.RequestDelete, Key: "/w/1"}}}}}}
	h.Watches = []ringproof.Watch{{Endpoint: "m1", Start: 1, Events: []ringproof.WatchEvent{
		event("/w/0", 2, false), event("/w/1", 3, false), event("/w/0", 4, true), event("/w/1", 4, true)}}}
	h.Evidence.Revision = 4
	for _, c := range []Check{linearizable, acknowledgedWritesSurvive, watchGuarantees} {
		f := c.Finding(&h, nil)
		require.Equal(t, ringproof.Pass, f.Verdict, f.String())
	}
	h.Operations[2].Request.Then = h.Operations[2].Request.Then[:1] // and who deleted the other?
	f := linearizable.Finding(&h, nil)
	require.Equal(t, ringproof.Fail, f.Verdict, f.String())
}
