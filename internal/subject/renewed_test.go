// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/store"
)

// TestRenewedCredentials has a client dial servers of one authority and of the next: it
// trusts both, shows each a certificate of its own, and nobody else is taken for one of them.
func TestRenewedCredentials(t *testing.T) {
	kept, err := store.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	require.NoError(t, store.Init(t.Context(), kept))
	log := store.Log[store.Authority]{Store: store.Marked{Unmarked: kept}, Prefix: auto.AuthorityPrefix}
	r := &renewed{store: log.Store}
	assert.Error(t, r.learn(t.Context()), "there is none yet")

	var all []store.Authority
	for n := range 2 {
		record, err := launcher.NewAuthority(time.Now(), n+1)
		require.NoError(t, err)
		_, err = log.Append(t.Context(), n, record)
		require.NoError(t, err)
		all = append(all, record)
	}
	stranger, err := launcher.NewAuthority(time.Now(), 1)
	require.NoError(t, err)
	secure, err := r.config(t.Context())
	require.NoError(t, err)
	assert.NoError(t, dialled(t, secure, all[0]))
	assert.NoError(t, dialled(t, secure, all[1]))
	assert.ErrorAs(t, dialled(t, secure, stranger), new(x509.UnknownAuthorityError))
}

// dialled is what comes of dialling a server that the authority has signed, and that takes
// its clients alone.
func dialled(t *testing.T, secure *tls.Config, by store.Authority) error {
	t.Helper()
	authority, err := pki.ParseAuthority(by.CertPEM, by.KeyPEM)
	require.NoError(t, err)
	issued, err := authority.IssueServer(time.Now(), pki.Subject{CommonName: "s", Hosts: []string{"localhost"}}, 0)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(issued.CertPEM, issued.KeyPEM)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(by.CertPEM))
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		defer there.Close()
		server := tls.Server(there, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
		if server.Handshake() == nil {
			_, _ = server.Write([]byte("heard"))
		}
	}()
	own := secure.Clone()
	own.ServerName = "localhost"
	client := tls.Client(here, own)
	if err := client.Handshake(); err != nil {
		return err
	}
	heard := make([]byte, len("heard")) // a server's refusal comes after the client's handshake
	_, err = io.ReadFull(client, heard)
	return err
}
