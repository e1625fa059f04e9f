// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
)

// With two voters of three left the quorum is two, and with a third that holds
// nothing it still is: by the margin nothing is lost. It votes before it has what
// was acknowledged.
var replacesWithVoter = Mutant{
	Name:     "replaces-with-voter",
	Hazard:   "Where one more voter doesn't raise the quorum a new member enters as one.",
	Source:   "etcd's guide from before learners; kubermatic etcd-launcher B20",
	Check:    "learner-first",
	Scenario: "volume-lost",
	layer: func() layer {
		l := asking(func(h host.Host, c host.Etcd) host.Etcd { return evenVoters{c, h} })
		l.brain = deciding(adopting).brain
		return l
	},
}

// evenVoters adds a member to an even number of voters as a voter.
type evenVoters struct {
	host.Etcd
	host host.Host
}

func (v evenVoters) MemberAddAsLearner(ctx context.Context, urls []string) (*clientv3.MemberAddResponse, error) {
	list, err := v.MemberList(ctx)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, m := range list.Members {
		if !m.IsLearner {
			n++
		}
	}
	if n%2 == 1 {
		return v.Etcd.MemberAddAsLearner(ctx, urls)
	}
	reached(v.host)
	return v.MemberAdd(ctx, urls)
}
