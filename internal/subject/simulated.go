// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// Machine is what an agent on a simulated machine knows of it.
type Machine interface {
	host.Host
	Name() string     // m2
	Hostname() string // what it calls itself
	Address() string
	Binaries() map[string]string // paths of its etcds, by version
	DryRun() bool                // its agent is to change nothing
	Kill()                       // ends its agent as a power cut would
}

// World is a simulated world of such machines, as an operator has it.
type World[M Machine] interface {
	Machine(name string) M
	Store(m M) store.Store // what they meet in, as the machine reaches it; as an operator does, for the zero M
	seat
}

// seat is where an operator sits: it has a clock and a network.
type seat interface {
	Clock() time.Time
	Sleep(ctx context.Context, d time.Duration) error
	Go(ctx context.Context, name string, f func(context.Context))
	Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	Dial(endpoint string, secure *tls.Config) (host.Etcd, error)
}

// Simulated is the reference as a subject of a simulated world W of machines M: the code of
// ringadm auto on simulated machines, with the same mutants and the same faults
// at its seams as [Processes] has. One is used once, for one plan.
type Simulated[W World[M], M Machine] struct {
	Mutants []string      // names
	Record  *seam.Journal // of what the agents come to; nil: none

	plan    ringproof.Plan
	world   W
	mutants []Mutant
	faults  map[string]seam.Faults // by machine
	tally   seam.Counters
}

// Seed makes the store, as ringadm init does.
func (s *Simulated[W, M]) Seed(ctx context.Context, plan ringproof.Plan, w W) error {
	s.plan, s.world, s.faults, s.tally = plan, w, map[string]seam.Faults{}, seam.Counters{}
	for _, name := range s.Mutants {
		m, err := LookupMutant(name)
		if err != nil {
			return err
		}
		s.mutants = append(s.mutants, m)
	}
	return s.Make(ctx)
}

// Make makes the store anew, with what is asked for first.
func (s *Simulated[W, M]) Make(ctx context.Context) error {
	spec := specOf(s.plan.Ring)
	if err := spec.Validate(); err != nil {
		return err
	}
	shared := s.shared()
	if err := store.Init(ctx, shared); err != nil {
		return err
	}
	if spec.Security.Secure() {
		if err := s.found(ctx, shared); err != nil {
			return err
		}
	}
	_, err := specs(shared).Append(ctx, 0, spec)
	return err
}

func (s *Simulated[W, M]) found(ctx context.Context, shared store.Store) error {
	authority, err := launcher.NewAuthority(s.now(), 1)
	if err != nil {
		return err
	}
	_, err = store.Log[store.Authority]{Store: shared, Prefix: auto.AuthorityPrefix}.Append(ctx, 0, authority)
	return err
}

func specs(s store.Store) store.Log[store.Spec] {
	return store.Log[store.Spec]{Store: s, Prefix: auto.SpecPrefix}
}

// now is what an operator's clock shows.
func (s *Simulated[W, M]) now() time.Time { return s.operator().Now() }

// Agent is one life of ringadm auto on the machine.
func (s *Simulated[W, M]) Agent(m M) func(context.Context) error {
	return func(ctx context.Context) error {
		x := newInjector(func() (seam.Faults, error) { return s.faults[m.Name()], nil }, s.tally, m.Kill)
		x.machine, x.journal, x.dry, x.later = m.Name(), s.Record, m.DryRun(), s.later
		var layers []layer
		for _, mutant := range s.mutants {
			layers = append(layers, mutant.observed())
		}
		seams := seams(x.layers(layers))
		h := seams.Host(m)
		agent := auto.New(h, seams.Store(h, s.world.Store(m)), auto.Config{Machine: m.Hostname(), Address: m.Address(),
			Binaries: releases(m.Binaries()), DryRun: m.DryRun(), Brain: seams.Brain(h, auto.Reference())})
		return agent.Run(ctx, launcher.StopWithin)
	}
}

// later has the world do something after a while: what is on its way comes, whether or not
// who sent it lives.
func (s *Simulated[W, M]) later(d time.Duration, do func(context.Context)) {
	s.world.Go(context.Background(), "late", func(ctx context.Context) {
		if s.world.Sleep(ctx, d) != nil {
			return
		}
		asking, cancel := s.world.Timeout(ctx, seam.LateWithin)
		defer cancel()
		do(asking)
	})
}

// releases are the binaries as the reference is told of them.
func releases(binaries map[string]string) map[ring.Version]string {
	all := map[ring.Version]string{}
	for version, path := range binaries { // order: a map of a map
		all[ring.Version(version)] = path
	}
	return all
}

// Inject sets what the machine's agent meets at its seams. The journal begins
// anew with a fault that counts, and ends with it.
func (s *Simulated[W, M]) Inject(f ringproof.Seams, machine string) error {
	before := s.faults[machine]
	after := before.With(seam.Of(f, machine))
	s.faults[machine] = after
	switch {
	case f.Fault != nil:
		s.Record.Begin()
	case before.Counting() > after.Counting():
		s.Record.End()
	}
	return nil
}

// Begin has a journal kept.
func (s *Simulated[W, M]) Begin() ringproof.Fault {
	s.Record = &seam.Journal{}
	return seam.Probe()
}

// Journal is what was kept.
func (s *Simulated[W, M]) Journal() (*ringproof.Journal, error) { return &s.Record.Journal, nil }

// Ask carries out an operation as ringadm would for an operator.
func (s *Simulated[W, M]) Ask(ctx context.Context, op ringproof.Op, targets []string) (string, error) {
	switch {
	case respecs(op.Kind):
		return s.respec(ctx, op, hosts(s.plan.Ring, targets))
	case op.Kind == ringproof.OpMoveLeader:
		return s.moveLeader(ctx, s.plan.Ring.Host(targets[0]))
	case op.Kind == ringproof.OpReset:
		return s.reset(ctx, op, targets[0])
	}
	return "", fmt.Errorf("%s is no operation of the reference", op.Kind)
}

// respec writes the next spec. Who else wrote one meanwhile has won.
func (s *Simulated[W, M]) respec(ctx context.Context, op ringproof.Op, targets []string) (string, error) {
	log := specs(s.shared())
	n, spec, err := log.Latest(ctx)
	if err != nil {
		return "", err
	}
	spec, pairs, err := change(spec, op, targets)
	pair := strings.Join(pairs, " ")
	if err := cmp.Or(err, spec.Validate()); err != nil {
		return "", fmt.Errorf("%w by the subject: ringadm spec %s: %w", ringproof.ErrRefused, pair, err)
	}
	if _, err := log.Append(ctx, n, spec); errors.Is(err, store.ErrExists) {
		return "", fmt.Errorf("%w: ringadm spec %s: %w", ringproof.ErrConflict, pair, err)
	} else if err != nil {
		return "", fmt.Errorf("ringadm spec %s: %w", pair, err)
	}
	return pair, nil
}

func (s *Simulated[W, M]) moveLeader(ctx context.Context, machine string) (string, error) {
	r, err := s.reach(ctx)
	if err != nil {
		return "", err
	}
	defer r.Close()
	view, err := r.View(ctx)
	if err != nil {
		return "", err
	}
	id, err := memberOn(view.RingMembers(), machine)
	if err != nil {
		return "", err
	}
	move := ring.Action{Kind: ring.MoveLeader, Member: id, Machine: machine, On: ring.Roles(view.RingMembers())}
	return move.String(), r.Do(ctx, move, admin.Unfenced())
}

// Snapshot is a backup of the ring, as ringadm would make it for an operator.
func (s *Simulated[W, M]) Snapshot(ctx context.Context) ([]byte, error) {
	r, err := s.reach(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var file bytes.Buffer
	_, _, err = r.Backup(ctx, func(ctx context.Context, from admin.Asked) error {
		file.Reset()
		_, err := r.Snapshot(ctx, from.Endpoint, &file, func(int64) {})
		return err
	})
	return file.Bytes(), err
}

// reach is the ring as an operator reaches it.
func (s *Simulated[W, M]) reach(ctx context.Context) (*admin.Ring, error) {
	urls, err := clientURLs(ctx, s.shared(), s.plan.Ring.Security, "")
	if err != nil {
		return nil, err
	}
	secure, err := s.Credentials(ctx)
	if err != nil {
		return nil, err
	}
	r := &admin.Ring{Host: s.operator(), Secure: secure}
	r.Use(urls...)
	return r, nil
}

// reset empties a machine's disk, as its operator does there.
func (s *Simulated[W, M]) reset(ctx context.Context, op ringproof.Op, machine string) (string, error) {
	urls, err := clientURLs(ctx, s.shared(), s.plan.Ring.Security, s.plan.Ring.Host(op.Endpoint))
	if err != nil {
		return "", err
	}
	m := s.world.Machine(machine)
	return reset(func(member string) (string, error) {
		id, _ := strconv.ParseUint(member, 16, 64)
		disk, err := launcher.Reset(m, id, launcher.ListAt(ctx, m, urls))
		return "it is disk " + disk.ID + " now", err
	})
}

// Hear turns a line of an agent's log into an event.
func (s *Simulated[W, M]) Hear(l host.Line) (ringproof.Event, bool) { return hear(l, s.plan.Ring) }

// Credentials are those of the harness's clients.
func (s *Simulated[W, M]) Credentials(ctx context.Context) (*tls.Config, error) {
	if s.plan.Ring.Security == "plain" {
		return nil, nil
	}
	authority, pair, err := issue(ctx, s.shared(), s.now())
	if err != nil {
		return nil, err
	}
	return pki.ClientTLS(authority.CertPEM(), pair)
}

// shared is what the machines meet in, as an operator reaches it.
func (s *Simulated[W, M]) shared() store.Store {
	var nobody M
	return s.world.Store(nobody)
}

func (s *Simulated[W, M]) operator() operator { return operator{seat: s.world} }

// operator is a host of which nothing is asked but what a seat has.
type operator struct {
	host.Host
	seat
}

func (o operator) Now() time.Time { return o.seat.Clock() }

func (o operator) Sleep(ctx context.Context, d time.Duration) error { return o.seat.Sleep(ctx, d) }

func (o operator) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return o.seat.Timeout(ctx, d)
}

func (o operator) Dial(endpoint string, secure *tls.Config) (host.Etcd, error) {
	return o.seat.Dial(endpoint, secure)
}
