// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ringproof/ringproof"
)

// lookup is what machines are told of a name that is stale.
type lookup struct {
	step string
	to   *Machine // whose address; nil: there is no such name
}

// staleNames restarts the machines at other addresses, which their names don't resolve
// to yet.
func (w *World) staleNames(ctx context.Context, s ringproof.Step, targets []string) (string, error) {
	evidence, err := w.each(targets, func(m *Machine) (string, error) { return w.staleName(m, s) })
	if slept := w.Sleep(ctx, ringproof.NameKept+time.Second); slept != nil {
		return evidence, slept
	}
	for _, m := range w.present() {
		if m.lookup != nil && m.lookup.step == s.Name {
			m.powerOn()
		}
	}
	return evidence, err
}

// staleName cuts the machine's power and has its name lead elsewhere. As nothing but the
// name leads to the machine, its address need not change: the name leads to one at which
// nobody is.
func (w *World) staleName(m *Machine, s ringproof.Step) (string, error) {
	switch {
	case w.plan.Ring.Domain == "":
		return "", fmt.Errorf("%s is known by its address: give ring.domain", m.name)
	case m.lost || !m.on:
		return "", fmt.Errorf("%s is off", m.name)
	case m.lookup != nil:
		return "", fmt.Errorf("the name of %s is stale already", m.name)
	}
	m.powerOff()
	m.lookup = &lookup{step: s.Name}
	w.network.stale++
	said := "there is no such name"
	switch s.Fault.Answers {
	case ringproof.AnswersOldAddress:
		m.lookup.to = w.build(m.name+"-before", m.called, "10.0.2."+strconv.Itoa(m.number))
		m.lookup.to.on = false
		said = "it resolves to the address of before"
	case ringproof.AnswersOther:
		if m.lookup.to = w.after(m); m.lookup.to != nil {
			said = "it resolves to " + m.lookup.to.name
		}
	}
	return fmt.Sprintf("%s: restarts, and of its name others hear: %s", m.called, said), nil
}

// after is the next machine of the plan that is there; nil: there is no other.
func (w *World) after(m *Machine) *Machine {
	for i := range w.machines {
		next := w.machines[(m.number+i)%len(w.machines)]
		if next != m && !next.lost {
			return next
		}
	}
	return nil
}

// learnName has the machine's name resolve to it again.
func (m *Machine) learnName(step string) {
	if m.lookup != nil && m.lookup.step == step {
		m.lookup = nil
		m.world.network.stale--
	}
}

// resolve is where somebody on the machine gets who goes to the place by its name now.
// The harness's own clients, whose machine is nil, know addresses.
func (n *network) resolve(from *Machine, at *place) (*place, error) {
	m := at.machine
	if n.stale == 0 || from == nil || m.lookup == nil || at.name != m.address {
		return at, nil
	}
	if m.lookup.to == nil {
		return nil, fmt.Errorf("dial tcp: lookup %s: no such host", at.name)
	}
	return &place{machine: m.lookup.to, secure: at.secure, host: at.host, port: at.port, name: at.name, strangers: true}, nil
}

// greet does the handshake of two peers, and what etcd's listener does after it
// (checkCertSAN): a certificate that names hosts must name the address from which the
// dialer comes, or a host that resolves to it.
func (s *server) greet(to *server, at *place) error {
	listener := to.shows(at.port)
	if err := meet(s.peer, listener, at, to.machine.clock()); err != nil || listener == nil {
		return err
	}
	shown, err := s.peer.identity()
	if err != nil || shown.leaf == nil || len(shown.leaf.IPAddresses)+len(shown.leaf.DNSNames) == 0 {
		return err
	}
	for _, ip := range shown.leaf.IPAddresses {
		if ip.String() == s.machine.ip {
			return nil
		}
	}
	n := s.machine.world.network
	for _, name := range shown.leaf.DNSNames {
		if m := n.owner(name); m != nil && m.lookup == nil && m.ip == s.machine.ip {
			return nil
		}
	}
	return errHungUp
}

// errHungUp is what a dialer sees of a listener that thinks better of a handshake.
var errHungUp = errors.New("EOF")
