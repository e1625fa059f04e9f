// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
)

var leaseCommands = map[string]command{
	"grant":      {(*stage).grant, 2, 2, "on"},
	"revoke":     {(*stage).revoke, 1, 1, "on"},
	"keep-alive": {(*stage).keepAlive, 1, 1, "on"},
	"ttl":        {(*stage).ttl, 1, 1, "on"},
	"leases":     {(*stage).listLeases, 0, 0, "on"},
	"expired":    {(*stage).expired, 1, 1, "on"},
}

// lease is the ID of a lease by its name. A name that was never granted is an
// ID that never was.
func (s *stage) lease(name string) clientv3.LeaseID {
	if id, ok := s.names.leases[name]; ok {
		return id
	}
	return 0xdead
}

func (s *stage) leaseOrNone(name string) clientv3.LeaseID {
	if name == "none" {
		return clientv3.NoLease
	}
	return s.lease(name)
}

func (s *stage) leaseName(id clientv3.LeaseID) string {
	for _, name := range slices.Sorted(maps.Keys(s.names.leases)) {
		if s.names.leases[name] == id {
			return name
		}
	}
	return "unknown"
}

func (s *stage) grant(ctx context.Context, c call) string {
	seconds, err := strconv.ParseInt(c.words[1], 10, 64)
	if err != nil {
		return failed(err)
	}
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.asked(c).Grant(ctx, seconds)
	if err != nil {
		return failed(err)
	}
	s.names.leases[c.words[0]] = got.ID
	return fmt.Sprintf("granted %s for %ds", c.words[0], got.TTL) + s.at(got.ResponseHeader)
}

func (s *stage) revoke(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.asked(c).Revoke(ctx, s.lease(c.words[0]))
	if err != nil {
		return failed(err)
	}
	return "revoked " + c.words[0] + s.at(got.Header)
}

func (s *stage) keepAlive(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.asked(c).KeepAliveOnce(ctx, s.lease(c.words[0]))
	if err != nil {
		return failed(err)
	}
	return fmt.Sprintf("%s lives for %ds", c.words[0], got.TTL)
}

// ttl doesn't print what is left of the lease: that is time.
func (s *stage) ttl(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.asked(c).TimeToLive(ctx, s.lease(c.words[0]), clientv3.WithAttachedKeys())
	if err != nil {
		return failed(err)
	}
	if got.TTL <= 0 {
		return fmt.Sprintf("%s: ttl %d, granted for %ds", c.words[0], got.TTL, got.GrantedTTL)
	}
	var keys []string
	for _, key := range got.Keys {
		keys = append(keys, string(key))
	}
	if len(keys) == 0 {
		return fmt.Sprintf("%s: granted for %ds, on no key", c.words[0], got.GrantedTTL)
	}
	slices.Sort(keys) // etcd keeps them in a map
	return fmt.Sprintf("%s: granted for %ds, on %s", c.words[0], got.GrantedTTL, list(keys))
}

func (s *stage) listLeases(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.asked(c).Leases(ctx)
	if err != nil {
		return failed(err)
	}
	var all []string
	for _, each := range got.Leases {
		all = append(all, s.leaseName(each.ID))
	}
	if len(all) == 0 {
		return "no lease"
	}
	slices.Sort(all)
	return list(all)
}

// expired waits until the lease is gone, with its keys. One that has run out
// and isn't revoked yet has a TTL below 0 too, and still what it was granted for.
func (s *stage) expired(ctx context.Context, c call) string {
	if s.await(ctx, c.within(patience), func(ctx context.Context) bool {
		got, err := s.asked(c).TimeToLive(ctx, s.lease(c.words[0]))
		return err == nil && got.TTL == -1 && got.GrantedTTL == 0
	}) {
		return c.words[0] + " has expired"
	}
	return c.words[0] + " lives on"
}
