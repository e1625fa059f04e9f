// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"crypto/tls"

	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/cli"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// layer is one decoration of the seams. A nil function leaves its seam alone.
// What the three of one layer remember they may share.
type layer struct {
	brain func(host.Host, auto.Brain) auto.Brain
	host  func(host.Host) host.Host
	store func(host.Host, store.Store) store.Store
	kube  func(host.Host, kubeclient.Client) kubeclient.Client // of the controller
}

// seams puts the layers around the reference, the first one innermost.
func seams(layers []layer) cli.Seams {
	return cli.Seams{
		Host: func(h host.Host) host.Host {
			for _, l := range layers {
				if l.host != nil {
					h = l.host(h)
				}
			}
			return h
		},
		Store: func(h host.Host, s store.Store) store.Store {
			for _, l := range layers {
				if l.store != nil {
					s = l.store(h, s)
				}
			}
			return s
		},
		Kube: func(h host.Host, c kubeclient.Client) kubeclient.Client {
			for _, l := range layers {
				if l.kube != nil {
					c = l.kube(h, c)
				}
			}
			return c
		},
		Brain: func(h host.Host, b auto.Brain) auto.Brain {
			for _, l := range layers {
				if l.brain != nil {
					b = l.brain(h, b)
				}
			}
			return b
		},
	}
}

type (
	next func(ring.Spec, ring.Observed) ring.Decision
	boot func(launcher.Evidence) launcher.Boot
)

// deciding is the layer of a mutant that decides otherwise about the ring.
func deciding(otherwise func(next, ring.Spec, ring.Observed) ring.Decision) layer {
	return layer{brain: func(_ host.Host, b auto.Brain) auto.Brain {
		inner := b.Next
		b.Next = func(spec ring.Spec, o ring.Observed) ring.Decision { return decidedOn(o, otherwise(inner, spec, o)) }
		return b
	}}
}

// booting is the layer of a mutant that decides otherwise about a start.
func booting(otherwise func(host.Host, boot, launcher.Evidence) launcher.Boot) layer {
	return layer{brain: func(h host.Host, b auto.Brain) auto.Brain {
		inner := b.Boot
		b.Boot = func(e launcher.Evidence) launcher.Boot { return otherwise(h, inner, e) }
		return b
	}}
}

// both is a mutant's two layers as one: a decides about starts, b about the
// ring, or the other way round.
func both(a, b layer) layer {
	return layer{brain: func(h host.Host, brain auto.Brain) auto.Brain { return b.brain(h, a.brain(h, brain)) }}
}

// machine is a host with parts of it replaced; a nil part is the host's own.
type machine struct {
	host.Host
	process host.Process
	disk    host.Disk
	client  func(host.Etcd) host.Etcd
}

func (m machine) Process() host.Process {
	if m.process == nil {
		return m.Host.Process()
	}
	return m.process
}

func (m machine) Disk() host.Disk {
	if m.disk == nil {
		return m.Host.Disk()
	}
	return m.disk
}

func (m machine) Dial(endpoint string, secure *tls.Config) (host.Etcd, error) {
	c, err := m.Host.Dial(endpoint, secure)
	if err != nil || m.client == nil {
		return c, err
	}
	return m.client(c), nil
}

// asking is the layer of a mutant that asks etcd otherwise.
func asking(client func(host.Host, host.Etcd) host.Etcd) layer {
	return layer{host: func(h host.Host) host.Host {
		return machine{Host: h, client: func(c host.Etcd) host.Etcd { return client(h, c) }}
	}}
}
