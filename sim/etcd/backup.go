// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"crypto/sha256"
	"encoding/binary"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Snapshot streams a backup as etcd does: the database, then its checksum. The
// bytes are as many as the database has, and differ when its content does, but
// nothing can be restored from them. A learner has a backup to give too.
func (s *Server) Snapshot(send func(*pb.SnapshotResponse)) error {
	const page, chunk = 4096, 32 * 1024
	if _, client := s.Listening(); !client {
		return rpctypes.ErrGRPCStopped
	}
	content := make([]byte, (s.state.kv.Size()+page-1)/page*page)
	hash, revision, _, err := s.state.kv.Hash(0)
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint64(content, s.cluster)
	binary.BigEndian.PutUint64(content[8:], uint64(revision))
	binary.BigEndian.PutUint32(content[16:], hash)
	sum := sha256.Sum256(content)
	for len(content) > 0 {
		n := min(chunk, len(content))
		send(&pb.SnapshotResponse{RemainingBytes: uint64(len(content) - n), Blob: content[:n:n], Version: s.schema})
		content = content[n:]
	}
	send(&pb.SnapshotResponse{Blob: sum[:], Version: s.schema})
	return nil
}
