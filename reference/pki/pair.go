// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// Pair is a certificate and its private key. Whatever prints a Pair leaves the
// key out, encoding/json included; KeyPEM by itself is bare bytes.
type Pair struct {
	CertPEM []byte
	KeyPEM  []byte
}

// Leaf returns the certificate, after looking that the key is its own.
func (p Pair) Leaf() (*x509.Certificate, error) {
	pair, err := parsePair(p.CertPEM, p.KeyPEM)
	if err != nil {
		return nil, err
	}
	return pair.Leaf, nil
}

// ClientTLS dials with one of the pairs whoever an authority vouches for: the first that
// the server takes, by the names of those whom it trusts. caPEM may be a bundle, as it is
// while one authority takes over from another.
func ClientTLS(caPEM []byte, pairs ...Pair) (*tls.Config, error) {
	pool, err := pool(caPEM)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	for _, p := range pairs {
		pair, err := parsePair(p.CertPEM, p.KeyPEM)
		if err != nil {
			return nil, fmt.Errorf("client certificate refused: %w", err)
		}
		c.Certificates = append(c.Certificates, pair)
	}
	return c, nil
}

func pool(caPEM []byte) (*x509.CertPool, error) {
	certs, err := parseCerts(caPEM)
	if err != nil {
		return nil, fmt.Errorf("authorities to trust refused: %w", err)
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		if !c.IsCA {
			return nil, fmt.Errorf("authorities to trust refused: %q is not an authority; give the one that signed it", c.Subject.CommonName)
		}
		pool.AddCert(c)
	}
	return pool, nil
}

// String names the certificate.
func (p Pair) String() string {
	certs, err := parseCerts(p.CertPEM)
	if err != nil {
		return "pair without a readable certificate (key not shown)"
	}
	return fmt.Sprintf("pair %q until %s (key not shown)", certs[0].Subject.CommonName, stamp(certs[0].NotAfter))
}

// Format is String for every verb: %d would list the key as numbers.
func (p Pair) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }

// GoString is String.
func (p Pair) GoString() string { return p.String() }

// LogValue is String.
func (p Pair) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalJSON is String: a Pair in a logged struct is marshalled unasked.
func (p Pair) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// String names the authority.
func (a Authority) String() string {
	if a.cert == nil {
		return "no authority"
	}
	return fmt.Sprintf("authority %q until %s (key not shown)", a.cert.Subject.CommonName, stamp(a.cert.NotAfter))
}

// Format is String for every verb.
func (a Authority) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, a.String()) }

// GoString is String.
func (a Authority) GoString() string { return a.String() }

// LogValue is String.
func (a Authority) LogValue() slog.Value { return slog.StringValue(a.String()) }

// MarshalJSON is String.
func (a Authority) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }
