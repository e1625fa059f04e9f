// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package mvcc_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	etcd "go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof/sim/etcd/mvcc"
)

func put(key, value string) *pb.PutRequest {
	return &pb.PutRequest{Key: []byte(key), Value: []byte(value)}
}

func do(ops ...proto.Message) []*pb.RequestOp {
	var all []*pb.RequestOp
	for _, op := range ops {
		switch op := op.(type) {
		case *pb.PutRequest:
			all = append(all, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: op}})
		case *pb.RangeRequest:
			all = append(all, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: op}})
		case *pb.DeleteRangeRequest:
			all = append(all, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: op}})
		case *pb.TxnRequest:
			all = append(all, &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: op}})
		}
	}
	return all
}

func everything() *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}
}

// step is one change of a history that can be played again.
type step func(*mvcc.Store)

func steps() *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		switch rapid.SampledFrom([]string{"put", "put", "put", "compact", "grant", "delete", "revoke"}).Draw(t, "step") {
		case "delete":
			req := deletions(true).Draw(t, "delete")
			return func(s *mvcc.Store) { s.DeleteRange(req) }
		case "grant":
			id := rapid.Int64Range(1, 3).Draw(t, "lease")
			return func(s *mvcc.Store) { s.Grant(id, 60) }
		case "revoke":
			id := rapid.Int64Range(1, 3).Draw(t, "lease")
			return func(s *mvcc.Store) { s.Revoke(id) }
		case "compact":
			back := rapid.Int64Range(0, 5).Draw(t, "back")
			return func(s *mvcc.Store) { s.Compact(s.Revision() - back) }
		default:
			req := puts().Draw(t, "put")
			return func(s *mvcc.Store) { s.Put(req) }
		}
	})
}

func play(s *mvcc.Store, histories ...[]step) *mvcc.Store {
	for _, history := range histories {
		for _, step := range history {
			step(s)
		}
	}
	return s
}

// shape is all that can be seen of a store, but for the hashes that compactions
// leave in memory.
func shape(t require.TestingT, s *mvcc.Store) []string {
	seen := []string{fmt.Sprint(s.Revision(), s.CompactRevision(), s.SizeInUse(), s.Leases())}
	for _, id := range s.Leases() {
		ttl, keys, _ := s.Lease(id)
		seen = append(seen, fmt.Sprintf("%d %d %q", id, ttl, keys))
	}
	for revision := max(1, s.CompactRevision()); revision <= s.Revision(); revision++ {
		req := everything()
		req.Revision = revision
		resp, err := s.Range(req)
		require.NoError(t, err)
		for _, kv := range resp.Kvs {
			seen = append(seen, fmt.Sprintf("%d: %q=%q %d %d %d %d", revision, kv.Key, kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease))
		}
	}
	w, err := s.Watch(&pb.WatchCreateRequest{RangeEnd: []byte{0}, StartRevision: max(1, s.CompactRevision()), PrevKv: true})
	require.NoError(t, err)
	events, _, _ := w.Next(0)
	for _, e := range events {
		seen = append(seen, fmt.Sprintf("%v %q %q %d before %d", e.Type, e.Kv.Key, e.Kv.Value, e.Kv.ModRevision, e.PrevKv.GetModRevision()))
	}
	return seen
}

// A store whose answers nobody reads becomes what one becomes that is heard, and
// refuses the same. It catches an effect that only the making of an answer had.
func TestUnheard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		heard, unheard := mvcc.New(), mvcc.New()
		unheard.Unheard = true
		t.Repeat(map[string]func(*rapid.T){
			"step": func(t *rapid.T) {
				do := steps().Draw(t, "step")
				play(heard, []step{do})
				play(unheard, []step{do})
			},
			"put": func(t *rapid.T) {
				req := puts().Draw(t, "put")
				_, want := heard.Put(req)
				_, got := unheard.Put(req)
				require.Equal(t, want, got)
			},
			"txn": func(t *rapid.T) {
				req := txns(2).Draw(t, "txn")
				if mvcc.CheckTxn(req, mvcc.MaxTxnOps) != nil {
					t.Skip("refused")
				}
				_, want := heard.Txn(req)
				_, got := unheard.Txn(req)
				require.Equal(t, want, got)
			},
			"": func(t *rapid.T) {
				require.Equal(t, hashOf(t, heard), hashOf(t, unheard))
			},
		})
		unheard.Unheard = false
		require.Equal(t, shape(t, heard), shape(t, unheard))
	})
}

// A store and its clone go on alone. It catches the two writing into what they
// share: a slice appended to by both, a tree node changed in place.
func TestClonesAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := rapid.SliceOfN(steps(), 0, 30)
		shared, mine, its := history.Draw(t, "shared"), history.Draw(t, "mine"), history.Draw(t, "its")
		original := play(mvcc.New(), shared)
		clone := original.Clone()
		for i := range max(len(mine), len(its)) {
			play(original, mine[min(i, len(mine)):min(i+1, len(mine))])
			play(clone, its[min(i, len(its)):min(i+1, len(its))])
		}
		require.Equal(t, shape(t, play(mvcc.New(), shared, mine)), shape(t, original))
		require.Equal(t, shape(t, play(mvcc.New(), shared, its)), shape(t, clone))
	})
}

// Equal histories have equal hashes, and one put that differs in its key,
// value, lease or revision shows until it is compacted. It catches a hash that
// leaves out a field, or depends on how the store came to be.
func TestHashTellsHistoriesApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := rapid.SliceOfN(steps(), 0, 20)
		before, after := history.Draw(t, "before"), history.Draw(t, "after")
		odd := rapid.SampledFrom([]*pb.PutRequest{put("k", "w"), put("l", "v"), {Key: []byte("k"), Value: []byte("v"), Lease: 9}}).Draw(t, "odd")
		one, other := mvcc.New(), mvcc.New()
		for _, s := range []*mvcc.Store{one, other} {
			require.NoError(t, s.Grant(9, 60))
		}
		play(one, before)
		play(other, before)
		require.Equal(t, hashOf(t, one), hashOf(t, other.Clone()))
		changed := one.Revision() + 1
		_, err := one.Put(put("k", "v"))
		require.NoError(t, err)
		_, err = other.Put(odd)
		require.NoError(t, err)
		play(one, after)
		play(other, after)
		if one.CompactRevision() < changed {
			require.NotEqual(t, hashOf(t, one), hashOf(t, other))
		}
	})
}

func hashOf(t require.TestingT, s *mvcc.Store) uint32 {
	s = s.Clone() // without remembered hashes
	hash, revision, compactRev, err := s.Hash(0)
	require.NoError(t, err)
	require.Equal(t, []int64{s.Revision(), s.CompactRevision()}, []int64{revision, compactRev})
	return hash
}

type refusal struct {
	err  error
	want string
}

func refused(t *testing.T, cases []refusal) {
	t.Helper()
	for _, c := range cases {
		got := status.Convert(c.err)
		assert.Equal(t, c.want, fmt.Sprint(got.Code(), " ", got.Message()))
	}
}

func deletion(key, end string) *pb.DeleteRangeRequest {
	return &pb.DeleteRangeRequest{Key: []byte(key), RangeEnd: []byte(end)}
}

func TestErrors(t *testing.T) {
	s := mvcc.New()
	require.NoError(t, s.Grant(7, 60))
	for _, value := range []string{"1", "2", "3"} {
		_, err := s.Put(put("k", value))
		require.NoError(t, err)
	}
	require.NoError(t, s.Compact(3))
	read := func(revision int64) error {
		_, err := s.Range(&pb.RangeRequest{Key: []byte("k"), Revision: revision})
		return err
	}
	write := func(req *pb.PutRequest) error {
		_, err := s.Put(req)
		return err
	}
	txn := func(ops ...proto.Message) error {
		_, err := s.Txn(&pb.TxnRequest{Success: do(ops...)})
		return err
	}
	hash := func(revision int64) error {
		_, _, _, err := s.Hash(revision)
		return err
	}
	const (
		compacted = "OutOfRange etcdserver: mvcc: required revision has been compacted"
		future    = "OutOfRange etcdserver: mvcc: required revision is a future revision"
		noLease   = "NotFound etcdserver: requested lease not found"
	)
	refused(t, []refusal{
		{read(2), compacted},
		{read(5), future},
		{hash(2), compacted},
		{hash(5), future},
		{s.Compact(3), compacted},
		{s.Compact(5), future},
		{txn(put("a", ""), &pb.RangeRequest{Key: []byte("k"), Revision: 5}), future},
		{txn(put("a", ""), &pb.RangeRequest{Key: []byte("k"), Revision: 2}), compacted},
		{txn(put("a", ""), &pb.TxnRequest{Success: do(&pb.PutRequest{Key: []byte("b"), Lease: 8})}), noLease},
		{write(&pb.PutRequest{Key: []byte("k"), Lease: 8}), noLease},
		{write(&pb.PutRequest{Key: []byte("a"), IgnoreValue: true}), "InvalidArgument etcdserver: key not found"},
		{s.Grant(0, 60), noLease},
		{s.Grant(7, 60), "FailedPrecondition etcdserver: lease already exists"},
		{s.Grant(8, mvcc.MaxTTL+1), "OutOfRange etcdserver: too large lease TTL"},
		{s.Revoke(8), noLease},
	})
	assert.EqualValues(t, 4, s.Revision(), "what was refused changed nothing")
}

func TestChecks(t *testing.T) {
	check := func(ops ...proto.Message) error {
		return mvcc.CheckTxn(&pb.TxnRequest{Success: do(ops...)}, mvcc.MaxTxnOps)
	}
	const (
		noKey     = "InvalidArgument etcdserver: key is not provided"
		noOption  = "InvalidArgument etcdserver: invalid sort option"
		duplicate = "InvalidArgument etcdserver: duplicate key given in txn request"
	)
	refused(t, []refusal{
		{mvcc.CheckRange(&pb.RangeRequest{}), noKey},
		{mvcc.CheckRange(&pb.RangeRequest{Key: []byte("k"), SortOrder: 3}), noOption},
		{mvcc.CheckRange(&pb.RangeRequest{Key: []byte("k"), SortTarget: 5}), noOption},
		{mvcc.CheckPut(put("", "v")), noKey},
		{mvcc.CheckPut(&pb.PutRequest{Key: []byte("k"), Value: []byte("v"), IgnoreValue: true}), "InvalidArgument etcdserver: value is provided"},
		{mvcc.CheckPut(&pb.PutRequest{Key: []byte("k"), Lease: 7, IgnoreLease: true}), "InvalidArgument etcdserver: lease is provided"},
		{mvcc.CheckDelete(deletion("", "z")), noKey},
		{mvcc.CheckTxn(&pb.TxnRequest{Compare: []*pb.Compare{{}}}, mvcc.MaxTxnOps), noKey},
		{mvcc.CheckTxn(&pb.TxnRequest{Failure: make([]*pb.RequestOp, 129)}, mvcc.MaxTxnOps), "InvalidArgument etcdserver: too many operations in txn request"},
		{mvcc.CheckTxn(&pb.TxnRequest{Failure: []*pb.RequestOp{{}}}, mvcc.MaxTxnOps), "InvalidArgument etcdserver: key not found"},
		{check(put("a", ""), put("a", "")), duplicate},
		{check(put("b", ""), deletion("a", "c")), duplicate},
		{check(&pb.TxnRequest{Failure: do(deletion("a", "c"))}, put("b", "")), duplicate},
	})
	assert.NoError(t, check(&pb.TxnRequest{Success: do(put("a", "")), Failure: do(put("a", ""))}), "only one branch is taken")
}

// Nested operations count together with those around them.
func TestTooManyNested(t *testing.T) {
	many := make([]proto.Message, 100)
	for i := range many {
		many[i] = put(fmt.Sprint(i), "")
	}
	nested := &pb.TxnRequest{Compare: make([]*pb.Compare, 29)}
	for i := range nested.Compare {
		nested.Compare[i] = &pb.Compare{Key: []byte("k")}
	}
	check := func(ops []proto.Message) error {
		return mvcc.CheckTxn(&pb.TxnRequest{Success: do(ops...)}, mvcc.MaxTxnOps)
	}
	assert.ErrorContains(t, check(append(many[1:], nested)), "too many operations", "100 and 29 nested")
	assert.NoError(t, check(append(many[2:], nested)), "99 and 29 nested")
}

// Releases answer two requests differently, and hold the same.
func TestReleases(t *testing.T) {
	s := mvcc.New()
	require.NoError(t, s.Grant(7, 60))
	_, err := s.Put(&pb.PutRequest{Key: []byte("k"), Lease: 7})
	require.NoError(t, err)
	twoFaults := &pb.TxnRequest{Success: do(&pb.RangeRequest{Key: []byte("k"), Revision: 99}, &pb.PutRequest{Key: []byte("k"), Lease: 8})}
	otherFaults := &pb.TxnRequest{Success: do(&pb.PutRequest{Key: []byte("a"), Lease: 8, IgnoreValue: true})}
	for _, c := range []struct {
		release mvcc.Release
		lease   int64
		faults  []string
	}{
		{mvcc.V3_5, 7, []string{"requested lease not found", "key not found"}},
		{mvcc.V3_6, 7, []string{"required revision is a future revision", "key not found"}},
		{mvcc.V3_7, 0, []string{"required revision is a future revision", "requested lease not found"}},
	} {
		s := s.Clone()
		s.Release = c.release
		resp, err := s.Range(&pb.RangeRequest{Key: []byte("k"), KeysOnly: true})
		require.NoError(t, err)
		assert.Equal(t, c.lease, resp.Kvs[0].Lease)
		for i, req := range []*pb.TxnRequest{twoFaults, otherFaults} {
			_, err := s.Txn(req)
			assert.ErrorContains(t, err, c.faults[i])
		}
	}
}

// etcd lets a transaction delete without an end and put one of those keys
// again. When that put is to keep its value, every member crashes.
func TestWhereEtcdCrashes(t *testing.T) {
	req := &pb.TxnRequest{Success: do(&pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte{0}}, &pb.PutRequest{Key: []byte("b"), IgnoreValue: true})}
	require.NoError(t, mvcc.CheckTxn(req, mvcc.MaxTxnOps))
	r, s := openReal(filepath.Join(t.TempDir(), "db")), mvcc.New()
	for _, space := range []keyspace{r, s} {
		_, err := space.Put(put("b", "v"))
		require.NoError(t, err)
		assert.Panics(t, func() { space.Txn(req) }) // etcd's stays locked, and can't be closed
	}
}

// What is put and deleted again in one revision is seen as it happens, and not
// once the revision is compacted.
func TestGoneWithinItsRevision(t *testing.T) {
	r, s := openReal(filepath.Join(t.TempDir(), "db")), mvcc.New()
	defer r.close()
	req := &pb.TxnRequest{Success: do(
		&pb.TxnRequest{Success: do(put("a", "v"))},
		&pb.TxnRequest{Success: do(&pb.DeleteRangeRequest{Key: []byte("a")})},
	)}
	require.NoError(t, mvcc.CheckTxn(req, mvcc.MaxTxnOps))
	for _, space := range []keyspace{r, s} {
		_, err := space.Txn(req)
		require.NoError(t, err)
	}
	for _, want := range []int{2, 1} {
		watch := &pb.WatchCreateRequest{Key: []byte("a"), StartRevision: 2}
		require.NoError(t, r.watch(int64(want), watch))
		w, err := s.Watch(watch)
		require.NoError(t, err)
		events, _, _ := w.Next(0)
		assert.Len(t, events, want)
		assert.Len(t, r.await(t).Events, want)
		for _, space := range []keyspace{r, s} {
			_ = space.Compact(2)
		}
	}
}

// A put that follows a deletion without an end is a new key, which outlives a compaction
// at its own revision. (etcd's doesn't: there the index keeps what the file
// loses, and the next read of the key ends the process.)
func TestPutAfterDeletionInOneRevision(t *testing.T) {
	s := mvcc.New()
	for _, req := range []*pb.TxnRequest{
		{Success: do(put("b", "old"))},
		{Success: do(&pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte{0}}, put("b", "new"))},
	} {
		require.NoError(t, mvcc.CheckTxn(req, mvcc.MaxTxnOps))
		_, err := s.Txn(req)
		require.NoError(t, err)
	}
	require.NoError(t, s.Compact(3))
	resp, err := s.Range(everything())
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	assert.Equal(t, []any{"new", int64(1), int64(3)}, []any{string(resp.Kvs[0].Value), resp.Kvs[0].Version, resp.Kvs[0].CreateRevision})
	w, err := s.Watch(&pb.WatchCreateRequest{Key: []byte("b"), StartRevision: 3})
	require.NoError(t, err)
	events, _, _ := w.Next(0)
	require.Len(t, events, 2, "the deletion and the put")
}

func TestWatchRefusals(t *testing.T) {
	s := mvcc.New()
	_, err := s.Watch(&pb.WatchCreateRequest{StartRevision: -1})
	assert.EqualError(t, err, "etcdserver: mvcc: required revision has been compacted")
	_, err = s.Watch(&pb.WatchCreateRequest{Key: []byte("b"), RangeEnd: []byte("a")})
	assert.EqualError(t, err, etcd.ErrEmptyWatcherRange.Error())
}

// A batch ends where etcd's ends, and never within a revision.
func TestWatchBatches(t *testing.T) {
	r, s := openReal(filepath.Join(t.TempDir(), "db")), mvcc.New()
	defer r.close()
	for i := range 1200 {
		req := &pb.TxnRequest{Success: do(put("a", fmt.Sprint(i)), put("b", ""), put("other", ""))}
		for _, space := range []keyspace{r, s} {
			_, err := space.Txn(req)
			require.NoError(t, err)
		}
	}
	req := &pb.WatchCreateRequest{Key: []byte("a"), RangeEnd: []byte("c"), StartRevision: 3}
	require.NoError(t, r.watch(1, req))
	w, err := s.Watch(req)
	require.NoError(t, err)
	for _, last := range []int64{1002, 1201} {
		resp := <-r.stream.Chan()
		events, upTo, _ := w.Next(1000)
		require.Equal(t, last, upTo)
		require.Len(t, events, len(resp.Events))
		require.Equal(t, resp.Events[len(events)-1].Kv.ModRevision, events[len(events)-1].Kv.ModRevision)
	}
}

// A member that is sent a snapshot goes back to the last event of each watch:
// one that kept up and had nothing to see is cancelled when the snapshot is
// compacted, in etcd as here. One that caught up later, or saw an event, isn't.
func TestWatchesAfterASnapshot(t *testing.T) {
	r, ahead := openReal(filepath.Join(t.TempDir(), "db")), openReal(filepath.Join(t.TempDir(), "ahead"))
	defer r.close()
	defer ahead.stop() // r closes its file
	s, watches := mvcc.New(), map[int64]*mvcc.Watch{}
	begin := func(id, start int64, key string) {
		req := &pb.WatchCreateRequest{Key: []byte(key), StartRevision: start}
		require.NoError(t, r.watch(id, req))
		w, err := s.Watch(req)
		require.NoError(t, err)
		watches[id] = w
	}
	write := func(spaces ...keyspace) {
		for range 5 {
			for _, space := range spaces {
				_, err := space.Put(put("busy", "v"))
				require.NoError(t, err)
			}
		}
	}
	next := func(id, revision int64, events int) {
		resp := r.await(t)
		require.Equal(t, id, int64(resp.WatchID))
		seen, _, compacted := watches[id].Next(0)
		assert.Equal(t, []int64{resp.CompactRevision, int64(len(resp.Events))}, []int64{compacted, int64(len(seen))}, "watch %d", id)
		assert.Equal(t, []int64{revision, int64(events)}, []int64{compacted, int64(len(seen))}, "watch %d", id)
	}
	source := s.Clone()
	begin(1, 0, "idle")
	begin(2, 0, "busy")
	for range 5 {
		_, err := r.Put(put("busy", "v"))
		require.NoError(t, err)
		_, err = s.Put(put("busy", "v"))
		require.NoError(t, err)
		next(2, 0, 1)
		watches[1].Next(0)
	}
	begin(3, 2, "idle")
	watches[3].Next(0)
	r.caughtUp(t, 3)
	write(ahead, source)
	for _, space := range []keyspace{ahead, source} {
		require.NoError(t, space.Compact(6))
		write(space)
	}
	ahead.kv.Commit()
	require.NoError(t, r.kv.Restore(ahead.file))
	for _, w := range watches {
		w.Restore(source)
	}
	next(1, 6, 0) // what is cancelled is told first
	next(2, 0, 5)
	events, _, compacted := watches[3].Next(0)
	assert.Empty(t, events)
	assert.Zero(t, compacted)
	r.caughtUp(t, 3)
}

// Where a watch goes back to doesn't hang on how often it was asked.
func TestSeldomAskedWatchGoesBackAsFar(t *testing.T) {
	s := mvcc.New()
	var watches []*mvcc.Watch
	for range 2 {
		w, err := s.Watch(&pb.WatchCreateRequest{Key: []byte("k")})
		require.NoError(t, err)
		watches = append(watches, w)
	}
	for _, key := range []string{"k", "other", "other"} {
		_, err := s.Put(put(key, "v"))
		require.NoError(t, err)
		watches[0].Next(0)
	}
	watches[1].Next(0)
	require.NoError(t, s.Compact(4))
	for _, w := range watches {
		w.Restore(s)
		_, _, compacted := w.Next(0)
		assert.EqualValues(t, 4, compacted, "its event was at revision 2")
	}
}

// Keys of equal rank come in etcd's order: its sort keeps none of its own, and
// of more than twelve keys that shows. With a filter a limit holds after it.
func TestSortOfEquals(t *testing.T) {
	r, s := openReal(filepath.Join(t.TempDir(), "db")), mvcc.New()
	defer r.close()
	for i := range 100 {
		for _, space := range []keyspace{r, s} {
			_, err := space.Put(put(fmt.Sprintf("%02d", i%70), fmt.Sprint(i%3)))
			require.NoError(t, err)
		}
	}
	for i := range 60 {
		req := everything()
		req.SortTarget, req.SortOrder = pb.RangeRequest_SortTarget(i%5), pb.RangeRequest_SortOrder(i/5%3)
		req.Limit, req.MinModRevision = int64(i/15%2*5), int64(i/30*20)
		want, err := r.Range(req)
		require.NoError(t, err)
		got, err := s.Range(req)
		require.NoError(t, err)
		require.True(t, proto.Equal(want, got), "%v\netcd: %v\n sim: %v", req, want, got)
	}
}

// A compaction leaves its hash in memory, and the eleventh pushes one out.
func TestRememberedHashes(t *testing.T) {
	r, s := openReal(filepath.Join(t.TempDir(), "db")), mvcc.New()
	defer r.close()
	for i := range 12 {
		for _, space := range []keyspace{r, s} {
			_, err := space.Put(put(fmt.Sprint(i%3), fmt.Sprint(i)))
			require.NoError(t, err)
			require.NoError(t, space.Compact(int64(i)+2))
		}
	}
	for revision := range int64(15) {
		hash, hashed, compactRev, err := r.Hash(revision)
		ourHash, ourHashed, ourCompactRev, ourErr := s.Hash(revision)
		assert.Equal(t, []any{hash, hashed, compactRev, err}, []any{ourHash, ourHashed, ourCompactRev, ourErr}, "revision %d", revision)
	}
}

func TestSize(t *testing.T) {
	s := mvcc.New()
	empty := s.Size()
	for range 100 {
		_, err := s.Put(put("k", strings.Repeat("x", 1000)))
		require.NoError(t, err)
	}
	full := s.Size()
	assert.InDelta(t, empty+100_000, full, 15_000)
	require.NoError(t, s.Compact(s.Revision()))
	assert.Equal(t, full, s.Size(), "compaction frees pages, and doesn't shorten the file")
	assert.Less(t, s.SizeInUse(), empty+5000)
	s.Defragment()
	assert.Equal(t, s.SizeInUse(), s.Size())
}

// A watch that has nothing new to see makes no work and no garbage.
func TestIdleWatchIsFree(t *testing.T) {
	s := mvcc.New()
	w, err := s.Watch(&pb.WatchCreateRequest{Key: []byte("k")})
	require.NoError(t, err)
	var events []*mvccpb.Event
	assert.Zero(t, testing.AllocsPerRun(100, func() { events, _, _ = w.Next(0) }))
	assert.Empty(t, events)
}
