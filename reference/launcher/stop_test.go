// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// mute is a host whose log nobody reads.
type mute struct{ host.Host }

func (mute) Log(host.Line) {}

// TestWhoMayStillLeadHasTime: an etcd that may lead is given the time to hand over by itself,
// one whose end nobody waits for is not, as others may wait for its restart.
func TestWhoMayStillLeadHasTime(t *testing.T) {
	voter := func(name string, leads, serves bool) ring.Member {
		return ring.Member{ID: ring.ID(name[1]), Machine: name, Leader: leads, Serving: serves}
	}
	for name, test := range map[string]struct {
		voters  []ring.Member
		refused error
		moved   bool // it is asked to hand over
		want    time.Duration
	}{
		"another leads":           {voters: []ring.Member{voter("m1", false, true), voter("m2", true, true)}, want: stopGrace},
		"it has handed over":      {voters: []ring.Member{voter("m1", true, true), voter("m2", false, true)}, moved: true, want: stopGrace},
		"nobody would hear of it": {voters: []ring.Member{voter("m1", true, true), voter("m2", false, true)}, moved: true, refused: errors.New("no member says that it leads"), want: leaderGrace},
		"nobody serves to lead":   {voters: []ring.Member{voter("m1", true, true), voter("m2", false, false)}, want: stopGrace},
		"alone":                   {voters: []ring.Member{voter("m1", true, true)}, want: stopGrace},
		"who leads isn't known":   {voters: []ring.Member{voter("m1", false, true), voter("m2", false, true)}, want: leaderGrace},
	} {
		t.Run(name, func(t *testing.T) {
			moved := false
			l := &Launcher{log: &host.Recorder{Host: mute{}}, Config: Config{Machine: "m1",
				Do: func(_ context.Context, _ *admin.Ring, a ring.Action, _ admin.Fence) error {
					moved = a.Kind == ring.MoveLeader && a.Machine == "m2"
					return test.refused
				}}}
			assert.Equal(t, test.want, l.handOver(t.Context(), ring.Observed{Members: test.voters}))
			assert.Equal(t, test.moved, moved)
		})
	}
}

// TestWhoIsBehindIsHandedNothing: the first of the others had just come back, and was thousands
// of entries behind. etcd refuses writes until he has them, or an election timeout is over.
func TestWhoIsBehindIsHandedNothing(t *testing.T) {
	var to string
	l := &Launcher{log: &host.Recorder{Host: mute{}}, Config: Config{Machine: "m1",
		Do: func(_ context.Context, _ *admin.Ring, a ring.Action, _ admin.Fence) error {
			to = a.Machine
			return nil
		}}}
	m1 := ring.Member{ID: 1, Machine: "m1", Leader: true, Serving: true}
	m2 := ring.Member{ID: 2, Machine: "m2", Serving: true, Lag: 5000}
	m3 := ring.Member{ID: 3, Machine: "m3", Serving: true}
	l.handOver(t.Context(), ring.Observed{Members: []ring.Member{m1, m2, m3}})
	assert.Equal(t, "m3", to)
	l.handOver(t.Context(), ring.Observed{Members: []ring.Member{m1, m2}})
	assert.Equal(t, "m2", to, "nobody else can")
}
