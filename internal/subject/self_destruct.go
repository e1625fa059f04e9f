// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
)

// The launcher gives its etcd a minute to find a quorum; here time is shorter
// and the proportions are kept. With machines back three seconds apart each
// member is gone before the next one comes, and all are away for equally long,
// so the next round goes the same way. A first start has no log and is spared,
// as is a member that restarts within a ring that serves: it finds its quorum
// with its first question.
var selfDestruct = Mutant{
	Name:     "self-destruct",
	Hazard:   "A restarted member that finds no quorum in time is killed and stays down for a while, so that members wait for each other in turn.",
	Source:   "kubermatic etcd-launcher B9 (panic after 60 s, then CrashLoopBackOff)",
	Check:    "converges",
	Scenario: "power-loss[size=3]",
	layer: func() layer {
		return layer{host: func(h host.Host) host.Host {
			s := &suicide{Process: h.Process(), host: h}
			return machine{Host: h, process: s, client: func(c host.Etcd) host.Etcd { return lonely{c, s} }}
		}}
	},
}

const (
	quorumPatience = time.Second
	backOff        = 20 * time.Second
)

// suicide is a process that is killed unless a quorum answers in time.
type suicide struct {
	host.Process
	host  host.Host
	alone time.Time // since when it runs without having seen a quorum; zero: it has seen one
	until time.Time // when it may start again
}

func (s *suicide) Start(ctx context.Context, args []string) error {
	if left := s.until.Sub(s.host.Now()); left > 0 {
		if err := s.host.Sleep(ctx, left); err != nil {
			return err
		}
	}
	s.alone = time.Time{}
	if _, err := s.host.Disk().WAL(launcher.DataDir); err == nil {
		s.alone = s.host.Now()
	}
	return s.Process.Start(ctx, args)
}

// judge takes note of whether a question to the quorum was answered.
func (s *suicide) judge(ctx context.Context, answered bool) {
	now := s.host.Now()
	if answered || s.alone.IsZero() || now.Sub(s.alone) < quorumPatience {
		if answered {
			s.alone = time.Time{}
		}
		return
	}
	reached(s.host)
	s.alone, s.until = time.Time{}, now.Add(backOff)
	_ = s.Stop(context.WithoutCancel(ctx), time.Second)
}

// lonely tells of each list that could not be read with a quorum.
type lonely struct {
	host.Etcd
	process *suicide
}

func (l lonely) MemberList(ctx context.Context, opts ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	list, err := l.Etcd.MemberList(ctx, opts...)
	l.process.judge(ctx, err == nil)
	return list, err
}
