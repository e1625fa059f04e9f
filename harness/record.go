// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"cmp"
	"slices"
	"sync"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/pile"
)

// record collects the history while it happens. No lock is held across a call
// of the world.
type record struct {
	now  func() ringproof.Instant
	told func(ringproof.Event)

	mu           sync.Mutex
	closed       bool   // what comes now is told, and no part of the history, but that a mutant was reached
	landed       string // the evidence of the fault that was done since
	events       []ringproof.Event
	operations   pile.Of[ringproof.Operation]
	watches      []ringproof.Watch
	observations []ringproof.Observation
	last         ringproof.Observation
}

var _ ringproof.Recorder = (*record)(nil)

// Record stamps and keeps an event.
func (r *record) Record(e ringproof.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Seq = len(r.events) + 1
	if e.At == 0 {
		e.At = r.now()
	}
	switch {
	case !r.closed || e.Kind == ringproof.EventMutantReached:
		r.events = append(r.events, e)
	case e.Kind == ringproof.EventFaultLanded:
		r.landed = cmp.Or(e.Text, string(e.Fault))
	}
	if r.told != nil {
		r.told(e)
	}
}

// lateFault is the evidence of the fault that was done since the history ended; "": none was.
func (r *record) lateFault() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.landed
}

// close keeps what happens from now on out of the history.
func (r *record) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// since returns the events from index from on, and the next index.
func (r *record) since(from int) ([]ringproof.Event, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events[min(from, len(r.events)):]), len(r.events)
}

// count tells how many of the events from index from on are such.
func (r *record) count(from int, such func(*ringproof.Event) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := min(from, len(r.events)); i < len(r.events); i++ {
		if such(&r.events[i]) {
			n++
		}
	}
	return n
}

func (r *record) mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

func (r *record) operation(o ringproof.Operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operations.Add(o)
}

func (r *record) watch(w ringproof.Watch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watches = append(r.watches, w)
}

// observe keeps an observation. One that shows nothing new but progress is
// kept twice a second: a history is read by people too.
func (r *record) observe(o ringproof.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.observations); n == 0 || !alike(r.last, o) || o.At.Sub(r.observations[n-1].At) >= thin {
		r.observations = append(r.observations, o)
	}
	r.last = o
}

func (r *record) observation() ringproof.Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// lead is the machine whose process of the subject said last that it leads the automation;
// "": none has.
func (r *record) lead() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Backward(r.events) {
		if e.Kind == ringproof.EventLeads {
			return cmp.Or(e.By, e.Machine)
		}
	}
	return ""
}

// hit are the machines that the step has hit, by name.
func (r *record) hit(step string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	machines := scene{events: r.events}.hit(step)
	slices.SortFunc(machines, faults.CompareMachines)
	return slices.Compact(machines)
}

// looks are the observations that are kept.
func (r *record) looks() []ringproof.Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.observations)
}

// unmet is what is seen now in place of what the assert wants.
func (r *record) unmet(a ringproof.Assert) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return scene{r.last, r.observations, r.events}.unmet(a)
}

// alike reports whether two observations differ in nothing but progress.
func alike(a, b ringproof.Observation) bool {
	if a.Fresh != b.Fresh || len(a.Members) != len(b.Members) || !slices.Equal(a.Machines, b.Machines) {
		return false
	}
	for i, m := range a.Members {
		n := b.Members[i]
		if m.ID != n.ID || m.Name != n.Name || m.Learner != n.Learner || m.Serving != n.Serving || m.Leader != n.Leader ||
			m.Term != n.Term || m.Version != n.Version || !slices.Equal(m.Peers, n.Peers) || !slices.Equal(m.PeerURLs, n.PeerURLs) || !slices.Equal(m.Alarms, n.Alarms) {
			return false
		}
	}
	return true
}
