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

// certify returns the Secret of a slot as it is to be, and whether that is another than
// there is. before is nil where there is none.
func (s stage) certify(r *v1alpha1.EtcdRing, ordinal int, before *corev1.Secret, now time.Time) (*corev1.Secret, bool, error) {
	n := namesOf(r)
	after := &corev1.Secret{ObjectMeta: owned(r, n.Certificates(ordinal)), Type: corev1.SecretTypeOpaque}
	if before != nil {
		after = before.DeepCopy()
	}
	if after.Data == nil {
		after.Data = map[string][]byte{}
	}
	after.Data[launcher.ClientsCA], after.Data[launcher.PeersCA] = bundles(s.trust)
	changed := before == nil || string(before.Data[launcher.ClientsCA]) != string(after.Data[launcher.ClientsCA]) || string(before.Data[launcher.PeersCA]) != string(after.Data[launcher.PeersCA])
	for _, name := range []string{"server", "peer", "client"} {
		pair, renewed, err := s.keep(r, ordinal, name, pki.Pair{CertPEM: after.Data[name+".crt"], KeyPEM: after.Data[name+".key"]}, now)
		if err != nil {
			return nil, false, fmt.Errorf("issuing the %s certificate of %s: %w", name, n.Slot(ordinal), err)
		}
		after.Data[name+".crt"], after.Data[name+".key"] = pair.CertPEM, pair.KeyPEM
		changed = changed || renewed
	}
	return after, takes(r, after) != "" || changed, nil
}

// keep returns the pair, or what is to take its place. A pair that can be shown gets a
// successor for its own key: etcd reads two files at a handshake, and would read two
// that don't belong together. A key that none of the ring's authorities has signed is
// somebody else's.
func (s stage) keep(r *v1alpha1.EtcdRing, ordinal int, name string, pair pki.Pair, now time.Time) (pki.Pair, bool, error) {
	n, authority, lifetime := namesOf(r), s.signs.clients, lifetimeOf(r)
	ours, peers := bundles(s.trust)
	slot := n.Slot(ordinal)
	subject := pki.Subject{CommonName: name + "-" + slot}
	issue := authority.IssueClient
	switch name {
	case "peer":
		authority, ours = s.signs.peers, peers
		issue, subject.Hosts = authority.IssuePeer, []string{n.Address(slot)}
	case "server":
		issue = authority.IssueServer
		subject.Hosts = slices.Concat([]string{n.Address(slot), "localhost", "127.0.0.1"}, n.ClientAddresses(), r.Spec.Certificates.ExtraNames)
	}
	leaf, err := pair.Leaf()
	if err == nil {
		err = pki.Vouched(ours, leaf)
	}
	if err != nil {
		pair, err = issue(now, subject, lifetime)
		return pair, true, err
	}
	if pki.Vouched(authority.CertPEM(), leaf) == nil && leaf.NotAfter.Sub(now) > lifetime/3 && pki.Covers(leaf, subject.Hosts) == nil {
		return pair, false, nil
	}
	pair, err = authority.Renew(now, pair, subject, lifetime)
	return pair, true, err
}
