// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
)

// plain gives porcupine all that clients were told, and nothing more: no
// revisions worked out, no segments.
func plain(h *ringproof.History) (porcupine.Model, []porcupine.Operation) {
	t := &timeline{h: h, keys: map[string]int{}, prefixes: map[string][]int{}}
	t.intern()
	m := &etcdModel{names: t.names, budget: math.MaxInt, from: make([]int64, len(t.names)), start: store{revision: 1, cells: make([]cell, len(t.names))}}
	var attempts []attempt
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Response == nil && (!o.Request.Writes() || o.Refused) {
			continue
		}
		a := attempt{op: o, keys: []int{t.keys[o.Request.Key]}, effect: tookEffect(o)}
		if o.Request.Kind == ringproof.RequestRange {
			a.keys = t.under(o.Request.Key)
		}
		if o.Response != nil {
			a.revision = readAt(o)
		}
		if a.effect {
			t.writes = append(t.writes, write{a.revision, i})
		}
		attempts = append(attempts, a)
	}
	m.taken = t.taken()
	return m.porcupine(), operations(attempts)
}

func plainly(h *ringproof.History) porcupine.CheckResult {
	m, ops := plain(h)
	return porcupine.CheckOperationsTimeout(m, ops, 5*time.Second)
}

func TestLinearizableAgreesWithPorcupine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := execution{
			chance: drawn{t}, ops: rapid.IntRange(1, 40).Draw(t, "ops"), clients: 3, keys: 2, foreign: 8,
			unknown: rapid.SampledFrom([]int{0, 6}).Draw(t, "unknown"), serializable: 6, watched: rapid.Bool().Draw(t, "watched"),
		}
		h := x.run()
		f := linearizable.Finding(&h, nil)
		if h.Acked() > 0 {
			require.Equal(t, ringproof.Pass, f.Verdict, f.String())
		}
		require.Equal(t, porcupine.Ok, plainly(&h))
		require.NotEqual(t, ringproof.Fail, watchGuarantees.Finding(&h, nil).Verdict, watchGuarantees.Finding(&h, nil).String())
		kept := acknowledgedWritesSurvive.Finding(&h, nil)
		require.NotEqual(t, ringproof.Fail, kept.Verdict, "%s\n%s", kept, opsText(&h))
	})
}

// mutations are what a broken etcd does to one answer.
var mutations = map[string]func(x *execution, h *ringproof.History, o *ringproof.Operation){
	"stale read": func(x *execution, h *ringproof.History, o *ringproof.Operation) {
		if o.Request.Kind == ringproof.RequestGet {
			o.Response.KVs = x.get(o.Request.Key, o.Response.Revision-1-int64(x.IntN(3)))
		}
	},
	"old revision": func(x *execution, h *ringproof.History, o *ringproof.Operation) {
		o.Response.Revision = max(1, o.Response.Revision-int64(1+x.IntN(3)))
	},
	"swapped value": func(x *execution, h *ringproof.History, o *ringproof.Operation) {
		if len(o.Response.KVs) > 0 {
			o.Response.KVs = slices.Clone(o.Response.KVs)
			o.Response.KVs[0].Value = fmt.Sprintf("v%d", x.IntN(x.ops))
		}
	},
	"reordered revisions": func(x *execution, h *ringproof.History, o *ringproof.Operation) {
		other := &h.Operations[x.IntN(len(h.Operations))]
		if tookEffect(o) && tookEffect(other) {
			o.Response.Revision, other.Response.Revision = other.Response.Revision, o.Response.Revision
		}
	},
	"wrong outcome": func(x *execution, h *ringproof.History, o *ringproof.Operation) {
		switch o.Request.Kind {
		case ringproof.RequestTxn:
			o.Response.Succeeded, o.Response.KVs = !o.Response.Succeeded, nil
		case ringproof.RequestDelete:
			o.Response.Deleted = 1 - o.Response.Deleted
		}
	},
}

func TestLinearizableCatchesWhatPorcupineCatches(t *testing.T) {
	for name, mutate := range mutations {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			caught := 0
			property := func(t *rapid.T) {
				x := execution{chance: drawn{t}, ops: rapid.IntRange(2, 40).Draw(t, "ops"), clients: 3, keys: 2,
					unknown: rapid.SampledFrom([]int{0, 6}).Draw(t, "unknown")}
				h := x.run()
				o := &h.Operations[x.IntN(len(h.Operations))]
				if o.Response == nil {
					return
				}
				mutate(&x, &h, o)
				h.Evidence = ringproof.Evidence{}
				caught += agree(t, &h, x.unknown == 0)
			}
			// Most mutations of most executions are harmless, and -short makes few.
			for round := 0; round == 0 || caught == 0 && round < 50; round++ {
				rapid.Check(t, property)
			}
			require.NotZero(t, caught, "the mutation must break some executions")
		})
	}
}

// agree compares both judges. Where writes have no answer, ours may know more:
// a value read twice with two revisions is two writes, which the plain model
// doesn't follow.
func agree(t *rapid.T, h *ringproof.History, exact bool) int {
	f, theirs := linearizable.Finding(h, map[string]string{"checkTimeout": "5s"}), plainly(h)
	switch {
	case exact && (f.Verdict == ringproof.Fail) != (theirs == porcupine.Illegal),
		f.Verdict == ringproof.Pass && theirs == porcupine.Illegal:
		t.Fatalf("porcupine says %s, the check %s\n%s", theirs, f, opsText(h))
	}
	if theirs == porcupine.Illegal {
		return 1
	}
	return 0
}

func opsText(h *ringproof.History) string {
	var b strings.Builder
	for i := range h.Operations {
		fmt.Fprintln(&b, operationText(&h.Operations[i]))
	}
	return b.String()
}

// until draws until some were found. Of the twenty histories of a short run there may be none.
func until(t *testing.T, found *int, draw func(*rapid.T)) {
	t.Helper()
	for range 5 {
		if rapid.Check(t, draw); *found > 0 || t.Failed() {
			return
		}
	}
	require.NotZero(t, *found)
}

func TestLinearizableCatchesALostWrite(t *testing.T) {
	caught := 0
	until(t, &caught, func(t *rapid.T) {
		x := execution{chance: drawn{t}, ops: 40, clients: 3, keys: 2, forgets: 1 + rapid.IntRange(0, 10).Draw(t, "forgets")}
		h := x.run()
		h.Evidence = ringproof.Evidence{}
		caught += agree(t, &h, true)
	})
}

// TestLinearizableAgreesWithEtcd judges the same histories by the model of
// etcd's own robustness tests. That one knows no gaps, so none are made.
func TestLinearizableAgreesWithEtcd(t *testing.T) {
	fails := 0
	until(t, &fails, func(t *rapid.T) {
		x := execution{chance: drawn{t}, ops: rapid.IntRange(2, 25).Draw(t, "ops"), clients: 3, keys: 2,
			unknown: rapid.SampledFrom([]int{0, 8}).Draw(t, "unknown")}
		h := x.run()
		if rapid.Bool().Draw(t, "mutate") {
			name := rapid.SampledFrom([]string{"stale read", "old revision", "reordered revisions", "wrong outcome"}).Draw(t, "mutation")
			if o := &h.Operations[x.IntN(len(h.Operations))]; o.Response != nil {
				mutations[name](&x, &h, o)
			}
		}
		h.Evidence = ringproof.Evidence{}
		if h.Acked() == 0 {
			return
		}
		f, theirs := linearizable.Finding(&h, nil), etcdJudges(&h)
		if theirs == porcupine.Unknown || f.Verdict == ringproof.Inconclusive {
			return
		}
		// Theirs knows that no revision is anyone else's, so it may find fault
		// where we allow a gap. Ours looks at creation revisions, theirs doesn't.
		switch {
		case f.Verdict == ringproof.Fail && theirs == porcupine.Illegal:
			fails++
		case f.Verdict == ringproof.Fail:
			require.True(t, wrongOfItsCreation(&h), "%s\n%s", f, opsText(&h))
			require.Equal(t, porcupine.Illegal, plainly(&h), "%s\n%s", f, opsText(&h))
		case theirs == porcupine.Ok:
			require.Equal(t, ringproof.Pass, f.Verdict, f.String())
		}
	})
}

// wrongOfItsCreation reports whether something that was read is told to have been
// created when it wasn't.
func wrongOfItsCreation(h *ringproof.History) bool {
	t := rebuild(h)
	t.judgeReads()
	return slices.ContainsFunc(t.wrongs, func(w wrong) bool { return strings.Contains(w.message, "create ") })
}

func etcdJudges(h *ringproof.History) porcupine.CheckResult {
	var ops []porcupine.Operation
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Response == nil && !o.Request.Writes() {
			continue
		}
		made := porcupine.Operation{ClientId: o.Client, Call: int64(o.Call), Return: int64(o.Return), Input: etcdRequest(o.Request)}
		if o.Response == nil {
			made.Return, made.Output = math.MaxInt64, model.MaybeEtcdResponse{Error: o.Err}
		} else {
			made.Output = etcdResponse(o)
		}
		ops = append(ops, made)
	}
	keys := []string{"/w/0", "/w/1"}
	return porcupine.CheckOperationsTimeout(model.NonDeterministicModel(keys), ops, 2*time.Second)
}

func etcdRequest(r ringproof.Request) model.EtcdRequest {
	get := model.EtcdOperation{Type: model.RangeOperation, Range: model.RangeOptions{Start: r.Key}}
	put := model.EtcdOperation{Type: model.PutOperation, Put: model.PutOptions{Key: r.Key, Value: model.ToValueOrHash(r.Value)}}
	switch r.Kind {
	case ringproof.RequestGet:
		return model.EtcdRequest{Type: model.Range, Range: &model.RangeRequest{RangeOptions: get.Range}}
	case ringproof.RequestRange:
		return model.EtcdRequest{Type: model.Range, Range: &model.RangeRequest{RangeOptions: model.RangeOptions{Start: r.Key, End: "/w0"}}}
	case ringproof.RequestPut:
		return model.EtcdRequest{Type: model.Txn, Txn: &model.TxnRequest{OperationsOnSuccess: []model.EtcdOperation{put}}}
	case ringproof.RequestDelete:
		gone := model.EtcdOperation{Type: model.DeleteOperation, Delete: model.DeleteOptions{Key: r.Key}}
		return model.EtcdRequest{Type: model.Txn, Txn: &model.TxnRequest{OperationsOnSuccess: []model.EtcdOperation{gone}}}
	}
	return model.EtcdRequest{Type: model.Txn, Txn: &model.TxnRequest{
		Conditions:          []model.EtcdCondition{{Key: r.Key, ExpectedRevision: r.Compare}},
		OperationsOnSuccess: []model.EtcdOperation{put}, OperationsOnFailure: []model.EtcdOperation{get},
	}}
}

func etcdResponse(o *ringproof.Operation) model.MaybeEtcdResponse {
	r := o.Response
	found := model.RangeResponse{KVs: []model.KeyValue{}, Count: int64(len(r.KVs))}
	for _, kv := range r.KVs {
		found.KVs = append(found.KVs, model.KeyValue{Key: kv.Key, ValueRevision: model.ValueRevision{
			Value: model.ToValueOrHash(kv.Value), ModRevision: kv.ModRevision, Version: kv.Version,
		}})
	}
	answer := model.EtcdResponse{Revision: r.Revision}
	switch o.Request.Kind {
	case ringproof.RequestGet, ringproof.RequestRange:
		answer.Range = &found
	case ringproof.RequestDelete:
		answer.Txn = &model.TxnResponse{Results: []model.EtcdOperationResult{{Deleted: r.Deleted}}}
	case ringproof.RequestPut:
		answer.Txn = &model.TxnResponse{Results: []model.EtcdOperationResult{{}}}
	default:
		answer.Txn = &model.TxnResponse{Failure: !r.Succeeded, Results: []model.EtcdOperationResult{{}}}
		if !r.Succeeded {
			answer.Txn.Results[0].RangeResponse = found
		}
	}
	return model.MaybeEtcdResponse{EtcdResponse: answer}
}

func TestLinearizableAtLength(t *testing.T) {
	h := realistic(20_000, true)
	f := linearizable.Finding(&h, nil)
	require.Equal(t, ringproof.Pass, f.Verdict, f.String())

	// Without a watch nobody knows which unanswered writes took effect, and
	// porcupine has to find out.
	h = realistic(2_000, false)
	f = linearizable.Finding(&h, nil)
	require.Equal(t, ringproof.Pass, f.Verdict, f.String())
	require.Contains(t, f.Message, "porcupine")
	f = linearizable.Finding(&h, map[string]string{"checkOps": "10"})
	require.Equal(t, ringproof.Inconclusive, f.Verdict, f.String())
}

func TestVisualize(t *testing.T) {
	h := realistic(2_000, true)
	f := linearizable.Finding(&h, nil)
	_, drawn := Visualize(&h, f)
	require.False(t, drawn, "nothing went wrong, so there is nothing to draw")

	at := slices.IndexFunc(h.Operations, func(o ringproof.Operation) bool {
		return o.Call > 10_000 && o.Request.Kind == ringproof.RequestGet && o.Response != nil && len(o.Response.KVs) > 0
	})
	h.Operations[at].Response.KVs[0].Value = "v0"
	h.Events = []ringproof.Event{{At: h.Operations[at].Call, Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultKill, Machine: "m2"}}
	f = linearizable.Finding(&h, nil)
	require.Equal(t, ringproof.Fail, f.Verdict)
	page, drawn := Visualize(&h, f)
	require.True(t, drawn)
	require.Contains(t, string(page), "kill")
	require.Less(t, len(page), 2<<20)
}

// TestPictureOfASearchThatGaveUp: porcupine takes the steps of the search again to draw them, and
// panics where one is refused that was taken before.
func TestPictureOfASearchThatGaveUp(t *testing.T) {
	h := realistic(200, false)
	all := rebuild(&h)
	segments, attempts := all.around(wrong{op: -1})
	for _, budget := range []int{0, 1, 50} {
		m := all.model(segments)
		m.budget = budget
		_, drawn := picture(m, attempts, nil)
		require.True(t, m.spent, "else the search came to its end")
		require.True(t, drawn)
	}
}

// heapWatch samples the heap while f runs; its peak is what a run must have.
func heapWatch(f func()) (peak uint64) {
	var stop atomic.Bool
	done := make(chan uint64)
	go func() {
		var top uint64
		for !stop.Load() {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			top = max(top, m.HeapAlloc)
			time.Sleep(5 * time.Millisecond)
		}
		done <- top
	}()
	f()
	stop.Store(true)
	return <-done
}

func benchmark(b *testing.B, sizes []int, judge func(*ringproof.History) bool) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("%dops", n), func(b *testing.B) {
			h := realistic(n, true)
			runtime.GC()
			b.ReportAllocs()
			b.ResetTimer()
			var peak uint64
			for range b.N {
				peak = max(peak, heapWatch(func() {
					if !judge(&h) {
						b.Skip("no verdict within the bound")
					}
				}))
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "op/s")
			b.ReportMetric(float64(peak)/(1<<20), "peak-MB")
		})
	}
}

func BenchmarkLinearizable(b *testing.B) {
	benchmark(b, []int{1_000, 5_000, 10_000, 100_000}, func(h *ringproof.History) bool {
		return linearizable.Finding(h, nil).Verdict == ringproof.Pass
	})
}

// BenchmarkPorcupine ends early on purpose: its memory grows with the square
// of the operations.
func BenchmarkPorcupine(b *testing.B) {
	benchmark(b, []int{1_000, 5_000, 10_000}, func(h *ringproof.History) bool {
		m, ops := plain(h)
		return porcupine.CheckOperationsTimeout(m, ops, 20*time.Second) == porcupine.Ok
	})
}

// TestAWriteComesAfterAllThatWasTold: of another key, too. A delete that found nothing at revision 3
// is explained by no delete that was called once a put had been answered at revision 4.
func TestAWriteComesAfterAllThatWasTold(t *testing.T) {
	op := func(client int, from, to ringproof.Instant, kind ringproof.RequestKind, key string, revision int64) ringproof.Operation {
		o := ringproof.Operation{Client: client, Call: from, Return: to, Request: ringproof.Request{Kind: kind, Key: key, Value: fmt.Sprint("v", from)}}
		if revision > 0 {
			o.Response = &ringproof.Response{Revision: revision}
		}
		return o
	}
	for late, want := range map[ringproof.Instant]ringproof.Verdict{3: ringproof.Pass, 5: ringproof.Fail} {
		h := ringproof.History{Operations: []ringproof.Operation{
			op(0, 1, 2, ringproof.RequestPut, "/w/1", 2),
			op(1, 3, 9, ringproof.RequestDelete, "/w/1", 3),
			op(2, 3, 4, ringproof.RequestPut, "/w/0", 4),
			op(3, 3, ringproof.Forever, ringproof.RequestPut, "/w/0", 0),
			op(4, late, ringproof.Forever, ringproof.RequestDelete, "/w/1", 0),
			op(2, 7, 8, ringproof.RequestPut, "/w/0", 6), // so that the delete may have been done since
		}}
		for i := range h.Operations {
			h.Operations[i].ID = i
		}
		f := linearizable.Finding(&h, nil)
		require.Equal(t, want, f.Verdict, "called at %v: %s", late, f)
	}
}
