// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// calm is a world in which all is well: every answer is the same, a value that is
// asked for is one higher each time, and time passes by asking.
type calm struct {
	ringproof.World
	asked    int64
	compact  int64 // revisions before it were discarded
	recorder ringproof.Recorder
}

type heardEvents []ringproof.Event

func (h *heardEvents) Record(e ringproof.Event) { *h = append(*h, e) }

func (w *calm) Start(_ context.Context, _ ringproof.Plan, r ringproof.Recorder) error {
	w.recorder = r
	return nil
}

func (w *calm) Now() ringproof.Instant {
	return ringproof.Instant(w.asked) * ringproof.Instant(time.Second)
}

func (w *calm) Client(context.Context, int) (ringproof.Client, error) {
	return calmClient{world: w}, nil
}

func (w *calm) Do(_ context.Context, s ringproof.Step, targets []string) (string, error) {
	switch {
	case s.Fault != nil && s.Fault.Kind == ringproof.FaultKill:
		w.recorder.Record(ringproof.Event{Kind: ringproof.EventProcessExited, Machine: targets[0], Text: "etcd, pid 1"})
	case s.Op != nil && s.Op.Refused:
		return "", ringproof.ErrRefused
	}
	return "done", nil
}

func (w *calm) Evidence(context.Context) (ringproof.Evidence, error) {
	e := ringproof.Evidence{Hashes: []ringproof.Hash{{Hash: 7}, {Hash: 7}}, Backups: []ringproof.Backup{{Revision: 8}}}
	e.Final.Members = []ringproof.MemberView{{Peers: []ringproof.MemberID{1, 2}}, {Peers: []ringproof.MemberID{1, 2}}}
	return e, nil
}

type calmClient struct {
	ringproof.Client
	world *calm
}

func (c calmClient) Endpoint() string { return "m1" }
func (c calmClient) Close() error     { return nil }

func (c calmClient) Do(_ context.Context, r ringproof.Request) (ringproof.Response, error) {
	c.world.asked++
	a := ringproof.Response{ClusterID: 9, Member: 1, Term: 3, Revision: c.world.asked, Deleted: 1}
	switch r.Kind {
	case ringproof.RequestCompact:
		c.world.compact = r.Revision
	case ringproof.RequestGet:
		if r.Revision > 0 && r.Revision < c.world.compact {
			return ringproof.Response{}, ringproof.ErrRefused
		}
		a.KVs = []ringproof.KV{{Key: r.Key, Value: fmt.Sprint(c.world.asked)}}
	case ringproof.RequestGrant:
		a.TTL = r.TTL
	case ringproof.RequestSnapshot:
		a.Upkeep = &ringproof.UpkeepAnswer{Whole: true}
	}
	return a, nil
}

func (c calmClient) Watch(_ context.Context, _ string, _ int64, see func(ringproof.WatchEvent)) error {
	for r := range int64(40) {
		see(ringproof.WatchEvent{Revision: r})
	}
	return nil
}

// transcript is all that somebody sees who asks and looks for a while.
func transcript(t *testing.T, w ringproof.World) (lines []string, told []ringproof.Event) {
	var events heardEvents
	require.NoError(t, w.Start(t.Context(), ringproof.Plan{}, &events))
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	c, err := w.Client(t.Context(), 0)
	require.NoError(t, err)
	for range 60 {
		for _, kind := range []ringproof.RequestKind{ringproof.RequestPut, ringproof.RequestGet, ringproof.RequestSnapshot} {
			a, err := c.Do(t.Context(), ringproof.Request{Kind: kind, Key: "k"})
			say("%s: %v %v %v", kind, a, a.Upkeep, err)
		}
		if len(lines) == 30 {
			w.(interface{ remove() }).remove()
		}
	}
	granted, err := c.Do(t.Context(), ringproof.Request{Kind: ringproof.RequestGrant, TTL: 5})
	say("grant: %v %v", granted, err)
	for _, r := range []ringproof.Request{{Kind: ringproof.RequestCompact, Revision: 9}, {Kind: ringproof.RequestGet, Key: "k", Revision: 8}} {
		a, err := c.Do(t.Context(), r)
		say("%s: %v %v", r.Kind, a, err)
	}
	require.NoError(t, c.Watch(t.Context(), "", 0, func(e ringproof.WatchEvent) { say("watch %d", e.Revision) }))
	for _, s := range []ringproof.Step{{Fault: &ringproof.Fault{Kind: ringproof.FaultPause}}, {Op: &ringproof.Op{Kind: ringproof.OpScale, To: 4, Refused: true}}} {
		said, err := w.Do(t.Context(), s, []string{"m1"})
		say("do: %s %v", said, err)
	}
	e, err := w.Evidence(t.Context())
	say("evidence: %v %v", e, err)
	return lines, events
}

// remove has a member leave, as the subject tells it.
func (w *calm) remove() {
	w.recorder.Record(ringproof.Event{At: w.Now(), Kind: ringproof.EventActionDone, Action: "remove", Member: 5})
}

func (w *beneath) remove() { w.World.(*calm).remove() }

// TestFlawsShowOnce: whoever looks at a world with a flaw sees one thing that is
// not so in the world itself, and the flaw says that it was seen.
func TestFlawsShowOnce(t *testing.T) {
	right, told := transcript(t, &calm{})
	require.Len(t, told, 1, "the member that leaves")
	for _, m := range Mutants() {
		if m.flaw == nil {
			continue
		}
		w := Beneath(ringproof.Plan{Subject: Reference + "+" + m.Name}, &calm{})
		lines, told := transcript(t, w)
		reached := 0
		for _, e := range told {
			if e.Kind == ringproof.EventMutantReached {
				assert.Equal(t, m.Name, e.Text)
				reached++
			}
		}
		assert.Equal(t, 1, reached, m.Name)
		if m.Name != panicsOnRequest.Name && m.Name != forgottenValue.Name && m.Name != beginsAndRefuses.Name { // those show in events, and in the ring
			assert.NotEqual(t, right, lines, m.Name)
		}
	}
}

func TestNothingIsPutAroundAWorldWithoutAFlaw(t *testing.T) {
	w := &calm{}
	assert.Same(t, w, Beneath(ringproof.Plan{Subject: "reference"}, w))
	assert.Same(t, w, Beneath(ringproof.Plan{Subject: "reference+voter-first"}, w))
}
