// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringproof/ringproof"
)

// inquire has the member on the machine asked what the step says. What it
// answers is judged with what other clients are told.
func (r *runner) inquire(ctx context.Context, s ringproof.Step, machine string) error {
	if s.Op.Request == ringproof.AskSurge {
		return r.surge(ctx, s.Name, machine)
	}
	c, err := r.clientOn(ctx, machine)
	if err != nil {
		return err
	}
	defer c.Close()
	q := ringproof.Request{Kind: ringproof.RequestKind(s.Op.Request)}
	if q.Kind == ringproof.RequestCompact {
		if q.Revision, err = r.seenByAll(ctx, c); err != nil {
			return err
		}
	}
	if _, ok := r.ask(ctx, c, r.asker(), q); !ok {
		return fmt.Errorf("%s has not answered", machine)
	}
	return nil
}

// A surge is so many writes, by so many clients: more than any voter that is in step may be
// behind. A ring that takes none for so long is not asked for the rest.
const (
	surged       = 6000
	surgers      = 12
	surgesWithin = 20 * time.Second
)

// surge has clients write as fast as the member on the machine takes it, each a key of its own.
func (r *runner) surge(ctx context.Context, step, machine string) error {
	wrote, busy := 0, 0
	until := r.world.Now().Add(surgesWithin)
	for i := range surgers {
		c, err := r.clientOn(ctx, machine)
		if err != nil {
			return err
		}
		r.count(&busy, 1)
		r.client(ctx, "surge", func(ctx context.Context) {
			defer r.count(&busy, -1)
			defer c.Close()
			r.pour(ctx, c, r.asker()+1+i, fmt.Sprintf("%s%s-%d", Prefix, step, i), until, &wrote)
		})
	}
	for r.count(&busy, 0) > 0 {
		if err := r.world.Sleep(ctx, poll); err != nil {
			return err
		}
	}
	if wrote == 0 {
		return fmt.Errorf("%s has taken no write", machine)
	}
	return nil
}

// pour writes one client's share of a surge. A write that fails is one less.
func (r *runner) pour(ctx context.Context, c ringproof.Client, id int, key string, until ringproof.Instant, wrote *int) {
	for range surged / surgers {
		if ctx.Err() != nil || r.world.Now() > until {
			return
		}
		if _, ok := r.putUnique(ctx, c, id, key); ok {
			r.count(wrote, 1)
		}
	}
}

// asker is the client that the plan's steps ask as. It comes after all others.
func (r *runner) asker() int { return r.plan.Workload.Clients + watchers + 2 + r.plan.Ring.Size }

// clientOn opens a client on the machine.
func (r *runner) clientOn(ctx context.Context, machine string) (ringproof.Client, error) {
	var c ringproof.Client
	err := r.wait(ctx, findWithin, func() bool {
		for seat := range r.plan.Ring.Machines {
			if c = r.seat(ctx, seat); c != nil && c.Endpoint() == machine {
				return true
			}
			if c != nil {
				c.Close()
				c = nil
			}
		}
		return false
	})
	if c == nil {
		return nil, errors.Join(fmt.Errorf("no member on %s takes clients", machine), err)
	}
	return c, nil
}

// seenByAll returns the newest revision, once the watchers of the whole keyspace
// are past it.
func (r *runner) seenByAll(ctx context.Context, c ringproof.Client) (int64, error) {
	read, ok := r.ask(ctx, c, r.asker(), ringproof.Request{Kind: ringproof.RequestRange, Key: Prefix})
	if !ok {
		return 0, fmt.Errorf("%s has not answered", c.Endpoint())
	}
	if r.plan.Workload.Clients > 0 && !r.overtaken(ctx, read.Revision) {
		return 0, fmt.Errorf("not all was seen that is to be discarded, up to revision %d", read.Revision)
	}
	return read.Revision, nil
}
