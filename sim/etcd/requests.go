// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Requests reads what the log's entries ask for, once for all members that
// share it: each of them applies the same bytes. The zero value is ready.
type Requests struct{ recent [4096]request }

// request is one that was read. Its bytes are still held here, so that no others
// can come to lie where they are.
type request struct {
	bytes []byte
	*pb.InternalRaftRequest
}

// of returns the request in an entry. Nobody may change it.
func (q *Requests) of(e *raftpb.Entry) *pb.InternalRaftRequest {
	at := &q.recent[e.GetIndex()%uint64(len(q.recent))]
	if len(at.bytes) != len(e.Data) || &at.bytes[0] != &e.Data[0] {
		r := &pb.InternalRaftRequest{}
		must(proto.Unmarshal(e.Data, r))
		*at = request{e.Data, r}
	}
	return at.InternalRaftRequest
}
