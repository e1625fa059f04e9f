// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
)

// One follower is restarted, once, in a ring that has one to spare: nobody waits
// for it, and nothing is as it should not be. It is needless, and in a bad moment
// it costs the quorum.
var restartsPromoted = Mutant{
	Name:     "restarts-promoted",
	Hazard:   "A member is restarted when it has become a voter, to run with a voter's flags.",
	Source:   "controllers that roll the pods of a template whenever it changes",
	Check:    "work-bounded",
	Scenario: "replace-planned[victim=follower]",
	layer: func() layer {
		done := false
		return layer{host: func(h host.Host) host.Host {
			return machine{Host: h, client: func(c host.Etcd) host.Etcd { return promotions{c, h, &done} }}
		}}
	},
}

// promotions looks in every list for the machine's own member, if that was started
// as a learner.
type promotions struct {
	host.Etcd
	host host.Host
	done *bool
}

func (p promotions) MemberList(ctx context.Context, opts ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	list, err := p.Etcd.MemberList(ctx, opts...)
	if err != nil || *p.done {
		return list, err
	}
	args, _ := p.host.Process().Running()
	joined := slices.Contains(args, "--initial-cluster-state=existing")
	votes := slices.ContainsFunc(list.Members, func(m *etcdserverpb.Member) bool { return !m.IsLearner && slices.Contains(args, "--name="+m.Name) })
	if joined && votes {
		*p.done = true
		reached(p.host)
		_ = p.host.Process().Stop(ctx, time.Second)
	}
	return list, err
}
