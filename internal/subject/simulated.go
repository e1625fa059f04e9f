// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
	"github.com/ringproof/ringproof/sim"
)

// Simulated is the reference as a subject of the simulated world: the code of
// ringadm auto on simulated machines, with the same mutants and the same faults
// at its seams as [Processes] has. One is used once, for one plan.
type Simulated struct {
	Mutants []string // names
	Journal *Journal // records what the agents come to; nil: nothing does

	plan    ringproof.Plan
	world   *sim.World
	mutants []Mutant
	faults  map[string]Faults // by machine
	tally   counters
}

var _ sim.Subject = (*Simulated)(nil)

// Seed makes the store, as ringadm seed does.
func (s *Simulated) Seed(ctx context.Context, plan ringproof.Plan, w *sim.World) error {
	s.plan, s.world, s.faults, s.tally = plan, w, map[string]Faults{}, counters{}
	for _, name := range s.Mutants {
		m, err := LookupMutant(name)
		if err != nil {
			return err
		}
		s.mutants = append(s.mutants, m)
	}
	spec := specOf(plan.Ring)
	if err := spec.Validate(); err != nil {
		return err
	}
	shared := w.Store(nil)
	if err := store.Init(ctx, shared); err != nil {
		return err
	}
	if spec.Security == "tls" {
		if err := s.found(ctx, shared); err != nil {
			return err
		}
	}
	_, err := specs(shared).Append(ctx, 0, spec)
	return err
}

func (s *Simulated) found(ctx context.Context, shared store.Store) error {
	authority, err := pki.NewAuthority(s.now(), "ringadm")
	if err != nil {
		return err
	}
	key, err := authority.KeyPEM()
	if err != nil {
		return err
	}
	_, err = store.Log[store.Authority]{Store: shared, Prefix: auto.AuthorityPrefix}.Append(ctx, 0,
		store.Authority{CertPEM: authority.CertPEM(), KeyPEM: key})
	return err
}

func specs(s store.Store) store.Log[store.Spec] {
	return store.Log[store.Spec]{Store: s, Prefix: auto.SpecPrefix}
}

// now is what an operator's clock shows.
func (s *Simulated) now() time.Time { return operator{world: s.world}.Now() }

// Agent is one life of ringadm auto on the machine.
func (s *Simulated) Agent(m *sim.Machine) func(context.Context) error {
	return func(ctx context.Context) error {
		x := newHarm(func() (Faults, error) { return s.faults[m.Name()], nil }, s.tally, m.Kill)
		x.machine, x.journal = m.Name(), s.Journal
		var layers []layer
		for _, mutant := range s.mutants {
			layers = append(layers, mutant.layer())
		}
		seams := seams(x.layers(layers))
		h := seams.Host(m)
		agent := auto.New(h, seams.Store(h, s.world.Store(m)), auto.Config{Machine: m.Name(), Address: m.Address(),
			Binaries: m.Binaries(), Brain: seams.Brain(h, auto.Reference())})
		return agent.Run(ctx, stopWithin)
	}
}

// stopWithin is how long ringadm takes at most to end in order.
const stopWithin = 15 * time.Second

// Harm sets what the machine's agent meets at its seams. The journal begins
// anew with a fault that counts, and ends with it.
func (s *Simulated) Harm(f sim.Seams, machine string) error {
	before := s.faults[machine]
	after := before.with(setting(f.Step, f.StoreOutage, f.StoreStale, f.Fault, machine))
	s.faults[machine] = after
	switch {
	case f.Fault != nil:
		s.Journal.Begin()
	case counting(before) > counting(after):
		s.Journal.End()
	}
	return nil
}

// counting is how many faults are set that count.
func counting(f Faults) (n int) {
	for _, s := range f.Set {
		if s.Fault != nil {
			n++
		}
	}
	return n
}

// Ask carries out an operation as ringadm would for an operator.
func (s *Simulated) Ask(ctx context.Context, op ringproof.Op, targets []string) (string, error) {
	switch op.Kind {
	case ringproof.OpScale, ringproof.OpReplace:
		return s.respec(ctx, op, targets)
	case ringproof.OpMoveLeader:
		return s.moveLeader(ctx, targets[0])
	}
	return "", fmt.Errorf("%s is no operation of the reference", op.Kind)
}

// respec writes the next spec. Who else wrote one meanwhile has won.
func (s *Simulated) respec(ctx context.Context, op ringproof.Op, targets []string) (string, error) {
	log := specs(s.world.Store(nil))
	n, spec, err := log.Latest(ctx)
	if err != nil {
		return "", err
	}
	spec, pair := change(spec, op, targets)
	if err := spec.Validate(); err != nil {
		return "", fmt.Errorf("%w by the subject: ringadm spec %s: %w", ringproof.ErrRefused, pair, err)
	}
	if _, err := log.Append(ctx, n, spec); err != nil {
		return "", fmt.Errorf("ringadm spec %s: %w", pair, err)
	}
	return pair, nil
}

func (s *Simulated) moveLeader(ctx context.Context, machine string) (string, error) {
	urls, err := clientURLs(ctx, s.world.Store(nil), s.plan.Ring.Security)
	if err != nil {
		return "", err
	}
	secure, err := s.Credentials(ctx)
	if err != nil {
		return "", err
	}
	r := &admin.Ring{Host: operator{world: s.world}, Secure: secure}
	defer r.Close()
	r.Use(urls...)
	view, err := r.View(ctx)
	if err != nil {
		return "", err
	}
	id, err := memberOn(view.RingMembers(), machine)
	if err != nil {
		return "", err
	}
	move := ring.Action{Kind: ring.MoveLeader, Member: id, Machine: machine}
	return move.String(), r.Do(ctx, move)
}

// Hear turns a line of an agent's log into an event.
func (s *Simulated) Hear(l host.Line) (ringproof.Event, bool) { return hear(l) }

// Credentials are those of the harness's clients.
func (s *Simulated) Credentials(ctx context.Context) (*tls.Config, error) {
	if s.plan.Ring.Security == "plain" {
		return nil, nil
	}
	authority, pair, err := issue(ctx, s.world.Store(nil), s.now())
	if err != nil {
		return nil, err
	}
	return pki.ClientTLS(authority.CertPEM(), pair)
}

// operator is where an operator sits: a host with a clock and a network, of
// which nothing else is asked.
type operator struct {
	host.Host
	world *sim.World
}

func (o operator) Now() time.Time { return sim.Epoch.Add(time.Duration(o.world.Now())) }

func (o operator) Sleep(ctx context.Context, d time.Duration) error { return o.world.Sleep(ctx, d) }

func (o operator) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return o.world.Timeout(ctx, d)
}

func (o operator) Dial(endpoint string, secure *tls.Config) (host.Etcd, error) {
	return o.world.Dial(endpoint, secure)
}
