// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// withProfile is a plan under the load of the profile for a while.
func withProfile(name string) ringproof.Plan {
	p := loaded(2, sleep("a"), sleep("b"))
	p.Workload.Profile = name
	return p
}

// TestTombstones: each compaction is at a deletion that every watcher has seen,
// and the stream opened there is owed the deletion and the put after it.
func TestTombstones(t *testing.T) {
	h := play(t, &toy{}, withProfile("tombstone-watch"))
	graves := map[int64]ringproof.Instant{}
	compacted := 0
	for _, o := range h.Operations {
		switch {
		case o.Request.Kind == ringproof.RequestDelete && o.Request.Key == Prefix+"tombstone":
			graves[o.Response.Revision] = o.Return
		case o.Request.Kind == ringproof.RequestCompact:
			compacted++
			require.Contains(t, graves, o.Request.Revision)
			for w := range watchers {
				require.True(t, sawBefore(h, 2+w, o.Request.Revision, o.Call), "watcher %d was overtaken at revision %d", w, o.Request.Revision)
			}
		}
	}
	require.Greater(t, compacted, 2)
	opened := 0
	for _, w := range h.Watches {
		if w.Prefix == Prefix+"tombstone" {
			opened++
			require.Contains(t, graves, w.Start)
			require.GreaterOrEqual(t, len(w.Events), 2)
			require.True(t, w.Events[0].Delete)
			require.True(t, w.Events[1].Create)
		}
	}
	require.Equal(t, compacted, opened)
}

func sawBefore(h ringproof.History, client int, revision int64, at ringproof.Instant) bool {
	for _, w := range h.Watches {
		for _, e := range w.Events {
			if w.Client == client && e.Revision >= revision && e.At <= at {
				return true
			}
		}
	}
	return false
}

// TestSettledStreams: a patient client has one stream on each machine of the
// ring, for the whole run, and so have the plain watchers.
func TestSettledStreams(t *testing.T) {
	h := play(t, &toy{}, withProfile("patient-watch"))
	on := map[string]int{}
	for _, w := range h.Watches {
		if w.Start == 1 && w.Closed.Sub(w.Opened) > rotation {
			on[w.Endpoint]++
		}
	}
	require.Equal(t, map[string]int{"m1": 1, "m2": 1, "m3": 2, "m4": 1}, on, "clients 2 and 3 watch from m3 and m4")
}

// TestFarAhead: nothing is owed to who watches from what is never reached.
func TestFarAhead(t *testing.T) {
	h := play(t, &toy{}, withProfile("future-watch"))
	n := 0
	for _, w := range h.Watches {
		if w.Start >= ahead {
			n++
			require.Empty(t, w.Events)
		}
	}
	require.Equal(t, 3, n)
}

// TestOverreach: on each member, a write beside a read of what is never reached.
func TestOverreach(t *testing.T) {
	h := play(t, &toy{}, withProfile("future-read"))
	on := map[string]int{}
	for _, o := range h.Operations {
		if len(o.Request.Then) != 2 || o.Request.Then[1].Revision == 0 {
			continue
		}
		on[o.Endpoint]++
		require.Equal(t, o.Request.Then[0].Key, o.Request.Then[1].Key)
		require.GreaterOrEqual(t, o.Request.Then[1].Revision, ahead)
	}
	require.Len(t, on, 3)
}

// TestLateArrivals come again and again, each from the ring's beginning.
func TestLateArrivals(t *testing.T) {
	h := play(t, &toy{}, withProfile("progress-watch"))
	n := 0
	for _, w := range h.Watches {
		if w.Client == 2+watchers+2 {
			n++
			require.Equal(t, int64(1), w.Start)
			require.LessOrEqual(t, w.Closed.Sub(w.Opened), shortWatch+time.Second)
		}
	}
	require.Greater(t, n, 3)
}

// TestOperators ask each member for its status, and for all the rest now and
// then.
func TestOperators(t *testing.T) {
	h := play(t, &toy{}, withProfile("operator"))
	asked := map[string]map[ringproof.RequestKind]int{}
	kinds := map[ringproof.RequestKind]bool{}
	for _, o := range h.Operations {
		if o.Request.Kind.Operates() {
			if asked[o.Endpoint] == nil {
				asked[o.Endpoint] = map[ringproof.RequestKind]int{}
			}
			asked[o.Endpoint][o.Request.Kind]++
			kinds[o.Request.Kind] = true
		}
	}
	require.Len(t, asked, 3, "each member")
	for machine, kinds := range asked {
		require.Greater(t, kinds[ringproof.RequestStatus], 3, machine)
	}
	require.GreaterOrEqual(t, len(kinds), 4)
}

// TestServers update what they have read, several keys at once, list by pages of one
// revision, and ask each member for what was just discarded.
func TestServers(t *testing.T) {
	h := play(t, &toy{}, withProfile("apiserver"))
	updates, pages, past := 0, 0, 0
	discarded := map[string]bool{}
	for _, o := range h.Operations {
		switch {
		case o.Request.General() && o.Request.Then[len(o.Request.Then)-1].Revision > 0:
			discarded[o.Endpoint] = true
		case o.Request.General() && len(o.Request.If) > 0:
			updates++
			require.Contains(t, []string{"mod", "lease"}, o.Request.If[0].Target)
			require.True(t, o.Request.Writes())
		case o.Request.General():
			past++
			require.Equal(t, int64(0), o.Request.Then[1].Revision)
			require.False(t, o.Request.Writes())
		case o.Request.Limit > 0:
			pages++
		}
	}
	require.Greater(t, updates, 3)
	require.Greater(t, pages, 3)
	require.Greater(t, past, 3)
	require.Len(t, discarded, 3, "each member")
}

// TestTenants put keys under leases in transactions, also under one that is over,
// and leave none behind.
func TestTenants(t *testing.T) {
	p := withProfile("apiserver")
	for _, name := range []string{"c", "d", "e", "f", "g", "h"} {
		p.Steps = append(p.Steps, sleep(name))
	}
	w := &toy{}
	h := play(t, w, p)
	under, refused, kinds := 0, 0, map[ringproof.RequestKind]int{}
	for _, o := range h.Operations {
		kinds[o.Request.Kind]++
		if o.Request.General() && o.Request.Then[0].Lease != 0 {
			under++
			require.Equal(t, "mod", o.Request.If[0].Target)
			if o.Refused {
				refused++
			}
		}
	}
	require.Greater(t, under, 5)
	require.Positive(t, refused, "a lease that is over")
	require.Greater(t, kinds[ringproof.RequestGrant], 2)
	require.Positive(t, kinds[ringproof.RequestKeepAlive])
	for id, lives := range w.leases {
		require.False(t, lives, "lease %d", id)
	}
}
