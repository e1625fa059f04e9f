// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/ring"
)

// TestAskPeers: a move to TLS remembers how peers spoke until then, where each machine was
// listed, and is never taken back.
func TestAskPeers(t *testing.T) {
	s := Spec{Nodes: 3, Security: ring.TLS, Version: "v3.6.16"}
	assert.Equal(t, ring.TLS, s.PeersSpeak(), "as clients do")
	assert.Equal(t, "https://10.0.0.1:2380", s.PeerURL("10.0.0.1"))

	s.Peers = ring.Plain
	require.NoError(t, s.Validate())
	assert.Equal(t, "http://10.0.0.1:2380", s.PeerURL("10.0.0.1"))
	assert.False(t, s.Wanted().Encrypt)

	require.NoError(t, s.AskPeers(ring.TLS))
	require.NoError(t, s.Validate())
	assert.Equal(t, "http://10.0.0.1:2380", s.PeerURL("10.0.0.1"), "where it was bootstrapped")
	assert.True(t, s.Wanted().Encrypt)

	asked := s
	require.NoError(t, s.AskPeers(ring.TLS))
	assert.Equal(t, asked, s, "what is asked for already")
	assert.ErrorContains(t, s.AskPeers(ring.Plain), "not sent in the clear again")
	assert.ErrorContains(t, s.AskPeers("ipsec"), "choose tls or plain")
	assert.Equal(t, asked, s, "what is refused changes nothing")

	s = Spec{Nodes: 3, Security: ring.Plain, Version: "v3.6.16"}
	assert.ErrorContains(t, s.AskPeers(ring.TLS), "no authority")
	for _, wrong := range []Spec{
		{Security: ring.TLS, Peers: ring.Mixed}, {Security: ring.Plain, Peers: ring.TLS},
		{Security: ring.TLS, PeersFrom: ring.TLS}, {Security: ring.TLS, Peers: ring.Plain, PeersFrom: ring.Plain},
	} {
		wrong.Nodes, wrong.Version = 3, "v3.6.16"
		assert.ErrorContains(t, wrong.Validate(), "refused", "%+v", wrong)
	}
}
