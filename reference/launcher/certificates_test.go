// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/store"
)

// TestCommonNames: a machine whose name is longer than a certificate's may be gets
// certificates all the same, and no two machines one name.
func TestCommonNames(t *testing.T) {
	long := strings.Repeat("a", 60) + ".example.org"
	assert.Equal(t, "server-m1", commonName("server", "m1"))
	assert.NotEqual(t, commonName("peer", long), commonName("peer", long+".net"))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	authority, err := pki.NewAuthority(now, "ringadm")
	require.NoError(t, err)
	for _, name := range pairs {
		_, err := authority.IssueServer(now, pki.Subject{CommonName: commonName(name, long), Hosts: []string{"10.0.0.1"}}, 0)
		assert.NoError(t, err)
	}
}

// TestRenewalsAreSpread: machines whose certificates were issued in one minute don't
// renew them in one.
func TestRenewalsAreSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for _, name := range []string{"m1", "m2", "m3"} {
		before := renewBefore(pki.LeafLifetime, name, "peer")
		assert.GreaterOrEqual(t, before, pki.LeafLifetime/3)
		assert.Less(t, before, pki.LeafLifetime/2)
		seen[before] = true
	}
	assert.Len(t, seen, 3)
}

// TestCertificatesOfAnotherLifetime: those of twenty hours were looked at when half a day had
// passed, as is right for the year that was asked for then; and ended before they were looked
// at again, if nobody could sign at that moment.
func TestCertificatesOfAnotherLifetime(t *testing.T) {
	const brief = 20 * time.Hour
	begin := time.Now()
	record, err := NewAuthority(begin, 1)
	require.NoError(t, err)
	c := signed(t, record)
	real := c.host
	at := func(since time.Duration) { c.host = dated{real, begin.Add(since)} }
	keep := func(lifetime time.Duration) {
		_, err := c.keep(t.Context(), lifetime)
		require.NoError(t, err)
	}
	at(0)
	keep(brief)
	at(time.Second)
	assert.False(t, c.due(brief), "they were looked at")
	assert.True(t, c.due(pki.LeafLifetime), "they are to live longer")

	c.authority = func(context.Context) (store.Authority, error) {
		return store.Authority{}, errors.New("the store is away")
	}
	keep(pki.LeafLifetime)
	at(time.Hour)
	assert.False(t, c.due(pki.LeafLifetime), "it was just tried")
	at(brief / 2)
	assert.True(t, c.due(pki.LeafLifetime), "half of their time has passed")

	c.authority = func(context.Context) (store.Authority, error) { return record, nil }
	keep(pki.LeafLifetime)
	at(brief)
	assert.False(t, c.due(pki.LeafLifetime), "all are of a year")
}

// TestNoCertificateOfAnotherAuthority: a store was made anew, and the others trust what its authority signs
// as little as a stranger's.
func TestNoCertificateOfAnotherAuthority(t *testing.T) {
	begin := time.Now()
	record, err := NewAuthority(begin, 1)
	require.NoError(t, err)
	c := signed(t, record)
	c.host = dated{c.host, begin}
	_, err = c.keep(t.Context(), pki.LeafLifetime)
	require.NoError(t, err)
	shown, err := readPair(c.host.Disk().Read, "peer")
	require.NoError(t, err)

	another, err := NewAuthority(begin, 1)
	require.NoError(t, err)
	c.authority = func(context.Context) (store.Authority, error) { return another, nil }
	c.host = dated{c.host, begin.Add(pki.LeafLifetime * 3 / 4)}
	changed, err := c.keep(t.Context(), pki.LeafLifetime)
	require.NoError(t, err)
	assert.False(t, changed)
	still, err := readPair(c.host.Disk().Read, "peer")
	require.NoError(t, err)
	assert.Equal(t, shown, still)

	c.authority = func(context.Context) (store.Authority, error) { return record, nil }
	changed, err = c.keep(t.Context(), pki.LeafLifetime)
	require.NoError(t, err)
	assert.True(t, changed, "its own is back")
}
