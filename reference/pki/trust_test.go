// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package pki

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAuthorities(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first, err := NewAuthority(now, "one")
	require.NoError(t, err)
	second, err := NewAuthority(now, "one")
	require.NoError(t, err)
	named := func(bundle []byte) string {
		name, err := Authorities(bundle)
		require.NoError(t, err)
		return name
	}
	one, two := named(first.CertPEM()), named(second.CertPEM())
	assert.NotEqual(t, one, two, "another key is another authority, whatever it is called")
	assert.Equal(t, one+"+"+two, named(append(first.CertPEM(), second.CertPEM()...)))

	pair, err := first.IssueClient(now, Subject{CommonName: "c"}, 0)
	require.NoError(t, err)
	by, err := SignedBy(pair.CertPEM)
	require.NoError(t, err)
	assert.Equal(t, one, by)
	pair, err = second.Renew(now, pair, Subject{CommonName: "c"}, 0)
	require.NoError(t, err)
	by, err = SignedBy(pair.CertPEM)
	require.NoError(t, err)
	assert.Equal(t, two, by, "signed by another for the same key")

	for _, bad := range [][]byte{nil, []byte("no certificate"), append(first.CertPEM(), "half"...)} {
		_, err := Authorities(bad)
		assert.Error(t, err)
		_, err = SignedBy(bad)
		assert.Error(t, err)
	}
}
