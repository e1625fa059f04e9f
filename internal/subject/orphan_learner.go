// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// Who adds a member also binds it, in one go; nobody looks for one that was
// added and not bound. So growing works, until the agent dies in between: the
// seam's fault lies inside the mutant and cuts its two requests apart. The
// learner then starts nowhere, and etcd has room for no other.
var orphanLearner = Mutant{
	Name:     "orphan-learner",
	Hazard:   "A learner whose addition was cut off is never bound and never removed.",
	Source:   "etcd-manager S7 (KM#288, etcd#15243); etcdadm E2, E3",
	Check:    "converges",
	Scenario: "agent-crash-grow[action=add-learner,phase=after]",
	layer: only(layer{brain: func(_ host.Host, b auto.Brain) auto.Brain {
		do, decide := b.Do, b.Next
		b.Do = func(ctx context.Context, r *admin.Ring, a ring.Action, f admin.Fence) error {
			err := do(ctx, r, a, f)
			if err != nil || a.Kind != ring.AddLearner {
				return err
			}
			return bindAdded(ctx, r, a, func(bind ring.Action) error { return do(ctx, r, bind, f) })
		}
		b.Next = func(spec ring.Spec, o ring.Observed) ring.Decision { return negligent(decide, spec, o) }
		return b
	}}),
}

// negligent leaves alone what was added and never bound.
func negligent(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
	d := inner(spec, o)
	if !is(d, ring.Bind) && !is(d, ring.Remove) {
		return d
	}
	if m, in := memberOf(o, d.Action.Member); in && !m.Started() && m.Disk == "" {
		return wait("member " + m.String() + " was added and will start")
	}
	return d
}

// bindAdded binds the learner that was just added for a.
func bindAdded(ctx context.Context, r *admin.Ring, a ring.Action, do func(ring.Action) error) error {
	list, err := r.List(ctx)
	if err != nil {
		return fmt.Errorf("binding what was added: %w", err)
	}
	for _, m := range list.Members {
		if slices.Contains(m.PeerURLs, a.PeerURL) {
			return do(ring.Action{Kind: ring.Bind, Member: ring.ID(m.ID), Machine: a.Machine, Disk: a.Disk, On: admin.Roles(list.Members)})
		}
	}
	return fmt.Errorf("binding what was added: no member is at %s", a.PeerURL)
}
