// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package mvcc_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coreos/go-semver/semver"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
)

// real is etcd's own keyspace on a file, driven as its applier drives it.
type real struct {
	file   backend.Backend
	lessor lease.Lessor
	kv     mvcc.WatchableKV
	stream mvcc.WatchStream
}

type noVersion struct{}

func (noVersion) Version() *semver.Version { return nil }

func openReal(path string) *real {
	config := backend.DefaultBackendConfig(zap.NewNop())
	config.Path, config.UnsafeNoFsync, config.MmapSize = path, true, 1<<20
	config.BatchInterval = time.Hour // only the test commits
	r := &real{file: backend.New(config)}
	tx := r.file.BatchTx()
	tx.Lock()
	schema.UnsafeCreateLeaseBucket(tx)
	tx.Unlock()
	r.start()
	return r
}

func (r *real) start() {
	r.lessor = lease.NewLessor(zap.NewNop(), r.file, noVersion{}, lease.LessorConfig{})
	r.kv = mvcc.New(zap.NewNop(), r.file, r.lessor, mvcc.StoreConfig{})
	r.stream = r.kv.NewWatchStream()
}

func (r *real) stop() {
	r.stream.Close()
	r.kv.Commit()
	r.kv.Close()
	r.lessor.Stop()
}

func (r *real) close() {
	r.stop()
	r.file.Close()
}

// grpc is the error that a client of a server sees, as v3rpc maps it.
func grpc(err error) error {
	for from, to := range map[error]error{
		mvcc.ErrCompacted:         rpctypes.ErrGRPCCompacted,
		mvcc.ErrFutureRev:         rpctypes.ErrGRPCFutureRev,
		lease.ErrLeaseNotFound:    rpctypes.ErrGRPCLeaseNotFound,
		lease.ErrLeaseExists:      rpctypes.ErrGRPCLeaseExist,
		lease.ErrLeaseTTLTooLarge: rpctypes.ErrGRPCLeaseTTLTooLarge,
		etcderrors.ErrKeyNotFound: rpctypes.ErrGRPCKeyNotFound,
	} {
		if errors.Is(err, from) {
			return to
		}
	}
	return err
}

func (r *real) Range(req *pb.RangeRequest) (*pb.RangeResponse, error) {
	resp, _, err := txn.Range(context.Background(), zap.NewNop(), r.kv, req, true)
	return resp, grpc(err)
}

func (r *real) Put(req *pb.PutRequest) (*pb.PutResponse, error) {
	resp, _, err := txn.Put(context.Background(), zap.NewNop(), r.lessor, r.kv, req)
	return resp, grpc(err)
}

func (r *real) DeleteRange(req *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	resp, _, err := txn.DeleteRange(context.Background(), zap.NewNop(), r.kv, req)
	if err != nil {
		panic(err)
	}
	return resp
}

func (r *real) Txn(req *pb.TxnRequest) (*pb.TxnResponse, error) {
	resp, _, err := txn.Txn(context.Background(), zap.NewNop(), req, true, r.kv, r.lessor, false)
	return resp, grpc(err)
}

func (r *real) Compact(revision int64) error {
	done, err := r.kv.Compact(traceutil.TODO(), revision)
	if err == nil {
		<-done
	}
	return grpc(err)
}

func (r *real) Grant(id, ttl int64) error {
	_, err := r.lessor.Grant(lease.LeaseID(id), ttl)
	return grpc(err)
}

func (r *real) Revoke(id int64) error { return grpc(r.lessor.Revoke(lease.LeaseID(id))) }

func (r *real) Leases() []int64 {
	ids := []int64{}
	for _, l := range r.lessor.Leases() {
		ids = append(ids, int64(l.ID))
	}
	slices.Sort(ids)
	return ids
}

func (r *real) Lease(id int64) (ttl int64, keys [][]byte, found bool) {
	l := r.lessor.Lookup(lease.LeaseID(id))
	if l == nil {
		return 0, nil, false
	}
	names := l.Keys()
	slices.Sort(names)
	for _, name := range names {
		keys = append(keys, []byte(name))
	}
	return l.TTL(), keys, true
}

func (r *real) Hash(revision int64) (hash uint32, hashed, compactRev int64, err error) {
	h, _, err := r.kv.HashStorage().HashByRev(revision)
	return h.Hash, h.Revision, h.CompactRevision, grpc(err)
}

func (r *real) watch(id int64, req *pb.WatchCreateRequest) error {
	end := req.RangeEnd
	if string(end) == "\x00" {
		end = []byte{}
	}
	_, err := r.stream.Watch(context.Background(), mvcc.WatchID(id), req.Key, end, req.StartRevision, filters(req)...)
	return err
}

// await is the next answer to any watch. Those that begin in the past wait for
// a loop that etcd runs every tenth of a second.
func (r *real) await(t require.TestingT) mvcc.WatchResponse {
	select {
	case resp := <-r.stream.Chan():
		return resp
	case <-time.After(10 * time.Second):
		require.Fail(t, "etcd says nothing to any watch")
		return mvcc.WatchResponse{}
	}
}

// caughtUp waits until etcd says that a watch has seen everything.
func (r *real) caughtUp(t require.TestingT, id int64) {
	for range 1000 {
		r.stream.RequestProgress(mvcc.WatchID(id))
		if len(r.stream.Chan()) > 0 {
			resp := r.await(t)
			require.Equal(t, id, int64(resp.WatchID))
			require.Empty(t, resp.Events)
			require.Zero(t, resp.CompactRevision)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.Fail(t, "etcd never says that a watch has caught up", "watch %d", id)
}

func filters(req *pb.WatchCreateRequest) (all []mvcc.FilterFunc) {
	for _, f := range req.Filters {
		unwanted := mvccpb.Event_PUT
		if f == pb.WatchCreateRequest_NODELETE {
			unwanted = mvccpb.Event_DELETE
		}
		all = append(all, func(e *mvccpb.Event) bool { return e.Type == unwanted })
	}
	return all
}

// previous does what the server's send loop does to the events of a watch that
// wants to know what was there before.
func (r *real) previous(events []*mvccpb.Event) {
	for _, e := range events {
		if e.IsCreate() {
			continue
		}
		was, err := r.kv.Range(context.Background(), e.Kv.Key, nil, mvcc.RangeOptions{Rev: e.Kv.ModRevision - 1})
		if err == nil && len(was.KVs) != 0 {
			e.PrevKv = was.KVs[0]
		}
	}
}
