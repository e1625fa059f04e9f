// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package pki makes the certificates of a ring: one authority, and below it
// the certificates of servers, peers and clients. Keys are ECDSA P-256.
//
// Time is a parameter everywhere, so that a simulator can own it. Nothing here
// prints a private key, whatever it is asked.
package pki

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"
)

const (
	// AuthorityLifetime is how long a new authority lives.
	AuthorityLifetime = 10 * 365 * 24 * time.Hour
	// LeafLifetime is how long a certificate lives if nothing else is asked.
	LeafLifetime = 365 * 24 * time.Hour
	// Skew is how far a clock may be behind the one that made the authority. A machine whose
	// hardware clock keeps local time is half a day ahead until its clock is set.
	Skew = 24 * time.Hour
)

// Authority signs. Its zero value doesn't.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Subject is whom a certificate is for.
type Subject struct {
	CommonName string
	Hosts      []string // DNS names and IP addresses, without ports
}

// NewAuthority makes an authority that signs itself.
func NewAuthority(now time.Time, commonName string) (Authority, error) {
	if err := checkCommonName(commonName); err != nil {
		return Authority{}, err
	}
	key, err := newKey()
	if err != nil {
		return Authority{}, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: commonName},
		NotBefore: now.Add(-Skew), NotAfter: now.Add(AuthorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	cert, err := sign(template, template, key.Public(), key)
	if err != nil {
		return Authority{}, err
	}
	return Authority{cert, key}, nil
}

// ParseAuthority reads an authority back; it need not be one that this package
// made. Only the first certificate counts.
func ParseAuthority(cert, key []byte) (Authority, error) {
	pair, err := parsePair(cert, key)
	if err != nil {
		return Authority{}, fmt.Errorf("authority refused: %w", err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return Authority{}, errors.New("authority refused: its key cannot sign; use an ECDSA or RSA key")
	}
	if c := pair.Leaf; !c.IsCA || c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0 {
		return Authority{}, fmt.Errorf("authority refused: certificate %q may not sign others; use that of the authority itself", c.Subject.CommonName)
	}
	return Authority{pair.Leaf, signer}, nil
}

// CertPEM returns the certificate.
func (a Authority) CertPEM() []byte {
	if a.cert == nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// KeyPEM returns the private key, to be kept.
func (a Authority) KeyPEM() ([]byte, error) {
	if a.key == nil {
		return nil, errNoAuthority
	}
	return encodeKey(a.key)
}

var errNoAuthority = errors.New("there is no authority: make one or read one back first")

// IssueServer makes a certificate for clients to connect to. It is a client's
// too, because etcd's gateway dials its own server with it. A lifetime of 0 means
// LeafLifetime, and none is longer than the authority's.
func (a Authority) IssueServer(now time.Time, s Subject, lifetime time.Duration) (Pair, error) {
	return a.issueWithHosts(now, s, lifetime)
}

// IssuePeer makes a certificate for peers, who both dial and answer. A
// lifetime of 0 means LeafLifetime, and none is longer than the authority's.
func (a Authority) IssuePeer(now time.Time, s Subject, lifetime time.Duration) (Pair, error) {
	return a.issueWithHosts(now, s, lifetime)
}

// IssueClient makes a certificate that opens doors and serves nobody. A
// lifetime of 0 means LeafLifetime, and none is longer than the authority's.
func (a Authority) IssueClient(now time.Time, s Subject, lifetime time.Duration) (Pair, error) {
	return a.issue(now, s, lifetime, x509.ExtKeyUsageClientAuth)
}

// Renew makes a certificate for the key of a pair, with the purposes that the pair's
// has: only the certificate of the two is new.
func (a Authority) Renew(now time.Time, p Pair, s Subject, lifetime time.Duration) (Pair, error) {
	pair, err := parsePair(p.CertPEM, p.KeyPEM)
	if err != nil {
		return Pair{}, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return Pair{}, errors.New("the key of the certificate cannot sign; issue both anew")
	}
	return a.certify(now, s, lifetime, key, pair.Leaf.ExtKeyUsage...)
}

func (a Authority) issueWithHosts(now time.Time, s Subject, lifetime time.Duration) (Pair, error) {
	if len(s.Hosts) == 0 {
		return Pair{}, fmt.Errorf("certificate %q refused: no hosts; name the addresses that others dial", s.CommonName)
	}
	return a.issue(now, s, lifetime, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
}

func (a Authority) issue(now time.Time, s Subject, lifetime time.Duration, usages ...x509.ExtKeyUsage) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	return a.certify(now, s, lifetime, key, usages...)
}

func (a Authority) certify(now time.Time, s Subject, lifetime time.Duration, key crypto.Signer, usages ...x509.ExtKeyUsage) (Pair, error) {
	template, err := a.template(now, s, lifetime)
	if err != nil {
		return Pair{}, err
	}
	template.ExtKeyUsage = usages
	cert, err := sign(template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), KeyPEM: keyPEM}, nil
}

func (a Authority) template(now time.Time, s Subject, lifetime time.Duration) (*x509.Certificate, error) {
	if err := cmp.Or(checkCommonName(s.CommonName), a.checkTime(now, lifetime)); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: s.CommonName},
		// Not by the clock that issues it, which may be ahead and be set back: nobody
		// would believe a new machine until the time comes from which it was to count.
		// kubeadm dates its certificates from their authority too.
		NotBefore:             a.cert.NotBefore,
		NotAfter:              earliest(now.Add(cmp.Or(lifetime, LeafLifetime)), a.cert.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
	return template, addHosts(template, s.Hosts)
}

func (a Authority) checkTime(now time.Time, lifetime time.Duration) error {
	switch {
	case a.cert == nil || a.key == nil:
		return errNoAuthority
	case lifetime < 0:
		return fmt.Errorf("lifetime %v refused: choose a positive one, or 0 for a year", lifetime)
	case now.Before(a.cert.NotBefore):
		return fmt.Errorf("the authority begins at %s and the clock says %s: set the clock", stamp(a.cert.NotBefore), stamp(now))
	case now.After(a.cert.NotAfter):
		return fmt.Errorf("the authority expired at %s: make a new one and give every machine both before going on", stamp(a.cert.NotAfter))
	}
	return nil
}

// addHosts splits the hosts into the two kinds of SAN and gives each once.
func addHosts(template *x509.Certificate, hosts []string) error {
	seen := map[string]bool{}
	for _, host := range hosts {
		if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" {
			ip = ip.Unmap()
			if !seen[ip.String()] {
				template.IPAddresses = append(template.IPAddresses, ip.AsSlice())
			}
			seen[ip.String()] = true
			continue
		}
		name := strings.ToLower(host)
		if err := checkHost(name); err != nil {
			return err
		}
		if !seen[name] {
			template.DNSNames = append(template.DNSNames, name)
		}
		seen[name] = true
	}
	return nil
}

var hostPattern = regexp.MustCompile(`^(\*\.)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

func checkHost(name string) error {
	// 10.0.0.300 has the form of a DNS name, and is a mistyped address.
	mistyped := strings.Trim(name[strings.LastIndex(name, ".")+1:], "0123456789") == ""
	if len(name) > 253 || mistyped || !hostPattern.MatchString(name) {
		return fmt.Errorf("host %.80q refused: write an IP address or a DNS name, without scheme or port", name)
	}
	return nil
}

func checkCommonName(name string) error {
	// 64 is the upper bound of RFC 5280; some verifiers refuse what is longer.
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("common name %.80q refused: use 1 to 64 printable ASCII characters", name)
	}
	return nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("no key could be made: %w", err)
	}
	return key, nil
}

// sign leaves the serial number to x509, which draws 20 random bytes: two
// machines that issue at once cannot coordinate a counter.
func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %q could not be signed: %w", template.Subject.CommonName, err)
	}
	return x509.ParseCertificate(der)
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("key could not be encoded: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// parsePair leaves the cause out of its error: it could quote the key.
func parsePair(cert, key []byte) (tls.Certificate, error) {
	if _, err := parseCerts(cert); err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, errors.New("the certificate and the key do not belong together; issue them again")
	}
	return pair, nil
}

// parseCerts is stricter than x509.CertPool, which skips what it can't read: a
// bundle half of which is skipped trusts half of the ring.
func parseCerts(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for rest := text; len(strings.TrimSpace(string(rest))) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("not a certificate in PEM; check that the right file was given, whole")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("not a certificate: %w", err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate; check that the right file was given, whole")
	}
	return certs, nil
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
