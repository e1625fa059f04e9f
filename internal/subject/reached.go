// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"reflect"

	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// EventReached tells that a mutant did what it does wrong. A mutant that escapes
// and never said so was not tried at all.
const EventReached host.Event = "mutant-reached"

// reached is what a mutant says where it does wrong.
func reached(h host.Host) { h.Log(host.Line{Event: EventReached}) }

// observed is the mutant's layer and tells, once in a life, that it was reached:
// when it says so, and when it decides otherwise than what it lies around.
func (m Mutant) observed() layer {
	if m.layer == nil {
		return layer{}
	}
	l, told := m.layer(), false
	mark := func(h host.Host) host.Host { return marked{h, m.Name, &told} }
	around := layer{}
	if l.host != nil {
		around.host = func(h host.Host) host.Host { return l.host(mark(h)) }
	}
	if l.store != nil {
		around.store = func(h host.Host, s store.Store) store.Store { return l.store(mark(h), s) }
	}
	if l.kube != nil {
		around.kube = func(h host.Host, c kubeclient.Client) kubeclient.Client { return l.kube(mark(h), c) }
	}
	if l.brain != nil {
		around.brain = func(h host.Host, b auto.Brain) auto.Brain { return compared(mark(h), b, l.brain(mark(h), b)) }
	}
	return around
}

// compared is the mutant's brain, beside the one that it was made of.
func compared(h host.Host, right, wrong auto.Brain) auto.Brain {
	next, boot := wrong.Next, wrong.Boot
	wrong.Next = func(spec ring.Spec, o ring.Observed) ring.Decision {
		d := next(spec, o)
		if !reflect.DeepEqual(d, right.Next(spec, o)) {
			reached(h)
		}
		return d
	}
	wrong.Boot = func(e launcher.Evidence) launcher.Boot {
		b := boot(e)
		if !reflect.DeepEqual(b, right.Boot(e)) {
			reached(h)
		}
		return b
	}
	return wrong
}

// marked is a host whose log says which mutant was reached, and that once.
type marked struct {
	host.Host
	mutant string
	told   *bool
}

func (m marked) Log(l host.Line) {
	if l.Event == EventReached && l.Text == "" {
		if *m.told {
			return
		}
		*m.told, l.Text = true, m.mutant
	}
	m.Host.Log(l)
}
