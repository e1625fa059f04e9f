// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
)

// TestAMachineKnownByNameListensEverywhere: etcd refuses to bind to a name.
func TestAMachineKnownByNameListensEverywhere(t *testing.T) {
	for host, want := range map[string]string{
		"m1.example.org": "https://0.0.0.0:2380", "localhost": "https://0.0.0.0:2380", "10.0.0.1": "https://10.0.0.1:2380", "[2001:db8::1]": "https://[2001:db8::1]:2380",
	} {
		args := launcher.Command{Version: "v3.6.16", PeerURLs: []string{"https://" + host + ":2380"}, ClientURL: "https://" + host + ":2379"}.Args()
		assert.Contains(t, args, "--listen-peer-urls="+want)
		assert.Contains(t, args, "--listen-client-urls="+strings.ReplaceAll(want, "2380", "2379"))
		assert.Contains(t, args, "--initial-advertise-peer-urls=https://"+host+":2380")
		assert.Contains(t, args, "--advertise-client-urls=https://"+host+":2379")
	}
}

// TestNobodyIsAskedWithoutAQuorum: those who could be asked ask too.
func TestNobodyIsAskedWithoutAQuorum(t *testing.T) {
	for version, check := range map[ring.Version]string{"v3.5.35": "--experimental-initial-corrupt-check=true", "v3.6.16": "--feature-gates=InitialCorruptCheck=true"} {
		assert.Contains(t, launcher.Command{Version: version}.Args(), check)
		assert.NotContains(t, launcher.Command{Version: version, Alone: true}.Args(), check)
	}
}

// TestArgs holds etcd's command line for each release, plain and with TLS, in
// testdata/args.txt. go test ./reference/launcher -rewrite writes it anew.
func TestArgs(t *testing.T) {
	boots := map[string]launcher.Boot{
		"new": {Do: launcher.Start, State: launcher.New, Token: "ring-1",
			Cluster: []string{"m1=https://10.0.0.1:2380", "m2=https://10.0.0.2:2380", "m3=https://10.0.0.3:2380"}},
		"existing": {Do: launcher.Start, State: launcher.Existing, Cluster: []string{"m1=https://10.0.0.1:2380", "m2=https://10.0.0.2:2380"}},
		"resume":   {Do: launcher.Start, State: launcher.Resume},
	}
	datadriven.RunTest(t, "testdata/args.txt", func(t *testing.T, d *datadriven.TestData) string {
		var state string
		d.ScanArgs(t, "state", &state)
		boot, ok := boots[state]
		if !ok {
			d.Fatalf(t, "no such state: %s", state)
		}
		c := launcher.Command{Binary: "/opt/etcd/" + d.Cmd + "/etcd", Version: ring.Version(d.Cmd), Name: "m1", DataDir: "/var/lib/ringadm/etcd",
			PeerURLs: []string{"https://10.0.0.1:2380"}, ClientURL: "https://10.0.0.1:2379", Boot: boot}
		if d.HasArg("tls") {
			c.PKI = "/var/lib/ringadm/pki"
		} else {
			c.PeerURLs, c.ClientURL = []string{"http://10.0.0.1:2380"}, "http://10.0.0.1:2379"
			all := strings.Join(c.Boot.Cluster, " ")
			c.Boot.Cluster = strings.Fields(strings.ReplaceAll(all, "https:", "http:"))
		}
		if d.HasArg("peers") {
			var way ring.Security
			d.ScanArgs(t, "peers", (*string)(&way))
			c.PeerURLs = way.PeerURLs("http://10.0.0.1:2380")
		}
		if d.HasArg("timing") {
			c.Heartbeat, c.Election, c.SnapCount = 50*time.Millisecond, 500*time.Millisecond, 1000
		}
		return strings.Join(c.Args(), "\n")
	})
}
