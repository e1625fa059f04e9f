// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package auto runs a ring without Kubernetes: one agent on each machine. The
// machines meet in a store, bootstrap the ring there exactly once, and from then on
// hold the lead of the automation in the ring itself. Every turn of an agent
// looks at its own machine first, then, if it leads, at the ring.
package auto

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/reconcile"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// Prefixes of the numbered records in the store.
const (
	SpecPrefix      = "spec"
	IdentityPrefix  = "identity"
	FormedPrefix    = "formed"
	EpochPrefix     = "epochs"
	AuthorityPrefix = "authority"
	MachinesPrefix  = "machines"
)

const (
	pace        = 150 * time.Millisecond // between two turns
	notePace    = time.Second            // between two tries to note in the store that the ring has answered
	epochPeriod = 3 * time.Second        // how long the holder of an epoch has to bootstrap the ring
)

// Brain is what decides: ring.Next and launcher.Decide, and who carries out an
// action.
type Brain struct {
	Next func(ring.Spec, ring.Observed) ring.Decision
	Boot func(launcher.Evidence) launcher.Boot
	Do   func(context.Context, *admin.Ring, ring.Action, admin.Fence) error
}

// Reference is the brain that ships.
func Reference() Brain {
	return Brain{
		Next: ring.Next,
		Boot: launcher.Decide,
		Do:   func(ctx context.Context, r *admin.Ring, a ring.Action, f admin.Fence) error { return r.Do(ctx, a, f) },
	}
}

// Config is one machine's part.
type Config struct {
	Machine  string
	Address  string                  // IP address or host name that peers and clients reach
	Binaries map[ring.Version]string // etcd release → path of its binary
	DryRun   bool                    // say what would be done, change nothing anywhere
	Brain    Brain
}

// Agent is the automation on one machine: its launcher, the reconciler that it runs
// while it leads, and the store in which both begin.
type Agent struct {
	Config
	host       host.Host
	log        *host.Recorder
	source     *source
	launcher   *launcher.Launcher
	reconciler *reconcile.Reconciler
	nonce      string
	epochWatch
	noted time.Time // when the store was last told that the ring has answered
}

// New returns the agent of one machine.
func New(h host.Host, s store.Store, c Config) *Agent {
	if c.DryRun {
		h, s = newDryHost(h), dryStore{s}
	}
	s = patient{s, h}
	a := &Agent{Config: c, host: h, nonce: h.Nonce(), log: &host.Recorder{Host: h, DryRun: c.DryRun}, source: &source{host: h, store: s, silent: c.DryRun}}
	a.launcher = launcher.NewLauncher(h, a.log, launcher.Config{Machine: c.Machine, Address: c.Address, Binaries: c.Binaries,
		Source: a.source, Authority: a.source.authority, Decide: c.Brain.Boot, Do: c.Brain.Do})
	// A recorder of its own: what the machine waits for and what the ring waits for are said
	// turn by turn, and each would be news after the other.
	a.reconciler = &reconcile.Reconciler{Ring: a.launcher.Ring, Log: &host.Recorder{Host: h, DryRun: c.DryRun}, Next: a.next, Do: c.Brain.Do,
		Lead: admin.Lead{Holder: c.Machine, Nonce: a.nonce}, Queues: true}
	return a
}

// Run takes turns until ctx ends. Then it hands leadership over, if its member
// leads, and stops etcd; within is how long that may take.
func (a *Agent) Run(ctx context.Context, within time.Duration) error {
	for ctx.Err() == nil {
		if err := a.turn(ctx); err != nil {
			a.log.Say(host.EventTrouble, err.Error())
		}
		if err := a.host.Sleep(ctx, pace); err != nil {
			break
		}
	}
	stopping, cancel := a.host.Timeout(context.WithoutCancel(ctx), within)
	defer cancel()
	return a.launcher.Stop(stopping)
}

// Once takes turns of a dry run until one says nothing new, and returns: what would be done,
// and what is waited for, takes more than one look to find out.
func (a *Agent) Once(ctx context.Context) (err error) {
	for turns, said := 0, -1; err == nil && (turns < 2 || a.said() > said); turns++ {
		said = a.said()
		if err = a.turn(ctx); err == nil {
			err = a.host.Sleep(ctx, pace)
		}
	}
	return err
}

// said is how many lines the machine's part has said, and the ring's.
func (a *Agent) said() int { return a.log.Lines + a.reconciler.Log.Lines }

// turn looks after the machine, then at the ring.
func (a *Agent) turn(ctx context.Context) error {
	look, err := a.launcher.Turn(ctx)
	if look == nil || err != nil {
		return err
	}
	if known := a.launcher.Known; known.IdentityKnown && known.Identity == nil {
		return a.meet(ctx)
	}
	if look.Unread != nil {
		a.reconciler.Unread(a.launcher.Known.Spec.Wanted(), look.Unread)
		return nil
	}
	a.reconciler.Read()
	if look.Second {
		return nil
	}
	untold := a.launcher.Attend(ctx, look)
	if untold != nil && !a.full(untold) {
		a.reconciler.Barred(untold)
		return untold
	}
	leads, err := a.lead(ctx, look.View)
	if !leads {
		err = cmp.Or(err, untold) // who leads says what bars it
	}
	a.reconciler.Barred(err)
	return err
}

// full reports whether the machine is there by its lease, and all that failed is that an alarm lets it
// write nothing more of itself. Who leads goes on: what ends the alarm, or has nothing to do with it,
// must not wait for that.
func (a *Agent) full(err error) bool {
	return errors.Is(err, rpctypes.ErrNoSpace) && a.launcher.Lease.Lives(a.host)
}
