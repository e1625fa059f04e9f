// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package observe

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

func TestAPrivateKeyIsHeard(t *testing.T) {
	const ec, pkcs8, rsa = "-----BEGIN EC PRIVATE KEY-----\nMHcC", "-----BEGIN PRIVATE KEY-----\nMIGH", "-----BEGIN RSA PRIVATE KEY-----\nMIIE"
	based := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for line, found := range map[string]bool{
		ec: true, pkcs8: true, rsa: true, based(ec): true, based(pkcs8): true, based(rsa): true,
		`{"event":"trouble","text":"-----BEGIN PRIVATE KEY-----\nMIGH"}`: true,
		"-----BEGIN CERTIFICATE-----\nMIIB":                              false,
		based("-----BEGIN CERTIFICATE-----\nMIIB"):                       false,
		"-----BEGIN PUBLIC KEY-----\nMFkw":                               false,
		"the private key of server.crt is in server.key":                 false,
	} {
		o := ringproof.Output{}
		HearAll(&o, []byte("starting\nwith "+line))
		assert.Equal(t, found, o.Key != "", line)
		assert.NotContains(t, o.Key, "MIGH")
	}
	o := ringproof.Output{}
	HearAll(&o, []byte("starting\nwith "+pkcs8))
	assert.Equal(t, ringproof.Output{Lines: 3, Key: "line 2: with"}, o)
}
