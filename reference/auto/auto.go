// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package auto runs a ring without Kubernetes: one agent on each machine. The
// machines meet in a store, found the ring there exactly once, and from then on
// hold the lead of the automation in the ring itself. Every turn of an agent
// looks at its own machine first, then, if it leads, at the ring.
package auto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
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
	restPace    = time.Second            // between two looks at a ring in which there is nothing to do: a fifth of the lease
	storePace   = time.Second            // between two readings of the store, once there is a ring
	leaseTTL    = 5                      // seconds, of the presence and of the lead
	stopGrace   = 5 * time.Second
	epochPeriod = 3 * time.Second // how long the holder of an epoch has to found the ring
)

// Brain is what decides: ring.Next and launcher.Decide, and who carries out an
// action.
type Brain struct {
	Next func(ring.Spec, ring.Observed) ring.Decision
	Boot func(launcher.Evidence) launcher.Boot
	Do   func(context.Context, *admin.Ring, ring.Action) error
}

// Reference is the brain that ships.
func Reference() Brain {
	return Brain{
		Next: ring.Next,
		Boot: launcher.Decide,
		Do:   func(ctx context.Context, r *admin.Ring, a ring.Action) error { return r.Do(ctx, a) },
	}
}

// Config is one machine's part.
type Config struct {
	Machine  string
	Address  string            // IP address or host name that peers and clients reach
	Binaries map[string]string // etcd release → path of its binary
	DryRun   bool              // say what would be done, change nothing in the ring
	Brain    Brain
}

// Agent is the automation on one machine.
type Agent struct {
	Config
	host  host.Host
	store store.Store

	disk    launcher.Disk
	known   knowledge
	ring    *admin.Ring
	watch   admin.Observer
	lease   clientv3.LeaseID
	nonce   string
	able    []string // the releases on this machine, sorted
	leading bool
	said    map[host.Event]string // the last of each, so that a line is written once
	epochWatch
	misplaced
	absent time.Time // since when a ring is listed without a member here
	rest   time.Time // until then there is nothing to do, unless etcd ends or the spec changes
}

// New returns the agent of one machine.
func New(h host.Host, s store.Store, c Config) *Agent {
	a := &Agent{Config: c, host: h, store: s, nonce: h.Nonce(), said: map[host.Event]string{}, able: slices.Sorted(maps.Keys(c.Binaries))}
	a.ring = &admin.Ring{Host: h}
	a.watch.Ring = a.ring
	return a
}

// Run takes turns until ctx ends. Then it hands leadership over, if its member
// leads, and stops etcd; within is how long that may take.
func (a *Agent) Run(ctx context.Context, within time.Duration) error {
	for ctx.Err() == nil {
		if err := a.turn(ctx); err != nil {
			a.say(host.EventTrouble, err.Error())
		}
		if err := a.host.Sleep(ctx, pace); err != nil {
			break
		}
	}
	stopping, cancel := a.host.Timeout(context.WithoutCancel(ctx), within)
	defer cancel()
	return a.stop(stopping)
}

// Turn is one round of the agent's loop.
func (a *Agent) turn(ctx context.Context) error {
	if err := a.openDisk(); err != nil {
		return err
	}
	a.learn(ctx)
	if !a.known.specKnown {
		a.say(host.EventWaiting, "the spec is not known: "+a.known.trouble)
		return nil
	}
	if err := a.secure(); err != nil {
		return err
	}
	args, err := a.host.Process().Running()
	if err != nil {
		return fmt.Errorf("looking for the etcd process: %w", err)
	}
	if args != nil {
		if err := launcher.Mark(a.host, a.disk); err != nil {
			return err
		}
		if left := a.rest.Sub(a.host.Now()); left > 0 && left <= restPace { // more is of a clock that went back
			return nil
		}
	}
	a.rest = time.Time{}
	view, listed := a.view(ctx)
	if args == nil {
		if err := a.boot(ctx, view, listed); err != nil {
			return err
		}
	}
	if a.known.identityKnown && a.known.identity == nil {
		return a.meet(ctx)
	}
	if listed != nil {
		a.say(host.EventWaiting, "the ring can't be read: "+listed.Error())
		return nil
	}
	if err := a.leave(ctx, view, args != nil); err != nil {
		return err
	}
	return a.attend(ctx, view)
}

// openDisk sees to it that the disk has an identity.
func (a *Agent) openDisk() error {
	d, fresh, err := launcher.OpenDisk(a.host, a.Machine, a.disk)
	var foreign *launcher.ForeignError
	if errors.As(err, &foreign) && foreign.Blank && a.stays(foreign.Disk.ID, a.host.Now()) {
		d, err = launcher.Adopt(a.host, foreign)
	}
	if err != nil {
		return err
	}
	a.disk, a.misplaced = d, misplaced{}
	if fresh {
		a.host.Log(host.Line{Event: host.EventDiskReplaced, Text: "disk " + d.ID + " is new"})
	}
	return nil
}

// misplaced is a blank disk with another machine's name on it. Whoever has mixed
// up two disks soon puts them back, and then each must be as it was: a member
// that was started on one meanwhile would be lost. One that stays was named in
// passing, and nobody else will ever use it.
type misplaced struct {
	id    string
	since time.Time
}

const adoptAfter = 15 * time.Second

func (m *misplaced) stays(id string, now time.Time) bool {
	if m.id != id || now.Before(m.since) {
		*m = misplaced{id, now}
	}
	return now.Sub(m.since) >= adoptAfter
}

// view reads the ring's own records through any endpoint that is known.
func (a *Agent) view(ctx context.Context) (admin.View, error) {
	if a.known.identityKnown && a.known.identity == nil {
		return admin.View{}, errors.New("no ring has been founded yet")
	}
	a.ring.Use(append([]string{a.clientURL()}, a.endpoints()...)...)
	return a.ring.View(ctx)
}

// endpoints lists the clients' URLs that this machine has heard of, the latest
// first.
func (a *Agent) endpoints() []string {
	all := slices.Clone(a.known.members)
	if id := a.known.identity; id != nil {
		for _, f := range id.Members {
			all = append(all, f.ClientURL)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.known.roster.machines)) {
		all = append(all, a.url(a.known.roster.machines[name].Address, 2379))
	}
	return all
}

// boot decides on the etcd that does not run, and carries it out.
func (a *Agent) boot(ctx context.Context, view admin.View, listed error) error {
	e := launcher.Evidence{Machine: a.Machine, Disk: a.disk.ID, Launched: a.disk.Launched, Listed: listed == nil,
		Identity: a.known.identity, Formed: a.known.formed}
	if listed == nil {
		e.Cluster, e.Members = view.ClusterID, view.RingMembers()
	} else {
		e.Why = listed.Error()
	}
	if !a.known.identityKnown || !a.known.formedKnown {
		e.Unknown = a.known.trouble
	}
	launcher.ReadLog(a.host, &e)
	b := a.Brain.Boot(e)
	a.say(host.EventBoot, b.String())
	switch b.Do {
	case launcher.Start:
		return a.launch(ctx, b)
	case launcher.Clear:
		return a.clear("clear")
	case launcher.Disown:
		return a.clear("disown")
	case launcher.Halt:
		a.say(host.EventHalted, b.Why)
	}
	return nil
}

func (a *Agent) launch(ctx context.Context, b launcher.Boot) error {
	binary, ok := a.Binaries[a.known.spec.Version]
	if !ok {
		return fmt.Errorf("etcd %s is asked for and not on this machine; it has %v", a.known.spec.Version, slices.Sorted(maps.Keys(a.Binaries)))
	}
	c := launcher.Command{Binary: binary, Version: a.known.spec.Version, Name: a.Machine,
		DataDir: a.host.Disk().Path(launcher.DataDir), PeerURL: a.peerURL(), ClientURL: a.clientURL(), Boot: b,
		Heartbeat: time.Duration(a.known.spec.HeartbeatMillis) * time.Millisecond,
		Election:  time.Duration(a.known.spec.ElectionMillis) * time.Millisecond,
		SnapCount: a.known.spec.SnapshotCount}
	if a.tls() {
		if err := a.certify(); err != nil {
			return err
		}
		c.PKI = a.host.Disk().Path(pkiDir)
	}
	return a.act("launch", strings.Join(c.Args(), " "), "", func() error { return launcher.Launch(ctx, a.host, a.disk, c) })
}

// clear empties the disk of what a member left that can't come back.
func (a *Agent) clear(action string) error {
	return a.act(action, "ringadm reset", "", func() error {
		d, err := launcher.Empty(a.host, a.Machine)
		if err == nil {
			a.disk = d
			a.host.Log(host.Line{Event: host.EventDiskReplaced, Text: "disk " + d.ID + " is new"})
		}
		return err
	})
}

// leave stops an etcd whose member is not in the ring any more. etcd stops by
// itself when it hears of its removal; one that was cut off then never hears.
func (a *Agent) leave(ctx context.Context, view admin.View, running bool) error {
	for _, m := range view.RingMembers() {
		if m.Machine == a.Machine {
			a.absent = time.Time{}
			return nil
		}
	}
	if !running {
		return nil
	}
	now := a.host.Now()
	if a.absent.IsZero() || a.absent.After(now) {
		a.absent = now
	}
	if now.Sub(a.absent) < 2*time.Second {
		return nil
	}
	return a.act("stop", "", "", func() error { return a.host.Process().Stop(ctx, stopGrace) })
}

// act logs an action before and after it.
func (a *Agent) act(action, command, member string, do func() error) error {
	if a.DryRun {
		a.say(host.EventWaiting, "dry run: "+cmp.Or(command, action))
		return nil
	}
	line := host.Line{Event: host.EventActionBegun, Action: action, Command: command, Member: member, Target: a.Machine}
	return a.logged(line, do)
}

func (a *Agent) logged(line host.Line, do func() error) error {
	a.host.Log(line)
	err := do()
	line.Event = host.EventActionDone
	if err != nil {
		line.Event, line.Text = host.EventActionFailed, err.Error()
	}
	a.host.Log(line)
	return err
}

// say logs a line unless it said the same before.
func (a *Agent) say(event host.Event, text string) {
	if a.said[event] == text {
		return
	}
	a.said[event] = text
	a.host.Log(host.Line{Event: event, Text: text})
}

// stop ends this machine's part in good order.
func (a *Agent) stop(ctx context.Context) error {
	defer a.ring.Close()
	if a.DryRun {
		a.revoke(ctx)
		return nil // etcd is not this agent's to stop
	}
	if view, err := a.view(ctx); err == nil {
		a.handOver(ctx, view)
	}
	a.revoke(ctx)
	return a.host.Process().Stop(ctx, stopGrace)
}

// handOver moves raft leadership off this machine, so that nobody waits for an
// election timeout. It is a courtesy: a failure costs that wait.
func (a *Agent) handOver(ctx context.Context, view admin.View) {
	seen := a.watch.Observe(ctx, view, a.known.spec.Version)
	voters := seen.Voters()
	here := slices.IndexFunc(voters, func(m ring.Member) bool { return m.Leader && m.Machine == a.Machine })
	other := slices.IndexFunc(voters, func(m ring.Member) bool { return !m.Leader && m.Serving })
	if here < 0 || other < 0 {
		return
	}
	move := ring.Action{Kind: ring.MoveLeader, Member: voters[other].ID, Machine: voters[other].Machine}
	_ = a.act(string(move.Kind), move.String(), move.Member.String(), func() error { return a.Brain.Do(ctx, a.ring, move) })
}

func (a *Agent) tls() bool { return a.known.spec.Security != "plain" }

func (a *Agent) url(address string, port int) string {
	scheme := "https"
	if !a.tls() {
		scheme = "http"
	}
	return URL(scheme, address, port)
}

func (a *Agent) peerURL() string   { return a.url(a.Address, 2380) }
func (a *Agent) clientURL() string { return a.url(a.Address, 2379) }
