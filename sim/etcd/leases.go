// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3"
)

// leases is the leader's clock of leases. The log knows only what was granted;
// when a lease ends is the leader's word, and a new leader gives every lease
// its whole life again.
type leases struct {
	server  *Server
	primary bool                    // this member leads, and has applied all of the terms before
	expiry  map[int64]time.Duration // by Host.Elapsed; of every lease while primary
	asked   map[int64]time.Duration // when a revocation was last proposed
	late    map[int64][]func(error) // renewals of what has expired: they wait for its end
	first   time.Duration           // no lease ends before
	looked  time.Duration
}

const (
	leaseCheck   = 500 * time.Millisecond
	revokeAtOnce = 500 // leases a look revokes at most
	renewRetry   = 50 * time.Millisecond
)

var errNotPrimary = errors.New("not a primary lessor")

func newLeases(s *Server) leases {
	return leases{server: s, expiry: map[int64]time.Duration{}, asked: map[int64]time.Duration{}, late: map[int64][]func(error){}}
}

// atLeast raises a lifetime, in seconds, to what survives a change of leader.
func (l *leases) atLeast(ttl int64) int64 {
	c := l.server.config
	shortest := time.Duration(3*c.electionTicks()/2) * c.Heartbeat
	return max(ttl, int64(math.Ceil(shortest.Seconds())))
}

func (l *leases) set(id, ttl int64, extend time.Duration) {
	at := l.server.now() + time.Duration(ttl)*time.Second + extend
	l.expiry[id] = at
	delete(l.asked, id)
	l.first = min(l.first, at)
}

func (l *leases) granted(id, ttl int64) {
	if l.primary {
		l.set(id, ttl, 0)
	}
}

func (l *leases) revoked(id int64) {
	delete(l.expiry, id)
	delete(l.asked, id)
	waiting := l.late[id]
	delete(l.late, id)
	for _, f := range waiting {
		f(rpctypes.ErrGRPCLeaseNotFound)
	}
}

func (l *leases) promote() {
	l.primary, l.first = true, math.MaxInt64
	clear(l.expiry)
	for _, id := range l.server.state.kv.Leases() {
		ttl, _, _ := l.server.state.kv.Lease(id)
		l.set(id, l.atLeast(ttl), l.server.config.Election)
	}
}

func (l *leases) demote() {
	if l.primary {
		l.forget()
	}
}

// forget is for one who doesn't lead any more, or has got another state.
func (l *leases) forget() {
	l.primary = false
	clear(l.expiry)
	clear(l.asked)
	late := l.late
	l.late = map[int64][]func(error){}
	for _, id := range slices.Sorted(maps.Keys(late)) {
		for _, f := range late[id] {
			f(errNotPrimary)
		}
	}
}

// look proposes the end of what has expired. A proposal that got lost is made
// again after a while.
func (l *leases) look(now time.Duration) {
	if !l.primary || now-l.looked < leaseCheck {
		return
	}
	l.looked = now
	if now < l.first {
		return
	}
	for _, id := range l.due(now) {
		l.server.propose(&pb.InternalRaftRequest{LeaseRevoke: &pb.LeaseRevokeRequest{ID: id}}, func(any, error) {})
	}
}

func (l *leases) due(now time.Duration) []int64 {
	var due []int64
	l.first = math.MaxInt64
	for id, at := range l.expiry { // order: sorted below
		asked, ok := l.asked[id]
		if ok {
			at = max(at, asked+l.server.config.ReqTimeout())
		}
		if now >= at {
			due = append(due, id)
			at = now + l.server.config.ReqTimeout()
		}
		l.first = min(l.first, at)
	}
	slices.Sort(due)
	if len(due) > revokeAtOnce {
		due, l.first = due[:revokeAtOnce], now
	}
	for _, id := range due {
		l.asked[id] = now
	}
	return due
}

// renew starts a lease's life again, here where its clock is.
func (l *leases) renew(id int64, done func(ttl int64, err error)) {
	ttl, _, found := l.server.state.kv.Lease(id)
	at, timed := l.expiry[id]
	switch {
	case !l.primary:
		done(0, errNotPrimary)
	case !found:
		done(0, rpctypes.ErrGRPCLeaseNotFound)
	case timed && l.server.now() >= at:
		l.late[id] = append(l.late[id], func(err error) { done(0, err) })
	default:
		ttl = l.atLeast(ttl)
		l.set(id, ttl, 0)
		done(ttl, nil)
	}
}

func (l *leases) timeToLive(r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	ttl, keys, found := l.server.state.kv.Lease(r.GetID())
	at, timed := l.expiry[r.GetID()]
	switch {
	case !found:
		return nil, rpctypes.ErrGRPCLeaseNotFound
	case !timed:
		return nil, rpctypes.ErrGRPCLeaderChanged
	}
	left := (at - l.server.now()) / time.Second
	response := &pb.LeaseTimeToLiveResponse{Header: &pb.ResponseHeader{}, ID: r.GetID(), TTL: int64(left), GrantedTTL: l.atLeast(ttl)}
	if r.GetKeys() {
		response.Keys = keys
	}
	return response, nil
}

// ensureLead asks the ring whether this member still leads, if it has been
// stopped for so long that it may not know.
func (s *Server) ensureLead(then func(bool)) {
	if s.now()-s.lastTick < 3*s.config.Heartbeat {
		then(true)
		return
	}
	s.read(func(err error) { then(err == nil && s.lead == s.id) })
}

// keepAlive renews a lease wherever its clock is.
func (s *Server) keepAlive(id int64, done func(ttl int64, err error)) {
	end := s.now() + s.config.ReqTimeout()
	var try func()
	try = func() {
		if s.lead == s.id {
			s.renewHere(id, func(ttl int64, err error) {
				if err == errNotPrimary {
					s.later(renewRetry, end, try, func(err error) { done(0, err) })
					return
				}
				done(ttl, err)
			})
			return
		}
		s.askLeader(askRenew{id}, end, func(answer any, err error) bool {
			ttl, ok := answer.(int64)
			if err == nil && ok || err == rpctypes.ErrGRPCLeaseNotFound {
				done(ttl, err)
				return true
			}
			return false
		}, renewRetry, func(err error) { done(0, err) })
	}
	try()
}

func (s *Server) renewHere(id int64, done func(int64, error)) {
	s.ensureLead(func(leads bool) {
		if !leads {
			done(0, errNotPrimary)
			return
		}
		s.leases.renew(id, done)
	})
}

func (s *Server) leaseTimeToLive(r *pb.LeaseTimeToLiveRequest, done func(any, error)) {
	if s.lead == s.id {
		response, err := s.leases.timeToLive(r)
		done(response, err)
		return
	}
	end := s.now() + s.config.ReqTimeout()
	s.askLeader(askTimeToLive{r}, end, func(answer any, err error) bool {
		response, ok := answer.(*pb.LeaseTimeToLiveResponse)
		if err == nil && ok || err == rpctypes.ErrGRPCLeaseNotFound {
			done(response, err)
			return true
		}
		return false
	}, renewRetry, func(err error) { done(nil, err) })
}

// later tries again after a pause, unless the time is up.
func (s *Server) later(pause, end time.Duration, again func(), up func(error)) {
	if s.now()+pause >= end {
		up(rpctypes.ErrGRPCTimeout)
		return
	}
	s.host.After(pause, again)
}

// askLeader asks the leader, URL by URL, until accept takes an answer, or the
// client has gone for whom it asks.
func (s *Server) askLeader(question any, end time.Duration, accept func(any, error) bool, pause time.Duration, up func(error)) {
	r := s.request
	var try func()
	try = func() {
		if r != nil && r.gone {
			up(errCanceled)
			return
		}
		leader := s.members().by[s.lead]
		if s.lead == raft.None || leader == nil || len(leader.PeerURLs) == 0 {
			if s.now()+s.config.Election >= end {
				up(rpctypes.ErrGRPCNoLeader)
				return
			}
			s.host.After(s.config.Election, try)
			return
		}
		s.askEach(leader.PeerURLs, question, end-s.now(), accept, func() { s.later(pause, end, try, up) })
	}
	try()
}
