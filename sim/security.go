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
	known map[meeting]error
}

// meeting is a handshake whose signatures have been looked at.
type meeting struct {
	dialer *identity
	at     *place
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
	x := &identity{auth: f.ClientAuth, roots: x509.NewCertPool(), known: map[meeting]error{}}
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
// there.
func trusted(dialer, listener *identity, at *place, now time.Time) error {
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
	key := meeting{dialer, at}
	err, met := listener.known[key]
	if !met {
		err = signed(dialer, listener, at.name)
		listener.known[key] = err
	}
	if err != nil {
		return err
	}
	return inTime(now, listener.leaf, dialer.leaf)
}

// signed looks at the signatures, names and purposes; the hour is looked at
// each time.
func signed(dialer, listener *identity, name string) error {
	leaf := listener.leaf
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: dialer.roots, CurrentTime: leaf.NotBefore.Add(time.Second)}); err != nil {
		return fmt.Errorf("authentication handshake failed: tls: failed to verify certificate: %w", err)
	}
	if !listener.auth {
		return nil
	}
	if dialer.leaf == nil {
		return errors.New("authentication handshake failed: remote error: tls: certificate required")
	}
	options := x509.VerifyOptions{Roots: listener.roots, CurrentTime: dialer.leaf.NotBefore.Add(time.Second), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := dialer.leaf.Verify(options); err != nil {
		return errors.New("authentication handshake failed: remote error: tls: bad certificate")
	}
	return nil
}

func inTime(now time.Time, certificates ...*x509.Certificate) error {
	for _, c := range certificates {
		if c != nil && (now.Before(c.NotBefore) || now.After(c.NotAfter)) {
			return fmt.Errorf("authentication handshake failed: tls: certificate has expired or is not yet valid: the clock shows %s", now.UTC().Format(time.RFC3339))
		}
	}
	return nil
}
