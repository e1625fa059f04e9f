// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
)

// Machines that are none of the plan's: nobody observes them, and no evidence is
// read from them. What the subject makes of them is what is judged.

// replaceByStranger cuts the machine's power, and lets an etcd of another ring
// answer at its address.
func (w *World) replaceByStranger(m *Machine, s ringproof.Step) (string, error) {
	if !m.on || m.lost {
		return "", fmt.Errorf("%s is off already", m.name)
	}
	other := w.build(m.name+"-other", "other", m.ip)
	other.strange, other.life = true, m.life
	m.powerOff()
	m.standIn = other
	w.lead(m, other)
	at := "http://" + m.ip
	err := other.launch([]string{binaryPath(w.plan.Ring.Version), "--name=other", "--data-dir=" + root + "/etcd",
		"--listen-peer-urls=" + at + ":2380", "--initial-advertise-peer-urls=" + at + ":2380",
		"--listen-client-urls=" + at + ":2379", "--advertise-client-urls=" + at + ":2379",
		"--initial-cluster=other=" + at + ":2380", "--initial-cluster-token=another-ring-" + s.Name, "--initial-cluster-state=new"})
	return m.name + ": an etcd of another ring answers at " + m.address, err
}

// lead has all that leads to one machine lead to the other.
func (w *World) lead(from, to *Machine) {
	for _, p := range w.places { // order: each is changed by itself
		if p.machine == from {
			p.machine = to
		}
	}
}

// dismissStranger gives the machine its address back, and tells what was done to
// the ring that was there.
func (w *World) dismissStranger(m *Machine) {
	other := m.standIn
	if other == nil {
		return
	}
	if what := other.touched(); what != "" {
		w.tell(ringproof.Event{At: w.Now(), Kind: ringproof.EventTrespass, Machine: m.name, Text: what})
	}
	other.powerOff()
	m.standIn = nil
	w.lead(other, m)
	m.powerOn()
}

// touched tells what is not as the other ring was made: it had no keys, and one
// member.
func (m *Machine) touched() string {
	switch {
	case m.etcd == nil:
		return "the etcd of the other ring has ended"
	case m.etcd.etcd == nil || !m.etcd.clients():
		return "" // it had no time to come up
	}
	status, members, err := m.etcd.etcd.Look()
	switch {
	case err != nil:
		return ""
	case len(members.Members) != 1:
		return fmt.Sprintf("the other ring has %d members, it had 1", len(members.Members))
	case status.Header.Revision > 1:
		return fmt.Sprintf("in the other ring keys were written: it is at revision %d", status.Header.Revision)
	}
	return ""
}

// duplicate brings up a second machine of the same name.
func (w *World) duplicate(m *Machine, s ringproof.Step) (string, error) {
	if m.lost {
		return "", fmt.Errorf("%s is lost", m.name)
	}
	twin := w.build(m.name+"-twin-"+s.Name, m.called, fmt.Sprintf("10.0.1.%d", len(w.twins)+1))
	twin.strange, twin.life = true, m.life
	w.twins = append(w.twins, twin)
	twin.startAgent()
	return fmt.Sprintf("a second %s is at %s", m.name, twin.address), nil
}

func (w *World) dismissTwin(m *Machine, step string) {
	for _, twin := range w.twins {
		if twin.name == m.name+"-twin-"+step && twin.on {
			twin.powerOff()
		}
	}
}

// runDry starts the agent again, told to change nothing.
func (w *World) runDry(m *Machine, s ringproof.Step) (string, error) {
	if m.lost {
		return "", fmt.Errorf("%s is lost", m.name)
	}
	m.dry[s.Name] = true
	m.killAgent()
	return m.name + ": the agent is started again in a dry run", nil
}

// asking lists who can be asked by somebody else: each machine's etcd, with a second's
// patience.
func (w *World) asking() (all []client.Asking) {
	for _, m := range w.present() {
		all = append(all, func(ctx context.Context, what func(context.Context, client.Etcd) error) error {
			c, err := w.dial(nil, w.url(m), w.secure)
			if err != nil {
				return err
			}
			ctx, cancel := w.Timeout(ctx, time.Second)
			defer cancel()
			return what(ctx, struct {
				*caller
				remoteMaintenance
			}{c, remoteMaintenance{c.connection}})
		})
	}
	return all
}
