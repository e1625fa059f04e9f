// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"crypto/sha1"
	"encoding/binary"
	"slices"
)

// ClusterID is etcd's ID of the ring that the founders make: a digest of their
// IDs, each a digest of its peer URL and the ring's token. It never changes, so
// that every agent can tell this ring's answers from another's by the founding
// record alone.
func (i Identity) ClusterID() uint64 {
	var ids []uint64
	for _, m := range i.Members {
		ids = append(ids, digest([]byte(m.PeerURL+i.Token)))
	}
	slices.Sort(ids)
	var all []byte
	for _, id := range ids {
		all = binary.BigEndian.AppendUint64(all, id)
	}
	return digest(all)
}

func digest(of []byte) uint64 {
	sum := sha1.Sum(of)
	return binary.BigEndian.Uint64(sum[:8])
}
