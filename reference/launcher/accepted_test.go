// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// TestThePersonsWordIsOnTheDisk: m1 is alone in a ring of one, and somebody has said so of each
// of the others. All lose their power: nobody answers then, and m1 has the only log.
func TestThePersonsWordIsOnTheDisk(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Look)
		noted   uint64
		spoiled ring.ID
	}{
		"by the ring of the member here":           {func(*Look) {}, 76, 0},
		"by a ring that another member answers of": {func(l *Look) { l.View.Answered = 2 }, 0, 1},
		"by a ring that doesn't list the member":   {func(l *Look) { l.View.Members = nil }, 0, 1},
		"by none":                                  {func(l *Look) { l.View.Accepted = 0 }, 0, 1},
	} {
		h := host.NewReal("m1", t.TempDir(), t.TempDir(), io.Discard)
		h.Plain = true
		d, _, err := OpenDisk(h, "m1", Disk{})
		require.NoError(t, err)
		l := &Launcher{Config: Config{Machine: "m1"}, host: h, log: &host.Recorder{Host: h}, disk: d}
		require.NoError(t, l.noteSpoiled(1))
		look := Look{View: admin.View{Answered: 1, Accepted: 76, Members: []*etcdserverpb.Member{{ID: 1}},
			Bindings: map[ring.ID]admin.Binding{1: {Machine: "m1", Disk: d.ID}}}}
		c.change(&look)
		l.accept(look)
		is, _, err := OpenDisk(h, "m1", Disk{})
		require.NoError(t, err)
		require.Equal(t, c.noted, is.Accepted, name)
		require.Equal(t, c.spoiled, is.Spoiled, name)
		require.Equal(t, is.Accepted, l.disk.Accepted, name)
	}
}
