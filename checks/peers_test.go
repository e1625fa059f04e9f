// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

func TestPeersTrustPeers(t *testing.T) {
	testPorts(t, peersTrustPeers, func(e *ringproof.Evidence) *[]ringproof.Port { return &e.PeerPorts })
}

func TestClientsShowCertificates(t *testing.T) {
	testPorts(t, clientsShowCertificates, func(e *ringproof.Evidence) *[]ringproof.Port { return &e.ClientPorts })
}

func testPorts(t *testing.T, check Check, tried func(*ringproof.Evidence) *[]ringproof.Port) {
	h := healthy()
	judge := func(ports ...ringproof.Port) ringproof.Verdict {
		*tried(&h.Evidence) = ports
		return check.Finding(h, nil).Verdict
	}
	refuses, admits, unseen := ringproof.Port{Machine: "m1"}, ringproof.Port{Machine: "m2", Admits: true}, ringproof.Port{Machine: "m3", Err: "i/o timeout"}
	require.Equal(t, ringproof.Pass, judge(refuses, unseen))
	require.Equal(t, ringproof.Fail, judge(refuses, unseen, admits))
	require.Equal(t, ringproof.Inconclusive, judge(unseen))
	require.Equal(t, ringproof.Inconclusive, judge())
	for security, suits := range map[string]bool{"tls": true, "plain": false} {
		require.Equal(t, suits, check.Suits(ringproof.Plan{Ring: ringproof.RingSpec{Security: security}}), security)
	}
}
