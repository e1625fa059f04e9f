// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/store"
)

// signed are the certificates of a machine whose ring has these authorities, before it
// looked for any.
func signed(t *testing.T, record store.Authority) *certificates {
	t.Helper()
	h := host.NewReal("m1", t.TempDir(), t.TempDir(), nil)
	h.Plain = true
	return &certificates{host: h, log: &host.Recorder{Host: h}, machine: "m1", address: "10.0.0.1",
		authority: func(context.Context) (store.Authority, error) { return record, nil }}
}

// certified is the machine's pair and the authority that vouches for it.
func certified(t *testing.T, c *certificates, pair string) (x exhibit, vouched func(file string) error) {
	t.Helper()
	x, err := readPair(c.host.Disk().Read, pair)
	require.NoError(t, err)
	leaf, err := x.pair.Leaf()
	require.NoError(t, err)
	return x, func(file string) error {
		ca, err := c.host.Disk().Read(pkiDir + "/" + file)
		require.NoError(t, err)
		return pki.Vouched(ca, leaf)
	}
}

// TestPeersHaveTheirAuthority: whom a client trusts, and who trusts a client, vouches
// for no peer, and the other way round.
func TestPeersHaveTheirAuthority(t *testing.T) {
	record, err := NewAuthority(time.Now(), 1)
	require.NoError(t, err)
	c := signed(t, record)
	_, err = c.keep(t.Context(), pki.LeafLifetime)
	require.NoError(t, err)
	for pair, file := range map[string]string{"server": ClientsCA, "client": ClientsCA, "peer": PeersCA} {
		x, vouched := certified(t, c, pair)
		assert.Equal(t, file, x.file, pair)
		assert.NoError(t, vouched(file), pair)
		other := map[string]string{ClientsCA: PeersCA, PeersCA: ClientsCA}[file]
		assert.Error(t, vouched(other), pair)
	}
	require.NoError(t, c.host.Disk().Remove(pkiDir+"/"+PeersCA))
	_, err = c.keep(t.Context(), pki.LeafLifetime)
	require.NoError(t, err)
	x, _ := certified(t, c, "peer")
	assert.Equal(t, PeersCA, x.file, "a file that is lost comes back, and the clients' doesn't take its place")
}

// TestOneAuthority: a ring that was bootstrapped with one goes on with it, also while the
// store is away, and its renewals are of the same.
func TestOneAuthority(t *testing.T) {
	one, err := NewAuthority(time.Now(), 1)
	require.NoError(t, err)
	one.PeerCertPEM, one.PeerKeyPEM = nil, nil
	c := signed(t, one)
	_, err = c.keep(t.Context(), pki.LeafLifetime)
	require.NoError(t, err)
	x, vouched := certified(t, c, "peer")
	assert.Equal(t, ClientsCA, x.file)
	assert.NoError(t, vouched(ClientsCA))
	_, err = os.Stat(c.host.Disk().Path(pkiDir + "/" + PeersCA))
	assert.ErrorIs(t, err, os.ErrNotExist)

	signers, err := c.signers(t.Context())
	require.NoError(t, err)
	_, err = c.renew(signers, c.inspect("peer", pki.LeafLifetime), pki.LeafLifetime)
	require.NoError(t, err)
	x, vouched = certified(t, c, "peer")
	assert.Equal(t, ClientsCA, x.file)
	assert.NoError(t, vouched(ClientsCA))

	c.authority = func(context.Context) (store.Authority, error) {
		return store.Authority{}, errors.New("the store is away")
	}
	_, err = c.keep(t.Context(), pki.LeafLifetime)
	assert.NoError(t, err, "what is good needs nobody who signs")
}
