// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/store"
)

// certificateFiles are the keys of a slot's Secret: whom its member trusts, and what it
// shows to clients, to peers, and as a client.
var certificateFiles = []string{launcher.ClientsCA, launcher.PeersCA, "server.crt", "server.key", "peer.crt", "peer.key", "client.crt", "client.key"}

// certificateLifetime is that of a slot's certificates if the EtcdRing doesn't say.
const certificateLifetime = 2160 * time.Hour

func lifetimeOf(r *v1alpha1.EtcdRing) time.Duration {
	if asked := r.Spec.Certificates.Lifetime; asked != nil && asked.Duration > 0 {
		return asked.Duration
	}
	return certificateLifetime
}

// signers sign a ring's certificates. Their keys never leave the controller and its
// Secrets.
type signers struct {
	records []store.Authority
	all     []generation // the last signs, or is to
	// own is what the controller shows to the ring, as a client; it is made anew when half
	// of its time is over, or when it is to trust others.
	own     *tls.Config
	ownOf   string
	ownTill time.Time
}

// credentials are the controller's own; changed: they are others than the last time. Until
// one generation has taken over from another everywhere it trusts both, and has a certificate
// of each: whatever became of the ring's, it isn't shut out.
func (s *signers) credentials(now time.Time, name string, at stage) (c *tls.Config, changed bool, err error) {
	of := s.all[max(0, len(s.all)-2):]
	if at.over {
		of = at.trust
	}
	if s.own != nil && now.Before(s.ownTill) && s.ownOf == trustName(of) {
		return s.own, false, nil
	}
	var pairs []pki.Pair
	for _, g := range slices.Backward(of) {
		pair, err := g.clients.IssueClient(now, pki.Subject{CommonName: "controller-" + name}, certificateLifetime)
		if err != nil {
			return nil, false, err
		}
		pairs = append(pairs, pair)
	}
	trust, _ := bundles(of)
	if s.own, err = pki.ClientTLS(trust, pairs...); err != nil {
		return nil, false, err
	}
	s.ownTill, s.ownOf = now.Add(certificateLifetime/2), trustName(of)
	return s.own, true, nil
}

// certificate is one that a Secret is to have, in NAME.crt and NAME.key: whose it is, who signs it,
// and by whom it may be signed already.
type certificate struct {
	name    string
	subject pki.Subject
	signs   pki.Authority
	issue   func(time.Time, pki.Subject, time.Duration) (pki.Pair, error) // of who signs
	trusted []byte
}

// secret is the Secret of a slot's certificates, or of the clients', and what there is of it.
type secret struct {
	slot   int // or ofClients
	name   string
	before *corev1.Secret // nil: there is none of the ring's
	theirs bool           // there is somebody else's
}

// ofClients is no slot: the Secret is for who uses the ring.
const ofClients = -1

// ofSlots are what there is of the Secrets of slots.
func ofSlots(all []secret) (found []*corev1.Secret) {
	for _, o := range all {
		if o.slot != ofClients {
			found = append(found, o.before)
		}
	}
	return found
}

// due is how the Secret is to be changed, and whether it is.
func (o secret) due(at stage, r *v1alpha1.EtcdRing, now time.Time) (c Change, due bool, err error) {
	var after *corev1.Secret
	none, old := "the slot has no certificates", "the slot's certificates are to be renewed"
	if o.slot == ofClients {
		none, old = "the ring's clients have no certificate", "the certificate of the ring's clients is to be renewed"
		after, due, err = at.certifyClients(r, o.before, now)
	} else {
		after, due, err = at.certify(r, o.slot, o.before, now)
	}
	switch {
	case err != nil || !due:
		return Change{}, false, err
	case o.before == nil:
		return creation(after, none), true, nil
	}
	return update(after, old), true, nil
}

// certify returns the Secret of a slot as it is to be, and whether that is another than
// there is. before is nil where there is none.
func (s stage) certify(r *v1alpha1.EtcdRing, ordinal int, before *corev1.Secret, now time.Time) (*corev1.Secret, bool, error) {
	n, address := namesOf(r), namesOf(r).Address(namesOf(r).Slot(ordinal))
	clients, peers := bundles(s.trust)
	after := &corev1.Secret{ObjectMeta: owned(r, n.Certificates(ordinal)), Type: corev1.SecretTypeOpaque}
	server := pki.Subject{CommonName: "server-" + n.Slot(ordinal),
		Hosts: slices.Concat([]string{address, "localhost", "127.0.0.1"}, n.ClientAddresses(), r.Spec.Certificates.ExtraNames)}
	peer := pki.Subject{CommonName: "peer-" + n.Slot(ordinal), Hosts: []string{address}}
	return filled(r, after, before, now, map[string][]byte{launcher.ClientsCA: clients, launcher.PeersCA: peers}, []certificate{
		{"server", server, s.signs.clients, s.signs.clients.IssueServer, clients},
		{"peer", peer, s.signs.peers, s.signs.peers.IssuePeer, peers},
		s.ofClient("client", "client-"+n.Slot(ordinal)),
	})
}

// certifyClients is [stage.certify] of the Secret of who uses the ring, by the keys that Kubernetes has
// for that. It trusts, and is signed, as what members show: while one generation takes over from
// another it is let in by whoever is asked.
func (s stage) certifyClients(r *v1alpha1.EtcdRing, before *corev1.Secret, now time.Time) (*corev1.Secret, bool, error) {
	n := namesOf(r)
	clients, _ := bundles(s.trust)
	after := &corev1.Secret{ObjectMeta: owned(r, n.ClientCertificates()), Type: corev1.SecretTypeTLS}
	return filled(r, after, before, now, map[string][]byte{corev1.ServiceAccountRootCAKey: clients}, []certificate{s.ofClient("tls", n.Client())})
}

// ofClient is a client's.
func (s stage) ofClient(name, commonName string) certificate {
	clients, _ := bundles(s.trust)
	return certificate{name, pki.Subject{CommonName: commonName}, s.signs.clients, s.signs.clients.IssueClient, clients}
}

// filled is a Secret with whom it is to trust, and the certificates that it is to have; before is what
// there is of it, and nil where there is none.
func filled(r *v1alpha1.EtcdRing, after, before *corev1.Secret, now time.Time, trust map[string][]byte, all []certificate) (*corev1.Secret, bool, error) {
	changed := before == nil
	if before != nil {
		after = before.DeepCopy()
	}
	if after.Data == nil {
		after.Data = map[string][]byte{}
	}
	for key, pem := range trust { // order: what one key holds says nothing of another
		changed = changed || string(after.Data[key]) != string(pem)
		after.Data[key] = pem
	}
	for _, c := range all {
		pair, renewed, err := c.keep(pki.Pair{CertPEM: after.Data[c.name+".crt"], KeyPEM: after.Data[c.name+".key"]}, now, lifetimeOf(r))
		if err != nil {
			return nil, false, fmt.Errorf("issuing the certificate of %s: %w", c.subject.CommonName, err)
		}
		after.Data[c.name+".crt"], after.Data[c.name+".key"] = pair.CertPEM, pair.KeyPEM
		changed = changed || renewed
	}
	return after, takes(r, after) != "" || changed, nil
}

// keep returns the pair, or what is to take its place. A pair that can be shown gets a
// successor for its own key: etcd reads two files at a handshake, and would read two
// that don't belong together. A key that none of the ring's authorities has signed is
// somebody else's.
func (c certificate) keep(pair pki.Pair, now time.Time, lifetime time.Duration) (pki.Pair, bool, error) {
	leaf, err := pair.Leaf()
	if err == nil {
		err = pki.Vouched(c.trusted, leaf)
	}
	if err != nil {
		pair, err = c.issue(now, c.subject, lifetime)
		return pair, true, err
	}
	if pki.Vouched(c.signs.CertPEM(), leaf) == nil && leaf.NotAfter.Sub(now) > lifetime/3 && pki.Covers(leaf, c.subject.Hosts) == nil {
		return pair, false, nil
	}
	pair, err = c.signs.Renew(now, pair, c.subject, lifetime)
	return pair, true, err
}
