// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package mvcc_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	_ "github.com/ringproof/ringproof/internal/needs" // the seed, in CI
	"github.com/ringproof/ringproof/sim/etcd/mvcc"
)

// keyspace is what both have.
type keyspace interface {
	Range(*pb.RangeRequest) (*pb.RangeResponse, error)
	Put(*pb.PutRequest) (*pb.PutResponse, error)
	DeleteRange(*pb.DeleteRangeRequest) *pb.DeleteRangeResponse
	Txn(*pb.TxnRequest) (*pb.TxnResponse, error)
	Compact(int64) error
	Grant(id, ttl int64) error
	Revoke(id int64) error
	Leases() []int64
	Lease(id int64) (ttl int64, keys [][]byte, found bool)
	Hash(revision int64) (hash uint32, hashed, compactRev int64, err error)
}

var (
	_ keyspace = (*real)(nil)
	_ keyspace = (*mvcc.Store)(nil)
)

// twins are etcd's keyspace and ours, to be asked the same.
type twins struct {
	*rapid.T
	real    *real
	sim     *mvcc.Store
	watches map[int64]*watched
	nextID  int64
}

type watched struct {
	*mvcc.Watch
	req  *pb.WatchCreateRequest
	sim  []*mvccpb.Event
	real []*mvccpb.Event
}

// TestAgreesWithEtcd asks etcd's own keyspace and ours the same, in random
// order, and wants every answer, error, event and hash equal. It catches any
// departure from etcd's rules that a client or a comparison of hashes could
// see: a compaction that forgets the deletion at its own revision, changes of
// one revision in another order.
func TestAgreesWithEtcd(t *testing.T) {
	times := 5
	if testing.Short() {
		times = 1
	}
	dir, opened := t.TempDir(), 0
	for range times {
		rapid.Check(t, func(t *rapid.T) {
			opened++
			w := &twins{T: t, real: openReal(filepath.Join(dir, fmt.Sprint(opened))), sim: mvcc.New(), watches: map[int64]*watched{}}
			defer w.real.close()
			w.run()
		})
	}
}

// run begins with some keys and leases, for there is little to get wrong about
// none.
func (w *twins) run() {
	for id := range int64(3) {
		w.same("grant", nil, nil, w.real.Grant(id+1, 60), w.sim.Grant(id+1, 60))
	}
	for _, key := range someKeys {
		w.put(&pb.PutRequest{Key: []byte(key), Lease: rapid.Int64Range(0, 3).Draw(w.T, "lease")})
	}
	w.Repeat(map[string]func(*rapid.T){
		"":        func(t *rapid.T) { w.T = t; w.compareWatches() },
		"put":     func(t *rapid.T) { w.put(puts().Draw(t, "put")) },
		"put2":    func(t *rapid.T) { w.put(puts().Draw(t, "put")) },
		"put3":    func(t *rapid.T) { w.put(puts().Draw(t, "put")) },
		"delete":  func(t *rapid.T) { w.delete(deletions(true).Draw(t, "delete")) },
		"txn":     func(t *rapid.T) { w.txn(txns(2).Draw(t, "txn")) },
		"txn2":    func(t *rapid.T) { w.txn(txns(2).Draw(t, "txn")) },
		"range":   func(t *rapid.T) { w.readSome(t) },
		"compact": func(t *rapid.T) { w.compact(w.revisions().Draw(t, "revision")) },
		"grant":   func(t *rapid.T) { w.grant(t) },
		"revoke":  func(t *rapid.T) { w.revoke(leases().Draw(t, "lease")) },
		"hash":    func(t *rapid.T) { w.hash(w.revisions().Draw(t, "revision")) },
		"watch":   func(t *rapid.T) { w.watch(t) },
		"restart": func(*rapid.T) { w.restart() },
	})
	w.readSome(w.T)
	w.compareAll()
}

var someKeys = []string{"a", "aa", "ab", "ac", "b", "c", "ca", "d\xff"}

func keys() *rapid.Generator[[]byte] {
	return rapid.Map(rapid.SampledFrom(someKeys), func(k string) []byte { return []byte(k) })
}

// ends are none, the zero byte, the ends of prefixes, and before the key.
func ends(endless bool) *rapid.Generator[[]byte] {
	all := []string{"e", "d", "ac", "", "b", "a", ""}
	if endless {
		all[1] = "\x00"
	}
	return rapid.Map(rapid.SampledFrom(all), func(k string) []byte {
		if k == "" {
			return nil
		}
		return []byte(k)
	})
}

func leases() *rapid.Generator[int64] { return rapid.SampledFrom([]int64{1, 0, 2, 3, 0, 7}) }

func puts() *rapid.Generator[*pb.PutRequest] {
	return rapid.Custom(func(t *rapid.T) *pb.PutRequest {
		req := &pb.PutRequest{
			Key:         keys().Draw(t, "key"),
			PrevKv:      rapid.Bool().Draw(t, "prev"),
			IgnoreValue: rapid.IntRange(0, 4).Draw(t, "ignore value") == 4,
			IgnoreLease: rapid.IntRange(0, 4).Draw(t, "ignore lease") == 4,
		}
		if !req.IgnoreValue {
			req.Value = []byte(rapid.SampledFrom([]string{"", "v", "w", "vv"}).Draw(t, "value"))
		}
		if !req.IgnoreLease {
			req.Lease = leases().Draw(t, "lease")
		}
		return req
	})
}

func deletions(endless bool) *rapid.Generator[*pb.DeleteRangeRequest] {
	return rapid.Custom(func(t *rapid.T) *pb.DeleteRangeRequest {
		return &pb.DeleteRangeRequest{Key: keys().Draw(t, "key"), RangeEnd: ends(endless).Draw(t, "end"), PrevKv: rapid.Bool().Draw(t, "prev")}
	})
}

// txns doesn't delete without an end: what etcd lets through of that makes its
// members crash (see TestWhereEtcdCrashes).
func txns(depth int) *rapid.Generator[*pb.TxnRequest] {
	return rapid.Custom(func(t *rapid.T) *pb.TxnRequest {
		return &pb.TxnRequest{
			Compare: rapid.SliceOfN(compares(), 0, 2).Draw(t, "compare"),
			Success: rapid.SliceOfN(ops(depth), 1, 4).Draw(t, "success"),
			Failure: rapid.SliceOfN(ops(depth), 1, 4).Draw(t, "failure"),
		}
	})
}

func ops(depth int) *rapid.Generator[*pb.RequestOp] {
	return rapid.Custom(func(t *rapid.T) *pb.RequestOp {
		most := 3
		if depth > 0 {
			most = 4
		}
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0, 1:
			return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: puts().Draw(t, "put")}}
		case 2:
			return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: deletions(false).Draw(t, "delete")}}
		case 3:
			return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: reads(8).Draw(t, "range")}}
		default:
			return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: txns(depth-1).Draw(t, "txn")}}
		}
	})
}

func compares() *rapid.Generator[*pb.Compare] {
	return rapid.Custom(func(t *rapid.T) *pb.Compare {
		c := &pb.Compare{
			Key:      keys().Draw(t, "key"),
			RangeEnd: ends(true).Draw(t, "end"),
			Result:   pb.Compare_CompareResult(rapid.IntRange(0, 3).Draw(t, "result")),
			Target:   pb.Compare_CompareTarget(rapid.IntRange(0, 4).Draw(t, "target")),
		}
		n := rapid.Int64Range(0, 6).Draw(t, "than")
		// Now and then the union isn't of the target, which etcd takes for zero.
		switch rapid.SampledFrom([]pb.Compare_CompareTarget{c.Target, c.Target, c.Target, pb.Compare_MOD}).Draw(t, "union") {
		case pb.Compare_VALUE:
			c.TargetUnion = &pb.Compare_Value{Value: []byte(rapid.SampledFrom([]string{"", "v", "vv"}).Draw(t, "than"))}
		case pb.Compare_CREATE:
			c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: n}
		case pb.Compare_MOD:
			c.TargetUnion = &pb.Compare_ModRevision{ModRevision: n}
		case pb.Compare_VERSION:
			c.TargetUnion = &pb.Compare_Version{Version: n}
		case pb.Compare_LEASE:
			c.TargetUnion = &pb.Compare_Lease{Lease: n}
		}
		return c
	})
}

func reads(revision int64) *rapid.Generator[*pb.RangeRequest] {
	return rapid.Custom(func(t *rapid.T) *pb.RangeRequest {
		bound := rapid.SampledFrom([]int64{0, revision / 2, 0, revision, 0, 5, 2})
		req := &pb.RangeRequest{
			Key:        keys().Draw(t, "key"),
			RangeEnd:   ends(true).Draw(t, "end"),
			Limit:      rapid.SampledFrom([]int64{1, 2, 0, 3, -1, 1<<63 - 1}).Draw(t, "limit"),
			SortOrder:  pb.RangeRequest_SortOrder(rapid.IntRange(0, 2).Draw(t, "order")),
			SortTarget: pb.RangeRequest_SortTarget(rapid.IntRange(0, 4).Draw(t, "target")),
			KeysOnly:   rapid.IntRange(0, 3).Draw(t, "keys only") == 1,
			CountOnly:  rapid.IntRange(0, 5).Draw(t, "count only") == 5,
		}
		if rapid.IntRange(0, 2).Draw(t, "old") == 1 {
			req.Revision = rapid.Int64Range(-3, revision+1).Draw(t, "revision")
		}
		if rapid.IntRange(0, 2).Draw(t, "filtered") == 1 {
			req.MinModRevision, req.MaxModRevision = bound.Draw(t, "min mod"), bound.Draw(t, "max mod")
			req.MinCreateRevision, req.MaxCreateRevision = bound.Draw(t, "min create"), bound.Draw(t, "max create")
		}
		return req
	})
}

func (w *twins) revisions() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(-2, w.sim.Revision()+1), rapid.Just(w.sim.Revision()))
}

// same wants two answers of etcd's and ours equal, whatever they are.
func (w *twins) same(what any, want, got proto.Message, wantErr, gotErr error) {
	w.Helper()
	require.Equal(w, wantErr, gotErr, "%v", what)
	if wantErr == nil && !proto.Equal(want, got) {
		w.Fatalf("%v\netcd: %v\n sim: %v", what, want, got)
	}
	require.Equal(w, w.real.kv.Rev(), w.sim.Revision(), "%v", what)
}

func (w *twins) put(req *pb.PutRequest) {
	want, wantErr := w.real.Put(req)
	got, gotErr := w.sim.Put(req)
	w.same(req, want, got, wantErr, gotErr)
}

func (w *twins) delete(req *pb.DeleteRangeRequest) {
	w.same(req, w.real.DeleteRange(req), w.sim.DeleteRange(req), nil, nil)
}

func (w *twins) read(req *pb.RangeRequest) {
	want, wantErr := w.real.Range(req)
	got, gotErr := w.sim.Range(req)
	w.same(req, want, got, wantErr, gotErr)
}

func (w *twins) readSome(t *rapid.T) {
	for _, req := range rapid.SliceOfN(reads(w.sim.Revision()), 5, 10).Draw(t, "ranges") {
		w.read(req)
	}
}

func (w *twins) txn(req *pb.TxnRequest) {
	if mvcc.CheckTxn(req, mvcc.MaxTxnOps) != nil {
		return
	}
	want, wantErr := w.real.Txn(req)
	got, gotErr := w.sim.Txn(req)
	w.same(req, want, got, wantErr, gotErr)
}

func (w *twins) compact(revision int64) {
	w.same(fmt.Sprint("compact ", revision), nil, nil, w.real.Compact(revision), w.sim.Compact(revision))
}

func (w *twins) grant(t *rapid.T) {
	id, ttl := leases().Draw(t, "lease"), rapid.SampledFrom([]int64{5, 60, 9_000_000_000, 9_000_000_001}).Draw(t, "ttl")
	w.same(fmt.Sprint("grant ", id, ttl), nil, nil, w.real.Grant(id, ttl), w.sim.Grant(id, ttl))
}

func (w *twins) revoke(id int64) {
	w.same(fmt.Sprint("revoke ", id), nil, nil, w.real.Revoke(id), w.sim.Revoke(id))
}

func (w *twins) hash(revision int64) {
	type answer struct {
		hash                 uint32
		revision, compactRev int64
		err                  error
	}
	var want, got answer
	want.hash, want.revision, want.compactRev, want.err = w.real.Hash(revision)
	got.hash, got.revision, got.compactRev, got.err = w.sim.Hash(revision)
	require.Equal(w, want, got, "hash at %d", revision)
}

// watch begins at what etcd tells at once, which is what is to come; those that
// begin earlier wait for a loop of etcd's, and are for catchUp.
func (w *twins) watch(t *rapid.T) {
	w.begin(watches(rapid.SampledFrom([]int64{0, w.sim.Revision() + 1, w.sim.Revision() + 3})).Draw(t, "watch"))
}

func watches(starts *rapid.Generator[int64]) *rapid.Generator[*pb.WatchCreateRequest] {
	return rapid.Custom(func(t *rapid.T) *pb.WatchCreateRequest {
		return &pb.WatchCreateRequest{
			Key:           keys().Draw(t, "key"),
			RangeEnd:      ends(true).Draw(t, "end"),
			StartRevision: starts.Draw(t, "start"),
			PrevKv:        rapid.Bool().Draw(t, "prev"),
			Filters:       rapid.SliceOfN(rapid.SampledFrom([]pb.WatchCreateRequest_FilterType{0, 1}), 0, 1).Draw(t, "filters"),
		}
	})
}

func (w *twins) begin(req *pb.WatchCreateRequest) {
	w.nextID++
	wantErr := w.real.watch(w.nextID, req)
	got, gotErr := w.sim.Watch(req)
	if wantErr != nil || gotErr != nil {
		require.EqualError(w, gotErr, wantErr.Error(), "%v", req)
		return
	}
	w.watches[w.nextID] = &watched{Watch: got, req: req}
}

// compareWatches lets every watch of both come to the present, which those
// that keep up do at once.
func (w *twins) compareWatches() {
	for len(w.real.stream.Chan()) > 0 {
		w.receive()
	}
	for id, watch := range w.watches {
		events, upTo, compacted := watch.Next(0)
		require.Zero(w, compacted)
		require.Equal(w, w.sim.Revision(), upTo)
		watch.sim = append(watch.sim, events...)
		w.sameEvents(id, watch)
	}
}

func (w *twins) receive() {
	resp := <-w.real.stream.Chan()
	watch := w.watches[int64(resp.WatchID)]
	require.Zero(w, resp.CompactRevision)
	if watch.req.PrevKv {
		w.real.previous(resp.Events)
	}
	watch.real = append(watch.real, resp.Events...)
}

func (w *twins) sameEvents(id int64, watch *watched) {
	require.Equal(w, len(watch.real), len(watch.sim), "events of watch %d: %v\netcd: %v\n sim: %v", id, watch.req, watch.real, watch.sim)
	for i := range watch.real {
		if !proto.Equal(watch.real[i], watch.sim[i]) {
			w.Fatalf("event %d of watch %d: %v\netcd: %v\n sim: %v", i, id, watch.req, watch.real[i], watch.sim[i])
		}
	}
	watch.real, watch.sim = nil, nil
}

// restart lets etcd read its file again, and leaves to ours what a snapshot has.
func (w *twins) restart() {
	w.real.stop()
	w.real.start()
	w.sim = w.sim.Clone()
	clear(w.watches)
}

// compareAll looks at all that is left: every revision, hash, lease, and, in
// one run of ten, for etcd takes a tenth of a second to tell it, the past.
func (w *twins) compareAll() {
	t := w.T
	for revision := int64(-1); revision <= w.sim.Revision()+1; revision++ {
		w.read(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Revision: revision})
		w.hash(revision)
	}
	require.Equal(t, w.real.Leases(), w.sim.Leases())
	for id := range int64(9) {
		wantTTL, wantKeys, wantFound := w.real.Lease(id)
		ttl, keys, found := w.sim.Lease(id)
		require.Equal(t, []any{wantTTL, wantKeys, wantFound}, []any{ttl, keys, found}, "lease %d", id)
	}
	if rapid.IntRange(0, 9).Draw(t, "past") == 4 {
		w.catchUp(t)
	}
}

// catchUp begins watches in the past, some of which are compacted.
func (w *twins) catchUp(t *rapid.T) {
	clear(w.watches)
	for range 8 {
		w.begin(watches(rapid.Int64Range(1, w.sim.Revision())).Draw(t, "watch"))
	}
	expected := 0
	for id, watch := range w.watches {
		events, _, compacted := watch.Next(0)
		if compacted == 0 && len(events) == 0 {
			delete(w.watches, id)
			continue
		}
		expected++
		watch.sim = events
	}
	for range expected {
		w.expect(t)
	}
}

func (w *twins) expect(t *rapid.T) {
	resp := w.real.await(t)
	watch := w.watches[int64(resp.WatchID)]
	require.NotNil(t, watch, "etcd has events of watch %d, which sim has not: %v", resp.WatchID, resp.Events)
	_, _, compacted := watch.Next(0)
	require.Equal(t, resp.CompactRevision, compacted, "%v", watch.req)
	if watch.req.PrevKv {
		w.real.previous(resp.Events)
	}
	watch.real = resp.Events
	w.sameEvents(int64(resp.WatchID), watch)
}
