// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/launcher"
	reference "github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/sim/etcd"
)

// TestParsesTheLauncher takes the command lines that ship, for each release.
func TestParsesTheLauncher(t *testing.T) {
	for _, version := range []string{"v3.5.35", "v3.6.16", "v3.7.3"} {
		args := launcher.Command{Binary: "etcd", Version: reference.Version(version), Name: "m1", DataDir: "/data", PeerURLs: []string{"https://10.0.0.1:2380"}, ClientURL: "https://10.0.0.1:2379",
			PKI: "/pki", Heartbeat: 50 * time.Millisecond, Election: 500 * time.Millisecond, SnapCount: 1000,
			Boot: launcher.Boot{State: launcher.New, Token: "ring", Cluster: []string{"m1=https://10.0.0.1:2380"}}}.Args()
		c, err := etcd.Parse(version, args[1:])
		require.NoError(t, err, version)
		assert.Equal(t, etcd.Config{
			Name: "m1", DataDir: "/data",
			ListenPeer: []string{"https://10.0.0.1:2380"}, AdvertisePeer: []string{"https://10.0.0.1:2380"},
			ListenClient: []string{"https://10.0.0.1:2379"}, AdvertiseClient: []string{"https://10.0.0.1:2379"},
			InitialCluster: "m1=https://10.0.0.1:2380", State: "new", Token: "ring",
			Heartbeat: 50 * time.Millisecond, Election: 500 * time.Millisecond, AdvanceTicks: true, PreVote: true, StrictReconfig: true,
			CorruptCheck: true, SnapCount: 1000, CatchUp: 5000, MaxRequest: 1572864, MaxTxnOps: 128, MaxLearners: 1,
			CompactionMode: "periodic", CompactionRetention: "0",
			PeerTLS:   etcd.TLSFiles{CA: "/pki/ca.crt", Cert: "/pki/peer.crt", Key: "/pki/peer.key", ClientAuth: true},
			ClientTLS: etcd.TLSFiles{CA: "/pki/ca.crt", Cert: "/pki/server.crt", Key: "/pki/server.key", ClientAuth: true},
		}, c)
	}
}

func TestRefusesFlags(t *testing.T) {
	for _, c := range []struct{ version, flag, want string }{
		{"v3.6.16", "--nonsense=1", "flag provided but not defined: -nonsense"},
		{"v3.7.3", "--experimental-initial-corrupt-check=true", "flag provided but not defined: -experimental-initial-corrupt-check"},
		{"v3.5.35", "--feature-gates=InitialCorruptCheck=true", "flag provided but not defined: -feature-gates"},
		{"v3.6.16", "--election-timeout=400", "--election-timeout[400ms] should be at least as 5 times as --heartbeat-interval[100ms]"},
		{"v3.6.16", "--election-timeout=60000", "--election-timeout[60000ms] is too long, and should be set less than 50000ms"},
		{"v3.6.16", "--heartbeat-interval=0", "--heartbeat-interval must be >0 (set to 0ms)"},
		{"v3.6.16", "--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls is required when --listen-client-urls is set explicitly"},
		{"v3.6.16", "--listen-peer-urls=http://example.com:2380", "expected IP in URL for binding (http://example.com:2380)"},
		{"v3.6.16", "stray", `"stray" is not a valid flag`},
	} {
		_, err := etcd.Parse(c.version, []string{c.flag})
		assert.EqualError(t, err, c.want)
	}
}
