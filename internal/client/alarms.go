// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package client

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/ringproof/ringproof"
)

// Alarms are those that somebody else than the subject has raised, by step.
type Alarms struct {
	mu     sync.Mutex
	raised map[string]alarm
}

type alarm struct {
	kind   pb.AlarmType
	member uint64
}

func (x alarm) ask(ctx context.Context, c Etcd, action pb.AlarmRequest_AlarmAction) error {
	_, err := c.Alarm(ctx, &pb.AlarmRequest{Action: action, MemberID: x.member, Alarm: x.kind})
	return err
}

// Raise has a person raise the alarm, "NOSPACE" (also by "") or "CORRUPT", for the member
// at a host, and returns the evidence.
func (a *Alarms) Raise(ctx context.Context, step string, machines []Asking, name, host string, sleep func(context.Context, time.Duration) error) (evidence string, err error) {
	name = cmp.Or(name, ringproof.AlarmNoSpace)
	x := alarm{kind: pb.AlarmType(pb.AlarmType_value[name])}
	err = insist(ctx, machines, tries, func(ctx context.Context, c Etcd) (err error) {
		if x.member == 0 {
			x.member, err = memberAt(ctx, c, host)
		}
		if err == nil {
			a.note(step, x) // it may be done though no reply comes
			err = x.ask(ctx, c, pb.AlarmRequest_ACTIVATE)
		}
		return err
	}, sleep)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the alarm %s of member %x was raised by hand", name, x.member), nil
}

func (a *Alarms) note(step string, x alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.raised == nil {
		a.raised = map[string]alarm{}
	}
	a.raised[step] = x
}

// untilServing is how often, a second apart, a person asks for an alarm to be taken back: a
// ring that has lost its quorum by another fault does nothing meanwhile.
const untilServing = 60

// TakeBack has the person take back the alarm that they raised in the step, if any, be its
// member in the ring or not.
func (a *Alarms) TakeBack(ctx context.Context, step string, machines []Asking, sleep func(context.Context, time.Duration) error) error {
	a.mu.Lock()
	x, raised := a.raised[step]
	delete(a.raised, step)
	a.mu.Unlock()
	if !raised {
		return nil
	}
	return insist(ctx, machines, untilServing, func(ctx context.Context, c Etcd) error {
		return x.ask(ctx, c, pb.AlarmRequest_DEACTIVATE)
	}, sleep)
}
