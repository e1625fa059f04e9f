// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package pki

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Authorities names the authorities in a bundle in short, in its order: "1f3a9c04+77ab01ce".
// An authority is named by the identifier of its key, as the certificates that it signs name
// it (RFC 5280, 4.2.1.2).
func Authorities(bundle []byte) (string, error) {
	certs, err := parseCerts(bundle)
	if err != nil {
		return "", fmt.Errorf("authorities to trust refused: %w", err)
	}
	names := make([]string, len(certs))
	for i, c := range certs {
		names[i] = short(c.SubjectKeyId)
		if len(c.SubjectKeyId) == 0 { // not one that this package made
			sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
			names[i] = short(sum[:])
		}
	}
	return strings.Join(names, "+"), nil
}

// SignedBy names who signed a certificate, as Authorities does.
func SignedBy(cert []byte) (string, error) {
	certs, err := parseCerts(cert)
	if err != nil {
		return "", err
	}
	if len(certs[0].AuthorityKeyId) == 0 {
		return "", errors.New("the certificate doesn't say whose key signed it")
	}
	return short(certs[0].AuthorityKeyId), nil
}

func short(id []byte) string { return hex.EncodeToString(id[:min(len(id), 4)]) }
