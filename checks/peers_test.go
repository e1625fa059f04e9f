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
	require.Equal(t, ringproof.Inconclusive, judge(refuses, unseen), "m3 serves, and may admit anybody")
	require.Equal(t, ringproof.Pass, judge(refuses, ringproof.Port{Machine: "m5", Err: "i/o timeout"}), "nobody serves there")
	require.Equal(t, ringproof.Fail, judge(refuses, unseen, admits))
	require.Equal(t, ringproof.Fail, judge(refuses, unseen, ringproof.Port{Machine: "m2", Plain: true}), "it answers who speaks plain text")
	require.Equal(t, ringproof.Inconclusive, judge(unseen))
	require.Equal(t, ringproof.Inconclusive, judge())
	for security, suits := range map[string]bool{"tls": true, "plain": false} {
		require.Equal(t, suits, check.Suits(ringproof.Plan{Ring: ringproof.RingSpec{Security: security}}), security)
	}
}

// TestPeersOnTheirWayToTLS are heard in plain text, too; no-plaintext-peer says until when.
func TestPeersOnTheirWayToTLS(t *testing.T) {
	h := healthy()
	h.Plan.Ring.Peers = "plain"
	h.Evidence.PeerPorts = []ringproof.Port{{Machine: "m1", Plain: true}}
	require.Equal(t, ringproof.Pass, peersTrustPeers.Finding(h, nil).Verdict)
}

// TestListensInClear: TLS without a certificate is refused on each port, and whoever speaks plain text
// is heard beside it.
func TestListensInClear(t *testing.T) {
	for name, c := range map[string]struct {
		flag, urls, peers string
		check             Check
		want              ringproof.Verdict
	}{
		"to clients, on the same port":             {"listen-client-urls", "https://10.0.0.1:2379,http://10.0.0.1:2379", "", clientsShowCertificates, ringproof.Fail},
		"to all, by a flag of its own":             {"listen-client-http-urls", "http://0.0.0.0:2380", "", clientsShowCertificates, ringproof.Fail},
		"to peers":                                 {"listen-peer-urls", "https://10.0.0.1:2380,http://10.0.0.1:2381", "", peersTrustPeers, ringproof.Fail},
		"to peers that are moved":                  {"listen-peer-urls", "http://10.0.0.1:2380,https://10.0.0.1:2381", "plain", peersTrustPeers, ringproof.Pass},
		"to peers, where nobody speaks TLS":        {"listen-peer-urls", "http://10.0.0.1:2380", "none", peersTrustPeers, ringproof.Pass},
		"to its own machine":                       {"listen-client-urls", "https://10.0.0.1:2379,http://127.0.0.1:2379,http://[::1]:2379,unix://etcd.sock", "", clientsShowCertificates, ringproof.Pass},
		"to nobody":                                {"listen-client-urls", "https://10.0.0.1:2379", "", clientsShowCertificates, ringproof.Pass},
		"metrics, which hold nothing of anybody's": {"listen-metrics-urls", "http://10.0.0.1:2381", "", clientsShowCertificates, ringproof.Pass},
	} {
		t.Run(name, func(t *testing.T) {
			h := healthy()
			if h.Plan.Ring.Peers = c.peers; c.peers == "none" {
				h.Plan.Ring.Peers, h.Plan.Ring.Security = "", "plain"
			}
			h.Evidence.ClientPorts, h.Evidence.PeerPorts = []ringproof.Port{{Machine: "m1"}}, []ringproof.Port{{Machine: "m1"}}
			h.Evidence.Etcds = []ringproof.EtcdProcess{{Machine: "m1", Flags: map[string]string{c.flag: c.urls}}}
			require.Equal(t, c.want, c.check.Finding(h, nil).Verdict)
		})
	}
}
