// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Requests is what the log's entries ask for, read at most once for all members
// that share it: each of them applies the same bytes, and who proposed them knows
// what they say. The zero value is ready.
type Requests struct {
	// read is by the bytes, not by where they are: raft copies an entry that is
	// proposed to it.
	read map[string]*pb.InternalRaftRequest
}

// requestsKept is how many are remembered: about as many as are under way at a time.
// Who lags behind reads for itself. More would not stay in the processor's cache.
const requestsKept = 256

// of returns the request in an entry. Nobody may change it.
func (q *Requests) of(e *raftpb.Entry) *pb.InternalRaftRequest {
	r := q.read[string(e.Data)]
	if r == nil {
		r = decoded(e)
		q.keep(e.Data, r)
	}
	return r
}

func decoded(e *raftpb.Entry) *pb.InternalRaftRequest {
	r := &pb.InternalRaftRequest{}
	must(proto.Unmarshal(e.Data, r))
	return r
}

// keep remembers what some bytes say.
func (q *Requests) keep(data []byte, r *pb.InternalRaftRequest) {
	if q.read == nil {
		q.read = make(map[string]*pb.InternalRaftRequest, requestsKept)
	}
	if len(q.read) == requestsKept {
		clear(q.read)
	}
	q.read[string(data)] = r
}
