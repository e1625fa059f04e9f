// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package mvcc

import (
	"bytes"
	"cmp"
	"sort"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Range reads keys, as CheckRange lets through. Of the header it sets the
// revision, which is the current one even when an older one is read. Count is
// of all keys in the range, whatever limit and filters take away. It fails with
// ErrGRPCCompacted and ErrGRPCFutureRev; a negative revision is the current one.
func (s *Store) Range(req *pb.RangeRequest) (*pb.RangeResponse, error) {
	revision := req.Revision
	if revision > s.current() {
		return nil, rpctypes.ErrGRPCFutureRev
	}
	if revision <= 0 {
		revision = s.current()
	}
	if revision < s.compactRev {
		return nil, rpctypes.ErrGRPCCompacted
	}
	resp, header := Headed[pb.RangeResponse]()
	resp.Header, header.Revision = header, s.current()
	if req.CountOnly {
		s.each(req.Key, req.RangeEnd, revision, func(*change) { resp.Count++ })
		return resp, nil
	}
	enough := fetched(req)
	s.each(req.Key, req.RangeEnd, revision, func(c *change) {
		resp.Count++
		if len(resp.Kvs) < enough && kept(&c.kv, req) {
			resp.Kvs = append(resp.Kvs, &c.kv)
		}
	})
	order(resp.Kvs, req)
	if req.Limit > 0 && int64(len(resp.Kvs)) > req.Limit {
		resp.Kvs, resp.More = resp.Kvs[:req.Limit], true
	}
	if req.KeysOnly {
		s.stripValues(resp.Kvs, req.SortTarget)
	}
	return resp, nil
}

// fetched is how many keys are read before they are sorted and cut. As in etcd
// a limit holds before the sort when a target is given without an order: the
// first keys by name, sorted, and not the first of the sorted.
func fetched(req *pb.RangeRequest) int {
	const all = int(^uint(0) >> 1)
	filtered := req.MinModRevision != 0 || req.MaxModRevision != 0 || req.MinCreateRevision != 0 || req.MaxCreateRevision != 0
	if req.Limit <= 0 || req.Limit >= int64(all) || filtered || !byName(req.SortTarget, req.SortOrder) {
		return all
	}
	return int(req.Limit) + 1 // one more shows whether there is more
}

func byName(target pb.RangeRequest_SortTarget, order pb.RangeRequest_SortOrder) bool {
	return order == pb.RangeRequest_NONE || target == pb.RangeRequest_KEY && order == pb.RangeRequest_ASCEND
}

func kept(kv *mvccpb.KeyValue, req *pb.RangeRequest) bool {
	switch {
	case req.MaxModRevision != 0 && kv.ModRevision > req.MaxModRevision,
		req.MinModRevision != 0 && kv.ModRevision < req.MinModRevision,
		req.MaxCreateRevision != 0 && kv.CreateRevision > req.MaxCreateRevision,
		req.MinCreateRevision != 0 && kv.CreateRevision < req.MinCreateRevision:
		return false
	}
	return true
}

// order sorts with the very function that etcd calls: it isn't stable, so that
// with another one keys of equal version would come in another order.
func order(kvs []*mvccpb.KeyValue, req *pb.RangeRequest) {
	if req.SortTarget == pb.RangeRequest_KEY && byName(req.SortTarget, req.SortOrder) {
		return
	}
	var by sort.Interface = &sorted{kvs, req.SortTarget}
	if req.SortOrder == pb.RangeRequest_DESCEND {
		by = sort.Reverse(by)
	}
	sort.Sort(by)
}

type sorted struct {
	kvs    []*mvccpb.KeyValue
	target pb.RangeRequest_SortTarget
}

func (s *sorted) Len() int           { return len(s.kvs) }
func (s *sorted) Swap(i, j int)      { s.kvs[i], s.kvs[j] = s.kvs[j], s.kvs[i] }
func (s *sorted) Less(i, j int) bool { return compareBy(s.target, s.kvs[i], s.kvs[j]) < 0 }

func compareBy(target pb.RangeRequest_SortTarget, a, b *mvccpb.KeyValue) int {
	switch target {
	case pb.RangeRequest_VERSION:
		return cmp.Compare(a.Version, b.Version)
	case pb.RangeRequest_CREATE:
		return cmp.Compare(a.CreateRevision, b.CreateRevision)
	case pb.RangeRequest_MOD:
		return cmp.Compare(a.ModRevision, b.ModRevision)
	case pb.RangeRequest_VALUE:
		return bytes.Compare(a.Value, b.Value)
	default:
		return bytes.Compare(a.Key, b.Key)
	}
}

// stripValues puts copies without values into kvs. etcd 3.7 answers from its
// index, which knows of no lease, unless it needs the values to sort them.
func (s *Store) stripValues(kvs []*mvccpb.KeyValue, target pb.RangeRequest_SortTarget) {
	leases := s.Release != V3_7 || target == pb.RangeRequest_VALUE
	for i, kv := range kvs {
		bare := &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version}
		if leases {
			bare.Lease = kv.Lease
		}
		kvs[i] = bare
	}
}
