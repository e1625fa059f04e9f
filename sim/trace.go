// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"fmt"

	"github.com/ringproof/ringproof"
)

// kind is what sort of event it is, in the trace.
type kind uint8

const (
	kindTask kind = iota
	kindSleep
	kindTimeout
	kindTimer
	kindPacket
	kindRequest
	kindReply
	kindSync
	kindMachine
)

var kindNames = [...]string{"task", "sleep", "timeout", "timer", "packet", "request", "reply", "sync", "machine"}

func (k kind) String() string { return kindNames[k] }

// markEvery is how many events lie between two marks of a trace.
const markEvery = 1024

// Trace is a rolling hash of all that happened, so that two runs can be
// compared by one number, and by their marks where they part.
type Trace struct {
	Hash   uint64   `json:"hash"`
	Events int      `json:"events"`
	Marks  []uint64 `json:"marks,omitempty"` // the hash after each 1,024 events

	// OnLine, when set, is given each event from From up to To as one line.
	OnLine   func(string) `json:"-"`
	From, To int          `json:"-"`
}

func newTrace() Trace { return Trace{Hash: 0xcbf29ce484222325} }

// mix adds a payload to the hash (FNV-1a over words, and a shift, as its low
// bits alone would forget the high ones).
func (t *Trace) mix(x uint64) {
	h := (t.Hash ^ x) * 0x100000001b3
	t.Hash = h ^ h>>29
}

func (t *Trace) event(now ringproof.Instant, k kind, who uint64) {
	if t.Events > 0 && t.Events%markEvery == 0 {
		t.Marks = append(t.Marks, t.Hash) // only now: what the last event did is noted after its beginning
	}
	t.mix(uint64(now)<<4 ^ uint64(k) ^ who<<48)
	t.Events++
	if t.OnLine != nil && t.Events >= t.From && t.Events < t.To {
		t.OnLine(fmt.Sprintf("%d %v %s process %d %016x", t.Events, now, k, who, t.Hash))
	}
}

// note tells the trace more of the event under way.
func (t *Trace) note(text string) {
	for i := range len(text) {
		t.mix(uint64(text[i]))
	}
	if t.OnLine != nil && t.Events >= t.From && t.Events < t.To {
		t.OnLine("      " + text)
	}
}

// aside explains the event under way to whoever watches. It is no part of the
// hash, and made only if somebody does.
func (t *Trace) aside(text func() string) {
	if t.OnLine != nil && t.Events >= t.From && t.Events < t.To {
		t.OnLine("      " + text())
	}
}

// Parted returns the window of events in which two traces part: the first is
// in it. ok is false when they are the same.
func (t *Trace) Parted(o *Trace) (from, to int, ok bool) {
	if t.Hash == o.Hash && t.Events == o.Events {
		return 0, 0, false
	}
	for i := range min(len(t.Marks), len(o.Marks)) {
		if t.Marks[i] != o.Marks[i] {
			return i*markEvery + 1, (i+1)*markEvery + 1, true
		}
	}
	n := min(len(t.Marks), len(o.Marks))
	return n*markEvery + 1, max(t.Events, o.Events) + 1, true
}
