// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// TestRelease: until it is a member's turn its etcd is started with what it ran before,
// whatever is asked for; a machine with a release of its own has that.
func TestRelease(t *testing.T) {
	l := &Launcher{Config: Config{Machine: "m1"}}
	l.Known.Spec = store.Spec{Version: "v3.5.35"}
	assert.EqualValues(t, "v3.5.35", l.release(), "nothing else was ever asked for")

	l.Known.Spec.From, l.Known.Spec.Version = "v3.5.35", "v3.6.16"
	assert.EqualValues(t, "v3.5.35", l.release(), "it is not its turn")
	l.disk.Release = "v3.5.31"
	assert.EqualValues(t, "v3.5.31", l.release(), "what the disk says")
	l.disk.Release = "v3.6.16"
	assert.EqualValues(t, "v3.6.16", l.release(), "its turn came")

	l.Known.Spec.SetVersion("m1", "v3.6.11")
	assert.EqualValues(t, "v3.6.11", l.release(), "its own")
	l.Known.Spec.SetVersion("m1", "")
	assert.EqualValues(t, "v3.6.16", l.release(), "as the others again")
}

// TestAReleaseThatWasTried: a machine had the next minor for itself, the others came to it,
// and its own was taken away. Started again as before, its etcd was told by the ring, which is
// of the newer minor, that this is an invalid downgrade.
func TestAReleaseThatWasTried(t *testing.T) {
	l := &Launcher{Config: Config{Machine: "m1"}}
	for _, c := range []struct {
		from, asked, pinned, tried, want ring.Version
		why                              string
	}{
		{"v3.5.35", "v3.6.16", "v3.5.35", "v3.6.16", "v3.6.16", "all run it"},
		{"v3.5.35", "v3.6.16", "", "v3.6.16", "v3.6.16", "and nothing was noted before"},
		{"v3.5.35", "v3.6.16", "v3.5.35", "v3.6.11", "v3.6.11", "until its turn"},
		{"", "v3.5.35", "v3.5.35", "v3.6.16", "v3.5.35", "nobody else came to it"},
		{"v3.6.16", "v3.7.3", "v3.7.3", "v3.6.16", "v3.7.3", "its turn has come since"},
		{"v3.5.35", "v3.6.16", "v3.6.16", "v3.6.11", "v3.6.16", "an older one was tried"},
	} {
		l.Known.Spec = store.Spec{From: c.from, Version: c.asked}
		l.disk = Disk{Release: c.pinned, Tried: c.tried}
		assert.Equal(t, c.want, l.release(), c.why)
	}
}

// TestPeers: until it is a member's turn its etcd listens as it did when the ring was
// bootstrapped, whatever is asked for. What its record says of release and listeners comes to the
// disk together: one that joins starts with both.
func TestPeers(t *testing.T) {
	l := &Launcher{Config: Config{Machine: "m1", Address: "m1", Binaries: map[ring.Version]string{"v3.6.16": "etcd"}}}
	l.Known.Spec = store.Spec{Version: "v3.6.16", Security: ring.TLS, Peers: ring.Plain}
	l.disk = Disk{ID: "d1", Release: "v3.5.35"}
	require.NoError(t, l.Known.Spec.AskPeers(ring.TLS))
	assert.Equal(t, ring.Plain, l.peers(), "it is not its turn")

	record := admin.Binding{Machine: "m1", Disk: "d1"}
	view := admin.View{Members: []*etcdserverpb.Member{{ID: 1}}, Bindings: map[ring.ID]admin.Binding{1: record}}
	id, d, _ := l.due(view)
	assert.Zero(t, id, "its record says nothing")
	assert.Equal(t, l.disk, d)

	record.Peers, record.Release = ring.Mixed, "v3.6.16"
	view.Bindings[1] = record
	id, d, _ = l.due(view)
	assert.EqualValues(t, 1, id)
	assert.Equal(t, ring.Mixed, d.Peers)
	assert.EqualValues(t, "v3.6.16", d.Release)

	l.disk = d
	id, _, _ = l.due(view)
	assert.Zero(t, id, "it runs so")
	assert.Equal(t, ring.Mixed, l.peers())

	assert.Equal(t, ring.Mixed, listening([]string{"etcd", "--listen-peer-urls=http://0.0.0.0:2380,https://0.0.0.0:2381"}))
	assert.Empty(t, listening(nil), "none runs")
}

// TestWhoIsNeededIsNotRestarted: what a lead saw as it told a member to restart may be over.
func TestWhoIsNeededIsNotRestarted(t *testing.T) {
	voters := func(serving ...bool) (o ring.Observed) {
		for i, s := range serving {
			o.Members = append(o.Members, ring.Member{ID: ring.ID(i + 1), Serving: s})
		}
		return o
	}
	l := &Launcher{}
	for _, c := range []struct {
		asked int
		seen  ring.Observed
		want  string
	}{
		{3, voters(true, true, true), ""},
		{3, voters(false, true, true), ""}, // the member here itself
		{3, voters(true, true, false), "voter 3 does not answer"},
		{3, voters(true, true), "of 3 voters 2 are there, of which no quorum is left without it"},
		{3, voters(true), "of 3 voters 1 are there, of which no quorum is left without it"},
		{5, voters(true, true, true, true), ""},
		{1, voters(true), ""},
		{1, voters(true, true), ""}, // it shrinks
		{3, ring.Observed{Members: []ring.Member{{ID: 1, Learner: true}, {ID: 2, Serving: true}, {ID: 3, Serving: true}}}, ""}, // it doesn't vote
	} {
		l.Known.Spec.Nodes = c.asked
		assert.Equal(t, c.want, l.needed(c.seen, 1), "%d asked for, %d there", c.asked, len(c.seen.Members))
	}
}

// TestRecordOfADisk: another disk's record says nothing of this one, nor that of a member
// that has left.
func TestRecordOfADisk(t *testing.T) {
	view := admin.View{Members: []*etcdserverpb.Member{{ID: 1}, {ID: 2}}, Bindings: map[ring.ID]admin.Binding{
		1: {Machine: "m1", Disk: "d1", Release: "v3.6.16"}, 2: {Machine: "m1", Disk: "other"}, 3: {Machine: "m1", Disk: "d3"}}}
	id, b, found := recordOf(view, "m1", "d1")
	assert.True(t, found)
	assert.EqualValues(t, 1, id)
	assert.EqualValues(t, "v3.6.16", b.Release)
	_, _, found = recordOf(view, "m1", "d3")
	assert.False(t, found, "its member has left")
	_, _, found = recordOf(view, "m2", "d1")
	assert.False(t, found, "it is another machine's")
}

// TestNothingIsStoppedThatCantBeNoted: on a full disk each member whose turn came was ended
// every five seconds, as nobody could note what it is to run; and its own stops were counted
// as starts that came to nothing, until a person was called.
func TestNothingIsStoppedThatCantBeNoted(t *testing.T) {
	l, h := serving(t, []string{"etcd", "--listen-peer-urls=https://0.0.0.0:2380"})
	l.Ring, l.Binaries = &admin.Ring{Host: h}, map[ring.Version]string{"v3.5.35": "old", "v3.6.16": "new"}
	look := Look{running: true, View: admin.View{Members: []*etcdserverpb.Member{{ID: 7, Name: "m1"}},
		Bindings: map[ring.ID]admin.Binding{7: {Machine: "m1", Disk: "d1", Release: "v3.6.16"}}}}
	l.starts.begun(h.Monotonic())

	h.full = syscall.ENOSPC
	_, err := l.follow(t.Context(), look)
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.Zero(t, h.stops, "its etcd is ended for nothing")

	h.full, l.unnoted = nil, time.Time{}
	h.fillsUp = syscall.ENOSPC
	_, err = l.follow(t.Context(), look)
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, 1, h.stops, "there was room until then")
	running, err := l.lookAfter()
	require.NoError(t, err)
	assert.False(t, running)
	assert.Zero(t, l.starts.vain, "nobody but the launcher has ended it")
	require.NoError(t, l.openDisk())
	assert.Empty(t, l.disk.Release, "it is started with what ran")

	h.full, h.fillsUp, h.args, l.unnoted = nil, nil, []string{"etcd"}, time.Time{}
	running, err = l.follow(t.Context(), look)
	require.NoError(t, err)
	assert.False(t, running)
	assert.EqualValues(t, "v3.6.16", l.disk.Release)
	on, _ := Named(h)
	assert.EqualValues(t, "v3.6.16", on.Release)
}
