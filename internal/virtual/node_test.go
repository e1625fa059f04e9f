// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/virtual/kubelet"
)

// aNode is a node on which these pods run.
func aNode(t *testing.T, pods ...kubelet.Running) (n *node, run func(pods ...kubelet.Running)) {
	l := &lab{dir: t.TempDir(), hosts: map[byte]*host{}}
	n = &node{host: &host{lab: l, name: "m1", number: 16, inner: []byte{17, 18}}, cluster: &cluster{of: labels.Everything()}}
	l.hosts[16] = n.host
	run = func(pods ...kubelet.Running) {
		text, err := json.Marshal(kubelet.State{Pods: pods})
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(n.dir(), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(n.dir(), "state.json"), text, 0o600))
	}
	run(pods...)
	return n, run
}

var (
	controller = kubelet.Running{Name: "controller-x", Machine: 18, Mains: map[string]int{"controller": 7}}
	member     = kubelet.Running{Name: "r-1", Host: "r-1.r.rings.svc", Machine: 17, Volume: "/volumes/a", Mains: map[string]int{"etcd": 8}}
)

// What is asked of a node is answered of the pod with a claim, and of no other.
func TestANodeIsItsMembersPod(t *testing.T) {
	n, run := aNode(t, controller, member)
	assert.Equal(t, netip.MustParseAddr("10.0.0.17"), n.Addr())
	assert.Equal(t, "/volumes/a", n.DataDir())
	assert.Equal(t, map[int]string{8: local.AgentTag}, n.leaders())
	name, host, here := n.Slot()
	assert.Equal(t, []any{"r-1", "r-1.r.rings.svc", true}, []any{name, host, here})

	run(controller) // the pod is away, and may come back
	name, _, here = n.Slot()
	assert.Equal(t, []any{"r-1", false}, []any{name, here})
	assert.Equal(t, netip.MustParseAddr("10.0.0.16"), n.Addr())
	assert.NoDirExists(t, n.DataDir())
	assert.Empty(t, n.leaders())
}

// Who cuts a machine off cuts off what lives on it, by whichever of its addresses it is
// named.
func TestAddressesOfAMachine(t *testing.T) {
	n, _ := aNode(t)
	for address, want := range map[string][]byte{"10.0.0.16": {16, 17, 18}, "10.0.0.18": {16, 17, 18}, "10.0.0.1": {1}, "192.0.2.1": nil, "::1": nil} {
		assert.Equal(t, want, n.lab.at(netip.MustParseAddr(address)), address)
	}
}
