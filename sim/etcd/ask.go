// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
)

// The questions of etcd's peer port, next to raft's messages, and the answers
// that have a type of their own.
type (
	askMembers    struct{}
	answerMembers struct {
		cluster uint64
		members []*membership.Member
	}
	askVersion    struct{}
	answerVersion struct {
		server  semver.Version
		cluster *semver.Version // nil before it is decided
	}
	askDowngrade struct{}
	askHash      struct {
		cluster  uint64
		revision int64
	}
	answerHash struct {
		hash      uint32
		compacted int64
	}
	askRenew      struct{ lease int64 }
	askTimeToLive struct{ request *pb.LeaseTimeToLiveRequest }
	askPromote    struct{ member uint64 }
)

// String is the ring as etcd prints it in its errors.
func (a answerMembers) String() string {
	var members []string
	for _, m := range a.members {
		members = append(members, fmt.Sprintf("%+v", m))
	}
	return fmt.Sprintf("{ClusterID:%s Members:[%s] RemovedMemberIDs:[]}", types.ID(a.cluster), strings.Join(members, " "))
}

// Waits reports whether the question waits for an etcd that doesn't serve its peers yet: etcd
// listens for them from its start. The handshakes of streams come again by themselves. Whoever
// asks such a question waits as long as he likes to: no transport ends it.
func Waits(question any) bool {
	switch question.(type) {
	case hello, Packet:
		return false
	}
	return true
}

// Answer answers what a peer asked with Host.Ask, once it serves its peers.
func (s *Server) Answer(question any, reply func(any, error)) {
	switch {
	case s.over:
		reply(nil, errNotServing)
	case !s.open && Waits(question):
		s.unanswered = append(s.unanswered, func() { s.answer(question, reply) })
	case !s.open:
		reply(nil, errNotServing)
	default:
		s.answer(question, reply)
	}
}

func (s *Server) answer(question any, reply func(any, error)) {
	switch q := question.(type) {
	case hello:
		reply(nil, s.greet(q))
	case Packet:
		reply(nil, s.Receive(q))
	case askMembers:
		reply(answerMembers{s.cluster, s.members().all}, nil)
	case askVersion:
		reply(answerVersion{s.release, s.state.book.version}, nil)
	case askDowngrade:
		s.read(func(err error) { reply(s.downgrading(), err) })
	case askHash:
		reply(s.answerHash(q))
	case askRenew:
		s.renewHere(q.lease, func(ttl int64, err error) { reply(ttl, err) })
	case askTimeToLive:
		response, err := s.leases.timeToLive(q.request)
		reply(response, err)
	case askPromote:
		s.promote(q.member, reply)
	default:
		reply(nil, fmt.Errorf("no such question: %T", question))
	}
}

func (s *Server) answerHash(q askHash) (any, error) {
	if q.cluster != s.cluster {
		return nil, rpctypes.ErrGRPCClusterIDMismatch
	}
	hash, _, compacted, err := s.state.kv.Hash(q.revision)
	return answerHash{hash, compacted}, err
}

// ask is Host.Ask with patience: whatever comes first is the answer.
func (s *Server) ask(url string, question any, patience time.Duration, answer func(any, error)) {
	over := false
	var stop func()
	once := func(a any, err error) {
		if over || s.over {
			return
		}
		over = true
		stop()
		answer(a, err)
	}
	stop = s.host.After(patience, func() { once(nil, errDeadline) })
	s.host.Ask(url, question, once)
}

// askEach asks URL by URL until accept takes an answer, or else calls none.
func (s *Server) askEach(urls []string, question any, patience time.Duration, accept func(any, error) bool, none func()) {
	if len(urls) == 0 {
		none()
		return
	}
	s.ask(urls[0], question, patience, func(a any, err error) {
		if !accept(a, err) {
			s.askEach(urls[1:], question, patience, accept, none)
		}
	})
}

// askAny takes the first answer that is no error, or the last error.
func (s *Server) askAny(urls []string, question any, patience time.Duration, answer func(any, error)) {
	last := fmt.Errorf("nobody to ask")
	s.askEach(urls, question, patience, func(a any, err error) bool {
		if err != nil {
			last = err
			return false
		}
		answer(a, nil)
		return true
	}, func() { answer(nil, last) })
}

// askOthers asks one member after the other until accept takes an answer, or else calls none.
func (s *Server) askOthers(members []*membership.Member, self types.ID, question any, accept func(any, error) bool, none func()) {
	for len(members) > 0 && members[0].ID == self {
		members = members[1:]
	}
	if len(members) == 0 {
		none()
		return
	}
	s.askAny(members[0].PeerURLs, question, s.config.ReqTimeout(), func(a any, err error) {
		if !accept(a, err) {
			s.askOthers(members[1:], self, question, accept, none)
		}
	})
}

// askDowngrade asks whether the ring is on its way to an older minor: the first answer is the
// ring's, and none is no.
func (s *Server) askDowngrade(members []*membership.Member, self types.ID, then func(bool)) {
	s.askOthers(members, self, askDowngrade{}, func(a any, err error) bool {
		enabled, ok := a.(bool)
		if ok = ok && err == nil; ok {
			then(enabled)
		}
		return ok
	}, func() { then(false) })
}

// askVersions asks every member; nil is one that didn't answer.
func (s *Server) askVersions(members []*membership.Member, self types.ID, then func([]*answerVersion)) {
	var all []*answerVersion
	s.askOthers(members, self, askVersion{}, func(a any, err error) bool {
		if v, ok := a.(answerVersion); ok && err == nil {
			all = append(all, &v)
		} else {
			all = append(all, nil)
		}
		return false
	}, func() { then(all) })
}
