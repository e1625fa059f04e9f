// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// Prefixes of a ring's records.
const (
	IdentityPrefix  = "identity"
	FormedPrefix    = "formed"
	AuthorityPrefix = "authority"
	MadePrefix      = "made"
)

// Source is where a launcher learns of its ring: from the EtcdRing, and from the records.
// It reads single objects by their names and writes nothing.
type Source struct {
	API   client.Reader
	Names Names
	// Version is the release that the pod has. What the EtcdRing asks for is no concern
	// of a pod: it can run no other.
	Version ring.Version
	// Pod is this one.
	Pod string

	size int
}

var _ launcher.Source = (*Source)(nil)

// Learn reads the EtcdRing and what isn't known yet of the records.
func (s *Source) Learn(ctx context.Context, _ store.Machine, known *launcher.Known) error {
	if known.Specified() { // the disk's, which remembers another image
		known.Spec.SetVersion(s.Pod, s.Version)
	}
	asked := &v1alpha1.EtcdRing{}
	if err := s.API.Get(ctx, client.ObjectKey{Namespace: s.Names.Namespace, Name: s.Names.Ring}, asked); err != nil {
		return fmt.Errorf("etcdring %s/%s: %w", s.Names.Namespace, s.Names.Ring, err)
	}
	s.size = int(asked.Spec.ClusterSize)
	err := s.readRecords(ctx, known)
	if known.Identity != nil || known.IdentityKnown { // else how peers began isn't known
		known.Spec, known.SpecNumber = SpecOf(asked, s.Version, known.Identity), max(1, int(asked.Generation))
		known.Spec.SetVersion(s.Pod, s.Version)
	}
	return err
}

// Heard lists the addresses of the slots.
func (s *Source) Heard() []string {
	var all []string
	for i := range s.size {
		all = append(all, s.Names.Address(s.Names.Slot(i)))
	}
	return all
}

func (s *Source) readRecords(ctx context.Context, known *launcher.Known) error {
	records := store.Marked{Unmarked: Records{Live: s.API, Namespace: s.Names.Namespace, Ring: s.Names.Ring}}
	if known.Identity == nil {
		identity, there, err := store.Log[store.Identity]{Store: records, Prefix: IdentityPrefix}.First(ctx)
		if err != nil {
			return err
		}
		known.IdentityKnown = true
		if there {
			known.Identity = &identity
		}
	}
	if known.Formed {
		return nil
	}
	formed, there, err := store.Log[store.Formed]{Store: records, Prefix: FormedPrefix}.First(ctx)
	if err != nil {
		return err
	}
	if i := known.Identity; there && i != nil && formed.ClusterID != fmt.Sprintf("%x", i.ClusterID()) {
		return errors.New("the records are of two rings: " + formed.ClusterID + " was formed, and another bootstrapped; restore its own")
	}
	known.Formed, known.FormedKnown = there, true
	return nil
}

// Began is how the peers of a ring spoke that was bootstrapped so; nil: it isn't yet.
func Began(identity *store.Identity) ring.Security {
	if identity != nil && identity.Static {
		return ring.Plain
	}
	return ring.TLS
}

// SpecOf is what an EtcdRing asks of a ring whose pods run a release. Slots beyond the
// size are decommissioned. Peers that began with plain text go to TLS, as launchers run them now.
func SpecOf(r *v1alpha1.EtcdRing, version ring.Version, identity *store.Identity) store.Spec {
	names := Names{Namespace: r.Namespace, Ring: r.Name}
	spec := store.Spec{Nodes: int(r.Spec.ClusterSize), Version: version, Security: ring.TLS, Paused: r.Spec.Paused,
		Flags: map[string]string{"listen-metrics-urls": fmt.Sprintf("http://127.0.0.1:%d", HealthPort)}}
	if Began(identity) == ring.Plain {
		spec.Peers, spec.PeersFrom = ring.TLS, ring.Plain
	}
	for i := spec.Nodes; i < MostSlots; i++ {
		spec.Decommission = append(spec.Decommission, names.Slot(i))
	}
	if asked := r.Spec.Certificates.Lifetime; asked != nil {
		spec.CertificateMillis = int(asked.Duration / time.Millisecond)
	}
	return spec
}
