// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"context"
	"slices"
	"time"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/ring"
)

// What etcd has to end: it waits for its clients to close their streams, and then for whom
// it hands leadership to, each for a request's time at most (embed.Etcd.Close,
// ServerConfig.ReqTimeout: 7 s). A leader that is killed before makes all wait for an
// election. For anybody else nobody waits; and a ring that has lost another voter meanwhile
// waits for its restart, which etcd without a leader doesn't get to by itself.
const (
	leaderGrace = 15 * time.Second
	stopGrace   = 5 * time.Second
)

// StopWithin is how long Stop takes at most: less than the thirty seconds that a pod has,
// and a unit in docs/operations.md.
const StopWithin = 25 * time.Second

// Stop ends this machine's part in good order: it hands leadership over, if its
// member leads, and stops etcd.
func (l *Launcher) Stop(ctx context.Context) error {
	defer l.Ring.Close()
	if l.log.DryRun {
		return nil // etcd is not this one's to stop
	}
	grace := leaderGrace
	if view, err := l.view(ctx); err == nil {
		grace = l.handOver(ctx, l.observe(ctx, view))
	}
	l.Lease.End(ctx, l.Ring)
	return l.host.Process().Stop(ctx, grace)
}

// end stops the etcd here to have it started again, or not. That it ends then says nothing
// of its start.
func (l *Launcher) end(ctx context.Context, grace time.Duration) error {
	l.starts.stopped()
	return l.host.Process().Stop(ctx, grace)
}

// handOver moves raft leadership off this machine, so that nobody waits for an
// election timeout. It is a courtesy: a failure costs that wait, if the etcd here isn't
// given the time to hand over by itself. It returns what time that needs.
func (l *Launcher) handOver(ctx context.Context, seen ring.Observed) time.Duration {
	voters := seen.Voters()
	leads := slices.IndexFunc(voters, func(m ring.Member) bool { return m.Leader })
	if leads < 0 {
		return leaderGrace // for all that is known
	}
	to, able := seen.Successor(l.Known.Spec.Wanted(), voters[leads])
	if voters[leads].Machine != l.Machine || !able {
		return stopGrace
	}
	move := ring.Action{Kind: ring.MoveLeader, Member: to.ID, Machine: to.Machine, On: ring.Roles(seen.Members)}
	err := l.act(string(move.Kind), move.String(), move.Member.String(), func() error { return l.Do(ctx, l.Ring, move, admin.Unfenced()) })
	if err != nil {
		return leaderGrace
	}
	return stopGrace
}

// observe asks every member how it does, once.
func (l *Launcher) observe(ctx context.Context, view admin.View) ring.Observed {
	var health admin.Observer
	return health.Observe(ctx, l.Ring, view)
}
