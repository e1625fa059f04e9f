// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// The second addition comes as soon as the first is bound, and before its
// promotion. etcd has room for one learner (--max-experimental-learners=1), so
// the second becomes a voter, which etcd grants: three of a quorum of three are
// started. Now two of five entries have never run, and one crash stops writes.
var twoAtOnce = Mutant{
	Name:     "two-at-once",
	Hazard:   "A second member is added while the first is still a learner, and as a voter, since etcd has room for one learner.",
	Source:   "etcdadm E9; kubermatic etcd-launcher B20; etcd's runtime reconfiguration guide",
	Check:    "one-change-at-a-time",
	Scenario: "flap",
	layer: func() layer {
		l := asking(func(h host.Host, c host.Etcd) host.Etcd { return crowding{c, h} })
		l.brain = deciding(hasty).brain
		return l
	},
}

// hasty decides as if the learner in flight were promoted already, if that
// leads to another addition.
func hasty(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
	if d := adopting(inner, spec, promoted(o)); is(d, ring.AddLearner) {
		return d
	}
	return adopting(inner, spec, o)
}

// promoted is the ring as if its learner voted already.
func promoted(o ring.Observed) ring.Observed {
	members := slices.Clone(o.Members)
	for i, m := range members {
		if m.Learner && !otherDisk(o, m) {
			m.Learner, m.Serving, m.Silent, m.Name = false, true, 0, m.Machine
			members[i] = m
		}
	}
	o.Members = members
	return o
}

// crowding adds as a voter whom etcd won't have as a learner.
type crowding struct {
	host.Etcd
	host host.Host
}

func (c crowding) MemberAddAsLearner(ctx context.Context, urls []string) (*clientv3.MemberAddResponse, error) {
	added, err := c.Etcd.MemberAddAsLearner(ctx, urls)
	if errors.Is(err, rpctypes.ErrTooManyLearners) {
		reached(c.host)
		return c.MemberAdd(ctx, urls)
	}
	return added, err
}
