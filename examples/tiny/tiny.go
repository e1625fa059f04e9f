// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package tiny is a launcher of somebody else's, small and wrong, to show how
// automation that isn't ringadm is put on trial: it is what many entrypoint
// scripts of StatefulSets do. The ring is a fixed list of machines; a mark in
// the store says whether it was ever formed; an etcd without data starts as
// "existing" once it was.
//
// The bug: a machine whose volume was lost takes its member's old ID up again,
// with a log that has forgotten its votes.
package tiny

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/store"
	"github.com/ringproof/ringproof/sim"
)

// Launcher implements sim.Subject.
type Launcher struct {
	world *sim.World
	ring  ringproof.RingSpec
}

var _ sim.Subject = (*Launcher)(nil)

const formed = "formed"

// Seed makes the store.
func (l *Launcher) Seed(ctx context.Context, plan ringproof.Plan, w *sim.World) error {
	l.world, l.ring = w, plan.Ring
	return store.Init(ctx, w.Store(nil))
}

// Agent keeps an etcd running, and stops it when it is told to end itself.
func (l *Launcher) Agent(m *sim.Machine) func(context.Context) error {
	return func(ctx context.Context) error {
		defer func() { _ = m.Process().Stop(context.WithoutCancel(ctx), 5*time.Second) }()
		for ctx.Err() == nil {
			if err := l.turn(ctx, m); err != nil {
				m.Log(host.Line{Event: host.EventTrouble, Text: err.Error()})
			}
			if err := m.Sleep(ctx, 200*time.Millisecond); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
}

func (l *Launcher) turn(ctx context.Context, m *sim.Machine) error {
	running, err := m.Process().Running()
	if err != nil || running != nil || !l.founder(m) {
		return err
	}
	s := l.world.Store(m)
	state := "existing"
	if _, err := s.Get(ctx, formed); errors.Is(err, store.ErrNotFound) {
		state = "new"
	} else if err != nil {
		return err
	}
	m.Log(host.Line{Event: host.EventBoot, Text: "start as " + state})
	if err := m.Process().Start(ctx, l.command(m, state)); err != nil {
		return err
	}
	return l.mark(ctx, m, s)
}

// mark says, once this etcd answers, that the ring was formed.
func (l *Launcher) mark(ctx context.Context, m *sim.Machine, s store.Store) error {
	c, err := m.Dial(clientURL(m), nil)
	if err != nil {
		return err
	}
	defer c.Close()
	for range 50 {
		asking, cancel := m.Timeout(ctx, time.Second)
		_, err = c.MemberList(asking)
		cancel()
		if err == nil {
			if err = s.Create(ctx, formed, []byte("yes")); errors.Is(err, store.ErrExists) {
				err = nil
			}
			return err
		}
		if err := m.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return err
}

func (l *Launcher) founder(m *sim.Machine) bool {
	for _, other := range l.world.Machines()[:l.ring.Size] {
		if other == m {
			return true
		}
	}
	return false
}

func (l *Launcher) command(m *sim.Machine, state string) []string {
	var cluster []string
	for _, other := range l.world.Machines()[:l.ring.Size] {
		cluster = append(cluster, other.Name()+"="+peerURL(other))
	}
	own := l.ring.Own(m.Name())
	args := []string{m.Binaries()[own.Version], "--name=" + m.Name(), "--data-dir=" + m.Disk().Path("etcd"),
		"--listen-peer-urls=" + peerURL(m), "--initial-advertise-peer-urls=" + peerURL(m),
		"--listen-client-urls=" + clientURL(m), "--advertise-client-urls=" + clientURL(m),
		"--initial-cluster=" + strings.Join(cluster, ","), "--initial-cluster-state=" + state}
	if l.ring.Election > 0 {
		args = append(args, fmt.Sprintf("--heartbeat-interval=%d", l.ring.Heartbeat.Std().Milliseconds()), fmt.Sprintf("--election-timeout=%d", l.ring.Election.Std().Milliseconds()))
	}
	if l.ring.SnapCount > 0 {
		args = append(args, fmt.Sprintf("--snapshot-count=%d", l.ring.SnapCount))
	}
	for _, flag := range slices.Sorted(maps.Keys(own.Flags)) {
		args = append(args, "--"+flag+"="+own.Flags[flag])
	}
	return args
}

func peerURL(m *sim.Machine) string   { return "http://" + m.Address() + ":2380" }
func clientURL(m *sim.Machine) string { return "http://" + m.Address() + ":2379" }

// Inject: this launcher has no seams of its own to break.
func (l *Launcher) Inject(ringproof.Seams, string) error { return nil }

// Ask: it does nothing that an operator could ask for.
func (l *Launcher) Ask(_ context.Context, op ringproof.Op, _ []string) (string, error) {
	return "", fmt.Errorf("%w: tiny can't %s", ringproof.ErrRefused, op.Kind)
}

// Hear passes on how it starts etcd.
func (l *Launcher) Hear(line host.Line) (ringproof.Event, bool) {
	return ringproof.Event{Kind: ringproof.EventBoot, Text: line.Text}, line.Event == host.EventBoot
}

// Credentials: it knows no TLS.
func (l *Launcher) Credentials(context.Context) (*tls.Config, error) { return nil, nil }
