// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/store"
)

// TestWhoCameFirst: of two operators who ask at once the second is told what the first
// asked for.
func TestWhoCameFirst(t *testing.T) {
	address := "file://" + filepath.Join(t.TempDir(), "ring")
	require.NoError(t, create(t.Context(), address, store.Spec{Nodes: 3, Version: "v3.6.16", Security: "plain"}))
	s, err := store.Open(t.Context(), address)
	require.NoError(t, err)
	defer s.Close()
	log := store.Log[store.Spec]{Store: s, Prefix: auto.SpecPrefix}
	_, err = log.Append(t.Context(), 1, store.Spec{Nodes: 5, Version: "v3.6.16", Security: "plain"})
	require.NoError(t, err)
	_, late := log.Append(t.Context(), 1, store.Spec{Nodes: 7, Version: "v3.6.16", Security: "plain"})
	err = cameFirst(t.Context(), log, address, late)
	require.ErrorIs(t, err, store.ErrExists)
	require.ErrorContains(t, err, `spec 2 is now {"nodes":5`)
	require.ErrorContains(t, err, "ask again")
}

// TestNoMachineGoesBack: a release that a machine's etcd would refuse to start with is
// refused to whoever asks for it, as one for all machines is.
func TestNoMachineGoesBack(t *testing.T) {
	address := "file://" + filepath.Join(t.TempDir(), "ring")
	require.NoError(t, create(t.Context(), address, store.Spec{Nodes: 3, Version: "v3.6.16", Security: "plain"}))
	for _, pair := range []string{"version=v3.5.35", "m2.version=v3.5.35"} {
		_, err := respec(t.Context(), address, []string{pair})
		require.ErrorContains(t, err, "v3.5.35 refused", pair)
	}
	spec, err := respec(t.Context(), address, []string{"m2.version=v3.7.3"})
	require.NoError(t, err)
	require.EqualValues(t, "v3.7.3", spec.VersionOf("m2"))
}

// TestDecommissionNamesStrangers: decommission=zz was taken without a word, and whoever meant m2 waited.
func TestDecommissionNamesStrangers(t *testing.T) {
	address := "file://" + filepath.Join(t.TempDir(), "ring")
	require.NoError(t, create(t.Context(), address, store.Spec{Nodes: 3, Version: "v3.6.16", Security: "plain"}))
	s, err := store.Open(t.Context(), address)
	require.NoError(t, err)
	defer s.Close()
	_, err = store.Log[store.Machine]{Store: s, Prefix: auto.MachinesPrefix + "/m1"}.Append(t.Context(), 0, store.Machine{Name: "m1", Address: "10.0.0.1", Disk: "d1"})
	require.NoError(t, err)
	spec, err := respec(t.Context(), address, []string{"decommission=m1,zz"})
	require.NoError(t, err)
	require.Equal(t, "no machine zz is in the store, so that nothing is moved off it; there are: m1\n", strangers(t.Context(), address, spec))
	require.Contains(t, strangers(t.Context(), "file:///nosuch", spec), "not known")
}
