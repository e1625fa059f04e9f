// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
)

// The quorum rises when the request is made, long before the new member holds
// anything. etcd lets it happen: with three voters started and connected for
// five seconds IsReadyToAddVotingMember counts 3 of a quorum of 3. From there on
// the mutant goes the reference's way: the entry is bound, starts, and serves.
var voterFirst = Mutant{
	Name:     "voter-first",
	Hazard:   "A new member enters as a voter, and counts for the quorum before it holds anything.",
	Source:   "kubermatic etcd-launcher B20; etcd-manager S7",
	Check:    "learner-first",
	Scenario: "flap",
	layer: func() layer {
		l := asking(func(h host.Host, c host.Etcd) host.Etcd { return voters{c, h} })
		l.brain = deciding(adopting).brain
		return l
	},
}

// voters adds every member as a voter.
type voters struct {
	host.Etcd
	host host.Host
}

func (v voters) MemberAddAsLearner(ctx context.Context, urls []string) (*clientv3.MemberAddResponse, error) {
	reached(v.host)
	return v.MemberAdd(ctx, urls)
}
