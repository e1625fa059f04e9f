// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package admin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/ringproof/ringproof/reference/ring"
)

// cloned is a ring with a member on m2, whose name the presence has.
func cloned(shown Presence) View {
	return View{
		Members:   []*etcdserverpb.Member{{ID: 2, Name: "m2", PeerURLs: []string{"http://m2:2380"}}},
		Bindings:  map[ring.ID]Binding{2: {Machine: "m2", Disk: "d2"}},
		Presences: map[string]Presence{"m2": shown},
		Leases:    map[string]int64{"m2": 7},
	}
}

// TestAMachineAtHomeHasNoNamesake: of two that have one name the second does
// nothing, unless it is what its member's record says.
func TestAMachineAtHomeHasNoNamesake(t *testing.T) {
	home := Presence{Machine: "m2", PeerURL: "http://m2:2380", Disk: "d2"}
	empty := Presence{Machine: "m2", PeerURL: "http://clone:2380", Disk: "new"}
	copied := Presence{Machine: "m2", PeerURL: "http://clone:2380", Disk: "d2"}
	renewed := Presence{Machine: "m2", PeerURL: "http://m2:2380", Disk: "new"}
	for _, c := range []struct {
		name         string
		shown, comes Presence
		yields       bool
	}{
		{"a clone beside the machine", home, empty, true},
		{"a clone with a copy of the disk", home, copied, true},
		{"the machine comes back beside its clone", empty, home, false},
		{"the machine comes back beside a copy of itself", copied, home, false},
		{"it comes back with another disk", empty, renewed, true},
		{"its earlier life with another disk", home, renewed, true},
		{"its earlier life", home, home, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, yields := cloned(c.shown).Namesake(c.comes, 8)
			require.Equal(t, c.yields, yields)
		})
	}
	_, yields := cloned(empty).Namesake(empty, 7)
	require.False(t, yields, "it is its own")
}

// TestAbsentBesideItsClone: a machine of which only a clone is heard is away for as
// long, and no longer once it is heard of itself.
func TestAbsentBesideItsClone(t *testing.T) {
	o := Observer{}
	seen := func(p Presence) time.Duration {
		view := cloned(p)
		return o.machines(view, view.RingMembers(), time.Second)[0].Absent
	}
	home := Presence{Machine: "m2", PeerURL: "http://m2:2380", Disk: "d2"}
	clone := Presence{Machine: "m2", PeerURL: "http://clone:2380", Disk: "new"}
	require.Zero(t, seen(home))
	require.Zero(t, seen(clone))
	require.Equal(t, time.Second, seen(clone))
	require.Equal(t, 2*time.Second, seen(clone))
	require.Zero(t, seen(home))
	require.Zero(t, seen(Presence{Machine: "m2", PeerURL: "http://m2:2380", Disk: "new"}), "it is there, with another disk")
}
