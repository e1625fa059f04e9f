// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// drawn are the requests of each client, in their order. What a transaction
// compares with is no draw but what the client saw.
func drawn(h ringproof.History) map[int][]ringproof.Request {
	all := map[int][]ringproof.Request{}
	for _, o := range h.Operations {
		o.Request.Compare = 0
		all[o.Client] = append(all[o.Client], o.Request)
	}
	return all
}

// alikeAsFar wants two clients to have made the same requests, as far as both went.
func alikeAsFar(t *testing.T, a, b []ringproof.Request) {
	t.Helper()
	n := min(len(a), len(b))
	require.Greater(t, n, 30)
	require.Equal(t, a[:n], b[:n])
}

func TestDrawsAreKeyed(t *testing.T) {
	first := drawn(play(t, &toy{}, loaded(3)))
	again := drawn(play(t, &toy{}, loaded(3)))
	fewer := drawn(play(t, &toy{}, loaded(2)))
	hit := drawn(play(t, &toy{}, loaded(3, faulty("kill", ringproof.Fault{Kind: ringproof.FaultKill, Scope: "process", Target: "m1"}))))
	other := loaded(3)
	other.Seed++
	differs := drawn(play(t, &toy{}, other))
	for id := range 2 {
		alikeAsFar(t, first[id], again[id])
		alikeAsFar(t, first[id], fewer[id])
		alikeAsFar(t, first[id], hit[id])
		assert.NotEqual(t, first[id][:30], differs[id][:30])
	}
	for id := range 2 {
		for i := range 30 {
			first[id][i].Value = "" // which names the client
		}
	}
	assert.NotEqual(t, first[0][:30], first[1][:30])
	alikeAsFar(t, first[2], again[2])
}

// TestValuesAreUnique: a value that is read names the write that made it.
func TestValuesAreUnique(t *testing.T) {
	h := play(t, &toy{}, loaded(3, sleep("moment"), sleep("moment")))
	wrote := map[string]bool{}
	kinds := map[ringproof.RequestKind]int{}
	for _, o := range h.Operations {
		kinds[o.Request.Kind]++
		if o.Request.Value != "" {
			require.False(t, wrote[o.Request.Value], "%s was written twice", o.Request.Value)
			wrote[o.Request.Value] = true
		}
		require.True(t, o.Request.Kind == ringproof.RequestRange || strings.HasPrefix(o.Request.Key, Prefix))
	}
	for _, kind := range []ringproof.RequestKind{ringproof.RequestGet, ringproof.RequestRange, ringproof.RequestPut, ringproof.RequestDelete, ringproof.RequestTxn} {
		assert.Positive(t, kinds[kind], kind)
	}
	succeeded := slices.ContainsFunc(h.Operations, func(o ringproof.Operation) bool {
		return o.Response != nil && o.Response.Succeeded && o.Request.Compare > 0
	})
	assert.True(t, succeeded, "clients compare with what they saw")
	assert.True(t, slices.IsSortedFunc(h.Operations, func(a, b ringproof.Operation) int { return int(a.Call - b.Call) }))
}

// TestThePlainProfile has no transactions.
func TestThePlainProfile(t *testing.T) {
	p := loaded(3)
	p.Workload.Profile = "kv"
	for _, o := range play(t, &toy{}, p).Operations {
		require.NotEqual(t, ringproof.RequestTxn, o.Request.Kind)
	}
}

func TestTheRate(t *testing.T) {
	h := play(t, &toy{}, loaded(3, sleep("moment"), sleep("moment"), sleep("moment"))) // 30 a second, for at least 7 s
	begun, ended := h.Operations[0].Call, only(t, h, ringproof.EventConverged, "").At
	assert.InDelta(t, 30, float64(len(h.Operations))/(ended.Sub(begun)+quiet).Seconds(), 3)
}

func TestNoLoad(t *testing.T) {
	h := play(t, &toy{}, ring())
	assert.Empty(t, h.Operations)
	assert.Empty(t, h.Watches)
}

// TestClientsMoveOn: who isn't answered asks another, and the history tells
// what is certain.
func TestClientsMoveOn(t *testing.T) {
	for scope, c := range map[ringproof.FaultKind]struct {
		refused bool
		lasts   time.Duration
	}{
		ringproof.FaultKill:  {true, roundTrip},
		ringproof.FaultPause: {false, patience},
	} {
		t.Run(string(scope), func(t *testing.T) {
			cut := faulty("cut", ringproof.Fault{Kind: scope, Scope: "machine", Target: "m2", For: seconds(5)})
			h := play(t, &toy{}, loaded(3, cut, sleep("moment"), sleep("moment")))
			from, to := only(t, h, ringproof.EventFaultLanded, "cut").At, only(t, h, ringproof.EventFaultHealed, "cut").At
			var before, failed ringproof.Operation
			answered := 0
			for _, o := range h.Operations {
				if o.Client != 1 {
					continue
				}
				switch {
				case o.Return <= from:
					before = o
				case failed.ID == 0 && o.Call > from:
					failed = o
				case o.Call > failed.Return && o.Return < to:
					assert.NotEqual(t, "m2", o.Endpoint)
					if o.Acked() {
						answered++
					}
				}
			}
			assert.Equal(t, "m2", before.Endpoint, "client 1 prefers the second machine")
			assert.True(t, before.Acked())
			require.Equal(t, "m2", failed.Endpoint)
			assert.False(t, failed.Acked())
			assert.NotEmpty(t, failed.Err)
			assert.Equal(t, c.refused, failed.Refused, "%s", failed.Err)
			assert.Equal(t, c.lasts, failed.Return.Sub(failed.Call), "one attempt")
			assert.Greater(t, answered, 20)
		})
	}
}

// TestWatchersSeeEverything: one stream after another, on one machine after
// another, each from where the last one ended.
func TestWatchersSeeEverything(t *testing.T) {
	w := &toy{}
	kill := faulty("kill", ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine", Target: "m4", For: seconds(1)})
	h := play(t, w, loaded(3, sleep("moment"), kill, sleep("moment"), sleep("moment"), sleep("moment"), sleep("moment"), sleep("moment"), sleep("moment")))
	streams := map[int][]ringproof.Watch{}
	for _, s := range h.Watches {
		streams[s.Client] = append(streams[s.Client], s)
	}
	require.ElementsMatch(t, []int{3, 4, 6}, slices.Collect(maps.Keys(streams)), "two watchers, and the last one")
	for id := range 2 {
		last := int64(1) // of an empty ring
		broke := false
		for i, s := range streams[3+id] {
			require.Equal(t, fmt.Sprintf("m%d", (3+id+i)%5+1), s.Endpoint)
			if i == 0 {
				require.EqualValues(t, 1, s.Start)
			} else {
				require.Equal(t, last+1, s.Start, "stream %d", i)
			}
			for _, e := range s.Events {
				require.Equal(t, last+1, e.Revision, "none is left out, none seen twice")
				last = e.Revision
			}
			broke = broke || s.Err == "the stream broke"
			require.LessOrEqual(t, s.Closed.Sub(s.Opened), rotation)
		}
		assert.Greater(t, len(streams[3+id]), 3)
		assert.Equal(t, id == 0, broke, "the first watcher begins on the machine that was killed")
	}
}

// TestTheHistoryEndsWithTheLastValue: the watches together hold every change.
func TestTheHistoryEndsWithTheLastValue(t *testing.T) {
	h := play(t, &toy{}, loaded(3))
	last := h.Operations[len(h.Operations)-1]
	require.Equal(t, Prefix+"end", last.Request.Key)
	require.True(t, last.Acked())
	i := slices.IndexFunc(h.Watches, func(s ringproof.Watch) bool { return s.Client == 6 })
	require.GreaterOrEqual(t, i, 0, "the last watcher's stream was not recorded")
	var revisions []int64
	for _, e := range h.Watches[i].Events {
		revisions = append(revisions, e.Revision)
	}
	var all []int64
	for r := int64(2); r <= last.Response.Revision; r++ {
		all = append(all, r)
	}
	assert.Equal(t, all, revisions)
}

// TestEveryRequestIsRecorded: also the one that the end of the load cut off.
func TestEveryRequestIsRecorded(t *testing.T) {
	w := &toy{}
	pause := faulty("pause", ringproof.Fault{Kind: ringproof.FaultPause, Scope: "machine", Target: "majority"})
	w.healing = func(ringproof.Step, []string) error { return fmt.Errorf("stuck") }
	p := loaded(3, pause)
	p.Mode = ringproof.ModeDisaster
	h := play(t, w, p)
	numbers := map[int]bool{}
	for _, o := range h.Operations {
		numbers[o.ID] = true
	}
	for id := 1; id <= len(numbers); id++ {
		require.True(t, numbers[id], "request %d was made and isn't in the history", id)
	}
}

func TestCompactedWatch(t *testing.T) {
	w := &toy{}
	w.asked = func(ringproof.Op) error {
		w.compact = w.revision - 5
		return nil
	}
	// The last watcher begins at the first revision, which is gone by then.
	h := play(t, w, loaded(3, sleep("moment"), scale("compact", 3)))
	i := slices.IndexFunc(h.Watches, func(s ringproof.Watch) bool { return s.Client == 6 })
	require.GreaterOrEqual(t, i, 0)
	refused := h.Watches[i]
	assert.Equal(t, w.compact, refused.Compact)
	assert.Contains(t, refused.Err, "was compacted")
	assert.Empty(t, refused.Events)
	j := i + 1 + slices.IndexFunc(h.Watches[i+1:], func(s ringproof.Watch) bool { return s.Client == 6 })
	require.Greater(t, j, i)
	assert.Equal(t, w.compact, h.Watches[j].Start, "it goes on at the oldest that there is")
	assert.NotEqual(t, refused.Endpoint, h.Watches[j].Endpoint)
	assert.Zero(t, h.Watches[j].Compact)
	assert.NotEmpty(t, h.Watches[j].Events)
}
