// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// monitorInterval is how often the leader looks whether the cluster's version
// may move.
const monitorInterval = 4 * time.Second

func (s *Server) monitor() {
	s.host.After(monitorInterval, s.monitor)
	s.watchVersions()
}

// watchVersions is the leader's: the cluster's version is the lowest of its
// members', and, from 3.6 on, a downgrade's target once one is under way.
func (s *Server) watchVersions() {
	if s.lead != s.id || s.monitoring || s.versionSettled() {
		return
	}
	s.monitoring = true
	s.askVersions(s.members().all, types.ID(s.id), func(all []*answerVersion) {
		s.monitoring = false
		if v := s.decideVersion(all); v != nil {
			set := &membershippb.ClusterVersionSetRequest{Ver: v.String()}
			s.propose(s.written(&pb.InternalRaftRequest{ClusterVersionSet: set}), func(any, error) {})
		}
		s.endDowngrade(all)
	})
}

// versionSettled spares the questions when no answer could move anything: the
// version can't rise above this member's own.
func (s *Server) versionSettled() bool {
	book := s.state.book
	return !s.does.Ask && book.version != nil && book.version.Equal(*s.minor()) && !s.downgrading()
}

func (s *Server) downgrading() bool {
	d := s.state.book.downgrade
	return d != nil && d.Enabled
}

func (s *Server) decideVersion(all []*answerVersion) *semver.Version {
	lowest := s.minor()
	for _, v := range all {
		if v == nil {
			lowest = nil
			break
		}
		if theirs := (semver.Version{Major: v.server.Major, Minor: v.server.Minor}); theirs.LessThan(*lowest) {
			lowest = &theirs
		}
	}
	now := s.state.book.version
	switch {
	case now == nil && lowest == nil:
		return semver.New("3.0.0")
	case now == nil:
		return lowest
	case lowest == nil:
		return nil
	case !s.since3(6) && lowest.Equal(below(now)): // 3.5 goes down once a member has, asked for or not (IsValidVersionChange)
		return lowest
	case s.since3(6) && s.downgrading():
		target := s.state.book.downgrade.GetTargetVersion()
		if target.Equal(*now) || !target.Equal(below(now)) || !target.Equal(below(lowest)) {
			return nil
		}
		return target
	case now.LessThan(*lowest):
		return lowest
	}
	return nil
}

func below(v *semver.Version) semver.Version {
	return semver.Version{Major: v.Major, Minor: v.Minor - 1}
}

// endDowngrade ends a downgrade when every member runs the target.
func (s *Server) endDowngrade(all []*answerVersion) {
	if !s.downgrading() {
		return
	}
	target := s.state.book.downgrade.GetTargetVersion()
	if !target.Equal(*s.minor()) {
		return
	}
	for _, v := range all {
		if v == nil || v.server.Major != target.Major || v.server.Minor != target.Minor {
			return
		}
	}
	s.propose(&pb.InternalRaftRequest{DowngradeInfoSet: &membershippb.DowngradeInfoSetRequest{}}, func(any, error) {})
}

// migrate moves the schema of the database along with the cluster's version.
// Before 3.6 there was no word of one.
func (s *Server) migrate() {
	v := s.state.book.version
	if s.since3(6) && v != nil && v.String() != "3.0.0" {
		s.schema = v.String()
	}
}

func (s *Server) downgrade(r *pb.DowngradeRequest, done func(any, error)) {
	answer := func(_ any, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(&pb.DowngradeResponse{Header: s.header(), Version: s.clusterVersion()}, nil)
	}
	if r.GetAction() == pb.DowngradeRequest_CANCEL {
		s.cancelDowngrade(answer)
		return
	}
	target, err := minorOf(r.GetVersion())
	switch {
	case err != nil:
		done(nil, rpctypes.ErrGRPCWrongDowngradeVersionFormat)
	case r.GetAction() != pb.DowngradeRequest_VALIDATE && r.GetAction() != pb.DowngradeRequest_ENABLE:
		done(nil, status.Error(codes.Unknown, "etcdserver: unknown method"))
	case s.state.book.version == nil:
		done(nil, rpctypes.ErrGRPCClusterVersionUnavailable)
	default:
		by := s.request
		s.read(func(err error) {
			if err = s.mayDowngrade(target, err); err != nil || r.GetAction() == pb.DowngradeRequest_VALIDATE {
				answer(nil, err)
				return
			}
			set := &membershippb.DowngradeInfoSetRequest{Enabled: true, Ver: target.String()}
			s.request = by
			s.propose(&pb.InternalRaftRequest{DowngradeInfoSet: set}, answer)
		})
	}
}

func (s *Server) mayDowngrade(target *semver.Version, err error) error {
	switch {
	case err != nil:
		return err
	case !target.Equal(below(s.state.book.version)):
		return rpctypes.ErrGRPCInvalidDowngradeTargetVersion
	case s.downgrading():
		return rpctypes.ErrGRPCDowngradeInProcess
	}
	return nil
}

// cancelDowngrade answers without an error even when there was none to cancel,
// or nothing came of it: since 3.6 etcd only logs that.
func (s *Server) cancelDowngrade(answer func(any, error)) {
	end := func(response any, err error) {
		if s.since3(6) {
			err = nil
		}
		answer(response, err)
	}
	by := s.request
	s.read(func(err error) {
		if err == nil && !s.downgrading() {
			err = rpctypes.ErrGRPCNoInflightDowngrade
		}
		if err != nil {
			end(nil, err)
			return
		}
		s.request = by
		s.propose(&pb.InternalRaftRequest{DowngradeInfoSet: &membershippb.DowngradeInfoSetRequest{}}, end)
	})
}

func (s *Server) clusterVersion() string {
	if s.state.book.version == nil {
		return ""
	}
	v := s.state.book.version.String()
	if !s.since3(6) {
		return v
	}
	return v[:strings.LastIndex(v, ".")]
}

// minorOf takes 3.5.0, and 3.5.
func minorOf(text string) (*semver.Version, error) {
	v, err := semver.NewVersion(text)
	if err != nil {
		if v, err = semver.NewVersion(text + ".0"); err != nil {
			return nil, err
		}
	}
	return &semver.Version{Major: v.Major, Minor: v.Minor}, nil
}

// ClusterVersion is what the members have agreed to speak, "3.6.0"; "" until
// they have.
func (s *Server) ClusterVersion() string {
	if s.state != nil && s.state.book.version != nil {
		return s.state.book.version.String()
	}
	return ""
}
