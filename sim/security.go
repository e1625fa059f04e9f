// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/ringproof/ringproof/sim/etcd"
)

// identity is one side of a TLS handshake: who it says it is, and whom it
// believes. nil is a side without TLS. Certificates are the real ones that the
// subject made; only the bytes on the wire are left out.
type identity struct {
	leaf  *x509.Certificate // nil: it shows none
	roots *x509.CertPool
	auth  bool // a listener that demands a certificate

	proofs []proof // of the leaf
}

// proof is what came of looking whether roots vouch for a leaf. All members of a
// ring have the same roots, read from files of their own.
type proof struct {
	roots *x509.CertPool
	usage x509.ExtKeyUsage
	name  string
	err   error
}

// proven tells whether the roots vouch for the leaf, as a name's if one is given.
// The hour is looked at each time.
func (x *identity) proven(roots *x509.CertPool, usage x509.ExtKeyUsage, name string) error {
	for _, p := range x.proofs {
		if p.usage == usage && p.name == name && p.roots.Equal(roots) {
			return p.err
		}
	}
	_, err := x.leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: x.leaf.NotBefore.Add(time.Second),
		KeyUsages: []x509.ExtKeyUsage{usage}})
	x.proofs = append(x.proofs, proof{roots, usage, name, err})
	return err
}

// handshake is one whose signatures have been looked at, and from when to when,
// since the Epoch, its certificates hold.
type handshake struct {
	dialer, listener *identity
	err              error // of signatures, names and purposes
	begin, end       time.Duration
}

// identities reads what etcd was told to show to clients and to peers.
func (s *server) identities(c etcd.Config) (client, peer *identity, err error) {
	if client, err = s.identity(c.ClientTLS); err != nil {
		return nil, nil, err
	}
	peer, err = s.identity(c.PeerTLS)
	return client, peer, err
}

func (s *server) identity(f etcd.TLSFiles) (*identity, error) {
	if f.Cert == "" {
		return nil, nil
	}
	d, all := s.home, s.machine.world.identities
	shown := fmt.Sprintf("%s%s%s%t", d.at(f.Cert), d.at(f.Key), d.at(f.CA), f.ClientAuth)
	if all[shown] == nil {
		x, err := newIdentity(f, d)
		if err != nil {
			return nil, err
		}
		all[shown] = x
	}
	return all[shown], nil
}

// at is the file of that path on a machine that has the disk.
func (d *disk) at(file string) []byte { return d.files[strings.TrimPrefix(path.Clean(file), root+"/")] }

func newIdentity(f etcd.TLSFiles, d *disk) (*identity, error) {
	x := &identity{auth: f.ClientAuth, roots: x509.NewCertPool()}
	if _, err := tls.X509KeyPair(d.at(f.Cert), d.at(f.Key)); err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Cert, err)
	}
	block, _ := pem.Decode(d.at(f.Cert))
	var err error
	if x.leaf, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, err
	}
	if !x.roots.AppendCertsFromPEM(d.at(f.CA)) {
		return nil, fmt.Errorf("open %s: no certificate in it", f.CA)
	}
	return x, nil
}

// dialer is the side of a client with this configuration.
func dialer(c *tls.Config) (*identity, error) {
	if c == nil {
		return nil, nil
	}
	x := &identity{roots: c.RootCAs}
	if len(c.Certificates) == 0 {
		return x, nil
	}
	leaf, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
	x.leaf = leaf
	return x, err
}

// trusted does the handshake of a dialer that goes to a place with the listener
// there, whose clock shows so much since the Epoch.
func trusted(dialer, listener *identity, at *place, now time.Duration) error {
	switch secure := at.secure; {
	case !secure && listener == nil:
		return nil
	case secure && listener == nil:
		return errors.New("tls: first record does not look like a TLS handshake")
	case !secure:
		return errBroken // what isn't a handshake is hung up on
	case dialer == nil:
		return errors.New("tls: no certificate authority is known to the dialer")
	}
	h := at.handshake(dialer, listener)
	if h.err == nil && (now < h.begin || now > h.end) {
		return fmt.Errorf("authentication handshake failed: tls: certificate has expired or is not yet valid: the clock shows %s", Epoch.Add(now).Format(time.RFC3339))
	}
	return h.err
}

// handshake is the one of the two at the place: every packet asks for it, and
// few ever meet there.
func (p *place) handshake(dialer, listener *identity) *handshake {
	for _, h := range p.met {
		if h.dialer == dialer && h.listener == listener {
			return h
		}
	}
	h := &handshake{dialer: dialer, listener: listener, err: signed(dialer, listener, p.name)}
	h.begin, h.end = listener.leaf.NotBefore.Sub(Epoch), listener.leaf.NotAfter.Sub(Epoch)
	if c := dialer.leaf; c != nil {
		h.begin, h.end = max(h.begin, c.NotBefore.Sub(Epoch)), min(h.end, c.NotAfter.Sub(Epoch))
	}
	p.met = append(p.met, h)
	return h
}

// signed looks at the signatures, names and purposes.
func signed(dialer, listener *identity, name string) error {
	if err := listener.proven(dialer.roots, x509.ExtKeyUsageServerAuth, name); err != nil {
		return fmt.Errorf("authentication handshake failed: tls: failed to verify certificate: %w", err)
	}
	if !listener.auth {
		return nil
	}
	if dialer.leaf == nil {
		return errors.New("authentication handshake failed: remote error: tls: certificate required")
	}
	if err := dialer.proven(listener.roots, x509.ExtKeyUsageClientAuth, ""); err != nil {
		return errors.New("authentication handshake failed: remote error: tls: bad certificate")
	}
	return nil
}
