// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
