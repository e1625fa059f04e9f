// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package mvcc

import (
	"bytes"
	"cmp"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// MaxTTL is the longest life of a lease that etcd grants, in seconds.
const MaxTTL = 9_000_000_000

type lease struct{ id, ttl int64 }

func byID(a, b lease) bool { return a.id < b.id }

// attachment is a key that goes when its lease does.
type attachment struct {
	lease int64
	key   []byte
}

func byLease(a, b attachment) bool {
	return cmp.Or(cmp.Compare(a.lease, b.lease), bytes.Compare(a.key, b.key)) < 0
}

// Grant makes a lease of ttl seconds. When it ends is not known here: that is
// for the member that leads. So is the shortest ttl a member grants, which
// hangs on its election timeout: raise ttl to it before. It fails with
// ErrGRPCLeaseNotFound for id 0, ErrGRPCLeaseTTLTooLarge and ErrGRPCLeaseExist.
func (s *Store) Grant(id, ttl int64) error {
	switch {
	case id == 0:
		return rpctypes.ErrGRPCLeaseNotFound
	case ttl > MaxTTL:
		return rpctypes.ErrGRPCLeaseTTLTooLarge
	case s.leases.Has(lease{id: id}):
		return rpctypes.ErrGRPCLeaseExist
	}
	s.leases.ReplaceOrInsert(lease{id, ttl})
	return nil
}

// Revoke ends a lease and deletes its keys, sorted, in one revision; in none
// when it has no keys. It fails with ErrGRPCLeaseNotFound.
func (s *Store) Revoke(id int64) error {
	if _, found := s.leases.Delete(lease{id: id}); !found {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	for _, key := range s.keysOf(id) {
		s.remove(s.get(key, s.current()))
	}
	s.complete()
	return nil
}

// Leases are the IDs of all leases, ascending.
func (s *Store) Leases() []int64 {
	ids := make([]int64, 0, s.leases.Len())
	s.leases.Ascend(func(l lease) bool {
		ids = append(ids, l.id)
		return true
	})
	return ids
}

// Lease is the life of a lease in seconds, as granted, and its keys, ascending.
func (s *Store) Lease(id int64) (ttl int64, keys [][]byte, found bool) {
	l, found := s.leases.Get(lease{id: id})
	if !found {
		return 0, nil, false
	}
	return l.ttl, s.keysOf(id), true
}

func (s *Store) keysOf(id int64) (keys [][]byte) {
	s.attached.AscendGreaterOrEqual(attachment{lease: id}, func(a attachment) bool {
		if a.lease != id {
			return false
		}
		keys = append(keys, a.key)
		return true
	})
	return keys
}

// attach moves a key from one lease to another; 0 is none.
func (s *Store) attach(key []byte, from, to int64) {
	if from == to {
		return
	}
	if from != 0 {
		s.attached.Delete(attachment{from, key})
	}
	if to != 0 {
		s.attached.ReplaceOrInsert(attachment{to, key})
	}
}
