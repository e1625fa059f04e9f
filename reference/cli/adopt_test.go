// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// before is a ring of three as it answers, changed by the test.
func before(scheme string, change func([]admin.Asked)) (adopted, error) {
	var members []admin.Asked
	for i := range 3 {
		members = append(members, admin.Asked{ID: ring.ID(i + 1), Name: fmt.Sprint("m", i+1), Cluster: 0xc1, Version: "v3.5.35",
			PeerURLs: []string{fmt.Sprintf("%s://10.0.0.%d:2380", scheme, i+1)}, Endpoint: fmt.Sprintf("%s://10.0.0.%d:2379", scheme, i+1)})
	}
	if change != nil {
		change(members)
	}
	found, err := describe(members, "n1", scheme == "https")
	if err == nil {
		err = errors.Join(found.identity.Validate(), found.spec.Validate())
	}
	return found, err
}

func TestWhatIsAdopted(t *testing.T) {
	found, err := before("https", nil)
	require.NoError(t, err)
	assert.Equal(t, store.Spec{Nodes: 3, Version: "v3.5.35", Security: ring.TLS}, found.spec)
	assert.Equal(t, uint64(0xc1), found.identity.ClusterID())
	assert.True(t, found.identity.Began("m2", 2))
	assert.False(t, found.identity.Began("m2", 3), "it is the log of another's member")

	found, err = before("http", nil)
	require.NoError(t, err)
	assert.Equal(t, ring.Plain, found.spec.Security)
}

// TestWhatIsNotAdopted: an agent would have etcd serve elsewhere, or the ring is in the
// middle of something.
func TestWhatIsNotAdopted(t *testing.T) {
	for says, change := range map[string]func([]admin.Asked){
		"it is a learner":             func(m []admin.Asked) { m[1].Learner = true },
		"it doesn't answer: refused;": func(m []admin.Asked) { m[0].Err = errors.New("refused") },
		"and is to have one": func(m []admin.Asked) {
			m[1].PeerURLs = append(m[1].PeerURLs, "https://m2:2380")
		},
		"agents have etcd listen at port 2380":  func(m []admin.Asked) { m[1].PeerURLs[0] = "https://10.0.0.2:12380" },
		"is no address":                         func(m []admin.Asked) { m[1].PeerURLs[0] = "https://0.0.0.0:2380" },
		"members run v3.6.16 and v3.5.35":       func(m []admin.Asked) { m[0].Version = "v3.6.16" },
		"some members speak TLS to their peers": func(m []admin.Asked) { m[1].PeerURLs[0] = "http://10.0.0.2:2380" },
		`member "m1" is there twice`:            func(m []admin.Asked) { m[1].Name = "m1" },
		`member name "Infra_2" refused`:         func(m []admin.Asked) { m[1].Name = "Infra_2" },
	} {
		_, err := before("https", change)
		assert.ErrorContains(t, err, says)
	}
	_, err := describe([]admin.Asked{{ID: 1, Name: "m1", Version: "v3.6.16", PeerURLs: []string{"https://10.0.0.1:2380"}}}, "n1", false)
	assert.ErrorContains(t, err, "--ca-cert with --ca-key is missing")
}

// TestAdoptedOnce: a command that was cut off goes on where it was, and another ring's
// records are left alone.
func TestAdoptedOnce(t *testing.T) {
	address := "file://" + filepath.Join(t.TempDir(), "ring")
	found, err := before("https", nil)
	require.NoError(t, err)
	signs := authority(t)
	s, err := store.Open(t.Context(), address+"?create_dir=true")
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, store.Init(t.Context(), s))
	_, err = store.Log[store.Identity]{Store: s, Prefix: auto.IdentityPrefix}.Append(t.Context(), 0, found.identity)
	require.NoError(t, err)

	other := found
	other.identity.Cluster = 0xc2
	require.ErrorContains(t, other.write(t.Context(), address, signs), "the bootstrap record of ring c1, and this is ring c2")
	require.ErrorContains(t, found.write(t.Context(), address, authority(t)), "another authority")
	require.NoError(t, found.write(t.Context(), address, signs))
	require.ErrorContains(t, found.write(t.Context(), address, signs), "holds a ring's spec already")
}

func authority(t *testing.T) *store.Authority {
	a, err := pki.NewAuthority(time.Now(), "etcd-ca")
	require.NoError(t, err)
	key, err := a.KeyPEM()
	require.NoError(t, err)
	return &store.Authority{CertPEM: a.CertPEM(), KeyPEM: key}
}
