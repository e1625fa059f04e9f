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

// proven reports whether the roots vouch for the leaf, as a name's if one is given.
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

// credentials are what a running etcd shows and believes on one of its ports, by the
// files that its flags name. As etcd does, it reads whom to believe once, at its
// start, and what to show at each handshake. nil is a port without TLS.
type credentials struct {
	files etcd.TLSFiles
	home  *disk
	known map[string]*identity // by all files: an etcd that starts again shows the same
	ca    []byte               // as it was at the start

	cert, key []byte // as they were at the last handshake
	read      *identity
	err       error
}

// credentials reads what etcd was told to show to clients and to peers.
func (s *server) credentials(c etcd.Config) error {
	for _, side := range []struct {
		files etcd.TLSFiles
		to    **credentials
	}{{c.ClientTLS, &s.client}, {c.PeerTLS, &s.peer}} {
		if side.files.Cert == "" {
			continue
		}
		*side.to = &credentials{files: side.files, home: s.home, known: s.machine.world.identities, ca: s.home.at(side.files.CA)}
		if _, err := (*side.to).identity(); err != nil {
			return err
		}
	}
	return nil
}

// identity is what is shown now. Files are replaced as a whole, so that those which
// are the same lists say the same.
func (c *credentials) identity() (*identity, error) {
	if c == nil {
		return nil, nil
	}
	cert, key := c.home.at(c.files.Cert), c.home.at(c.files.Key)
	if !sameFile(cert, c.cert) || !sameFile(key, c.key) || c.read == nil && c.err == nil {
		c.cert, c.key = cert, key
		c.read, c.err = c.look()
	}
	return c.read, c.err
}

func (c *credentials) look() (*identity, error) {
	shown := fmt.Sprintf("%s%s%s%t", c.cert, c.key, c.ca, c.files.ClientAuth)
	if x := c.known[shown]; x != nil {
		return x, nil
	}
	x, err := newIdentity(c.files, c.cert, c.key, c.ca)
	if err == nil {
		c.known[shown] = x
	}
	return x, err
}

func sameFile(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// at is the file of that path on a machine that has the disk.
func (d *disk) at(file string) []byte { return d.files[strings.TrimPrefix(path.Clean(file), root+"/")] }

func newIdentity(f etcd.TLSFiles, cert, key, ca []byte) (*identity, error) {
	// An authority to trust is reason enough for etcd to want certificates (transport.TLSInfo.baseConfig).
	x := &identity{auth: f.ClientAuth || f.CA != "", roots: x509.NewCertPool()}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Cert, err)
	}
	block, _ := pem.Decode(cert)
	var err error
	if x.leaf, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, err
	}
	if f.CA != "" && !x.roots.AppendCertsFromPEM(ca) {
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

// meet does the handshake of two etcds, or of a client with one, by what both show
// now.
func meet(dialer, listener *credentials, at *place, now time.Duration) error {
	shown, err := dialer.identity()
	if err != nil {
		return fmt.Errorf("the dialer has no certificate to show: %w", err)
	}
	return admit(shown, listener, at, now)
}

// admit is the same for a dialer who shows what it showed at first, as clients do.
func admit(dialer *identity, listener *credentials, at *place, now time.Duration) error {
	shown, err := listener.identity()
	if err != nil {
		return errors.New("authentication handshake failed: remote error: tls: internal error")
	}
	return trusted(dialer, shown, at, now)
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

// handshake is the one of the two at the place: few ever meet there.
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
	if !p.strangers {
		p.met = append(p.met, h)
	}
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
