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

// TestWhoHasLeft: a list without a member is not enough, as a ring of one gives it with a
// quorum too.
func TestWhoHasLeft(t *testing.T) {
	members := func(ids ...uint64) (all []*etcdserverpb.Member) {
		for _, id := range ids {
			all = append(all, &etcdserverpb.Member{ID: id})
		}
		return all
	}
	bound := func(ids ...ring.ID) map[ring.ID]Binding {
		all := map[ring.ID]Binding{}
		for _, id := range ids {
			all[id] = Binding{Machine: "m" + id.String(), Disk: "d"}
		}
		return all
	}
	learner := bound(2, 3)
	learner[3] = Binding{Machine: "m3", Disk: "d", Learner: true}
	for name, c := range map[string]struct {
		view    View
		left    bool // member 3
		missing []ring.ID
	}{
		"removed by the automation, of two":     {View{Members: members(2), Bindings: bound(2, 3), Leaving: map[ring.ID]Leaving{3: {}}}, true, nil},
		"removed by hand, of three":             {View{Members: members(1, 2), Bindings: bound(1, 2, 3)}, true, []ring.ID{3}},
		"a ring of one, of three":               {View{Members: members(2), Bindings: bound(1, 2, 3)}, false, []ring.ID{1, 3}},
		"a ring of one, of two":                 {View{Members: members(2), Bindings: bound(2, 3)}, false, []ring.ID{3}},
		"a ring of one, that let another go":    {View{Members: members(2), Bindings: bound(1, 2, 3), Leaving: map[ring.ID]Leaving{1: {}}}, false, []ring.ID{3}},
		"a ring of one that has grown since":    {View{Members: members(2, 8, 9), Bindings: bound(1, 2, 3)}, false, []ring.ID{1, 3}},
		"a learner, removed by hand":            {View{Members: members(2), Bindings: learner}, true, nil},
		"left long ago, and its record is gone": {View{Members: members(1, 2, 4), Bindings: bound(1, 2, 4)}, true, nil},
		"nobody's record is there":              {View{Members: members(1, 2)}, false, nil},
	} {
		require.Equal(t, c.left, c.view.LetGo(3), name)
		require.ElementsMatch(t, c.missing, c.view.Missing(), name)
	}
}

// TestWhoseWordMakesARing: of those that are missing the last one that it takes, and no other.
func TestWhoseWordMakesARing(t *testing.T) {
	view := func(listed []uint64, bound ...ring.ID) View {
		v := View{Bindings: map[ring.ID]Binding{}}
		for _, id := range listed {
			v.Members = append(v.Members, &etcdserverpb.Member{ID: id})
		}
		for _, id := range bound {
			v.Bindings[id] = Binding{Machine: "m", Disk: "d"}
		}
		return v
	}
	require.True(t, view([]uint64{1}, 1, 2).accepts(2), "the only other")
	require.False(t, view([]uint64{1}, 1, 2, 3).accepts(2), "3 is missing still")
	require.True(t, view([]uint64{1, 4}, 1, 2, 3, 4).accepts(2), "two of three that are left are listed")
	require.False(t, view([]uint64{1, 2}, 1, 2, 3).accepts(3), "a majority is listed as it is")
	require.False(t, view([]uint64{1}).accepts(2), "nobody's record is there")
}

// TestAcceptedIsRead: nonsense in its place is nobody's word.
func TestAcceptedIsRead(t *testing.T) {
	for text, want := range map[string]uint64{`{"log":77}`: 77, "yes": 0} {
		var v View
		err := new(parsed).into(&v, acceptedKey, []byte(text), 1, 0)
		require.Equal(t, want == 0, err != nil, text)
		require.Equal(t, want, v.Accepted, text)
	}
}
