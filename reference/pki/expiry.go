// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Parse reads a certificate; of a bundle, the one that expires first.
func Parse(pem []byte) (*x509.Certificate, error) {
	certs, err := parseCerts(pem)
	if err != nil {
		return nil, err
	}
	return slices.MinFunc(certs, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }), nil
}

func hosts(cert *x509.Certificate) []string {
	all := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		all = append(all, ip.String())
	}
	return all
}

// Covers reports whether a certificate still names every host it is dialled by. A
// machine that got a new address keeps a certificate that no date says is bad.
func Covers(cert *x509.Certificate, names []string) error {
	if cert == nil {
		return errors.New("no certificate to compare with its hosts; issue one")
	}
	var missing []string
	for _, name := range names {
		// A wildcard is a name to issue, not one to dial.
		if !slices.Contains(cert.DNSNames, strings.ToLower(name)) && cert.VerifyHostname(name) != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("certificate %q does not cover %s (it covers %s): issue it again for all of them",
			cert.Subject.CommonName, strings.Join(missing, ", "), strings.Join(hosts(cert), ", "))
	}
	return nil
}

// Vouched reports whether one of the authorities signed the certificate. The hour is
// not looked at: whoever shows a certificate is told that by its end.
func Vouched(authorities []byte, cert *x509.Certificate) error {
	roots, err := pool(authorities)
	if err != nil {
		return err
	}
	when := x509.VerifyOptions{Roots: roots, CurrentTime: cert.NotBefore.Add(time.Second), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	if _, err := cert.Verify(when); err != nil {
		return fmt.Errorf("certificate %q is not of the authority that is trusted: issue it again (%w)", cert.Subject.CommonName, err)
	}
	return nil
}
