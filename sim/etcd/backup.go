// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const preamble = 8 // bytes before the keys: a hash, and how long they are

// ReadSnapshot returns what a whole backup holds: the revision up to which it goes, and all keys.
func ReadSnapshot(file []byte) (revision int64, keys []*mvccpb.KeyValue, err error) {
	if len(file) < preamble+sha256.Size {
		return 0, nil, fmt.Errorf("%d bytes are no backup", len(file))
	}
	var held pb.RangeResponse
	err = proto.Unmarshal(file[preamble:preamble+binary.BigEndian.Uint32(file[4:])], &held)
	return held.Header.GetRevision(), held.Kvs, err
}

// Snapshot streams a backup as etcd does: the database, then its checksum. The
// bytes are as many as the database has, and differ when its content does. What keys it
// holds [ReadSnapshot] tells; nothing can be restored from them. A learner has a backup to give too.
func (s *Server) Snapshot(send func(*pb.SnapshotResponse)) error {
	const page, chunk = 4096, 32 * 1024
	if _, client := s.Listening(); !client {
		return rpctypes.ErrGRPCStopped
	}
	hash, _, _, err := s.state.kv.Hash(0)
	if err != nil {
		return err
	}
	held, err := s.state.kv.Range(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
	if err != nil {
		return err
	}
	held.Header = &pb.ResponseHeader{ClusterId: s.cluster, Revision: s.state.kv.Revision()}
	keys, err := proto.Marshal(held)
	if err != nil {
		return err
	}
	size := max(s.state.kv.Size(), int64(preamble+len(keys)))
	content := make([]byte, (size+page-1)/page*page)
	binary.BigEndian.PutUint32(content, hash)
	binary.BigEndian.PutUint32(content[4:], uint32(len(keys)))
	copy(content[preamble:], keys)
	sum := sha256.Sum256(content)
	for len(content) > 0 {
		n := min(chunk, len(content))
		send(&pb.SnapshotResponse{RemainingBytes: uint64(len(content) - n), Blob: content[:n:n], Version: s.schema})
		content = content[n:]
	}
	send(&pb.SnapshotResponse{Blob: sum[:], Version: s.schema})
	return nil
}
