// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"cmp"
	"crypto/sha1"
	"encoding/binary"
	"slices"
)

// ClusterID is etcd's ID of the ring that the initial members make: a digest of their
// IDs, each a digest of its peer URL and the ring's token. It never changes, so
// that every agent can tell this ring's answers from another's by the bootstrap
// record alone. That of a ring that was adopted is on record, as nobody knows its token.
func (i Identity) ClusterID() uint64 {
	if i.Adopted() {
		return i.Cluster
	}
	var ids []uint64
	for _, m := range i.Members {
		ids = append(ids, i.MemberID(m))
	}
	slices.Sort(ids)
	var all []byte
	for _, id := range ids {
		all = binary.BigEndian.AppendUint64(all, id)
	}
	return digest(all)
}

// Adopted reports whether the ring was there before its record.
func (i Identity) Adopted() bool { return i.Cluster != 0 }

// MemberID is the ID that etcd gives an initial member, or has given it.
func (i Identity) MemberID(f InitialMember) uint64 {
	return cmp.Or(f.Member, digest([]byte(f.PeerURL+i.Token)))
}

// Began reports whether the ring began with this member on the machine, and without a
// launcher: then a log of it there was made by nobody else, though nothing on the disk
// says so.
func (i Identity) Began(machine string, member uint64) bool {
	return i.Static && slices.ContainsFunc(i.Members, func(f InitialMember) bool { return f.Machine == machine && i.MemberID(f) == member })
}

func digest(of []byte) uint64 {
	sum := sha1.Sum(of)
	return binary.BigEndian.Uint64(sum[:8])
}
