// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/sched"
)

const (
	beat   = sched.Beat
	tick   = 10 * time.Millisecond // between two proofs that this process still runs
	jitter = tick / 2              // by which a timer is late on any host
)

// pace notes how long the host keeps the run waiting. A ring that is broken waits for
// something else than a processor, so a busy host excuses no outage. What the kernel's
// account leaves out, such as a machine that was stopped or a container's quota that was used
// up, is seen by a tick that comes late.
type pace struct {
	waits sched.Waits

	mu      sync.Mutex
	starved ringproof.Starved
	far     time.Duration // that processes waited in this beat which only a lab sees
}

// keep beats until over is closed. The processes to look at may change.
func (p *pace) keep(over <-chan struct{}, now func() ringproof.Instant, processes func() []string) {
	p.waits.Lost(processes()) // what was before isn't counted
	var late time.Duration
	last := now()
	for woke := last; ; {
		select {
		case <-over:
			return
		case <-time.After(tick):
		}
		at := now()
		if by := at.Sub(woke) - tick; by > jitter {
			late += by
		}
		if woke = at; at.Sub(last) < beat {
			continue
		}
		lost := max(p.waits.Lost(processes()), late, p.heard())
		woke = now() // looking took time, and none of it was kept from the run
		p.note(ringproof.Span{From: last, To: woke}, lost)
		last, late = woke, 0
	}
}

// note keeps a stretch in which the run was starved.
func (p *pace) note(s ringproof.Span, lost time.Duration) {
	if lost = min(lost, s.Length()); lost <= sched.Little {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starved = append(p.starved, ringproof.Starvation{Span: s, Lost: ringproof.Duration(lost)})
}

// hear takes what a lab tells of its own processes.
func (p *pace) hear(lost time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.far = max(p.far, lost)
}

// heard is what was told since it was asked last: of all that waited at the same time, the
// longest.
func (p *pace) heard() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost := p.far
	p.far = 0
	return lost
}

// pressures are where the kernel tells how long somebody waited for what.
var pressures = map[string]string{"cpu": "/proc/pressure/cpu", "io": "/proc/pressure/io", "memory": "/proc/pressure/memory"}

// pressed reads how long somebody on the host has waited since it booted, by what for.
// A kernel without these figures gives none.
func pressed() ringproof.Pressure {
	all := ringproof.Pressure{}
	for resource, file := range pressures { // order: into a map
		text, err := os.ReadFile(file)
		if waited, ok := someWaited(string(text)); err == nil && ok {
			all[resource] = ringproof.Duration(waited)
		}
	}
	return all
}

// someWaited reads the first line of a pressure file: for how long some process waited.
func someWaited(text string) (time.Duration, bool) {
	var microseconds uint64
	_, err := fmt.Sscanf(text, "some avg10=%s avg60=%s avg300=%s total=%d", new(string), new(string), new(string), &microseconds)
	return time.Duration(microseconds) * time.Microsecond, err == nil
}

// since is what was waited from before to now.
func since(before, now ringproof.Pressure) ringproof.Pressure {
	all := ringproof.Pressure{}
	for resource, waited := range now { // order: into a map
		if from, known := before[resource]; known {
			all[resource] = waited - from
		}
	}
	return all
}

func (p *pace) all() ringproof.Starved {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.starved)
}

func (p *pace) within(s ringproof.Span) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starved.Within(s)
}

var _ ringproof.Pressed = (*World)(nil)

// Starved is how much of the span the host kept the run waiting.
func (w *World) Starved(s ringproof.Span) time.Duration { return w.pace.within(s) }

// processes are those whose waiting slows the run: this one, in which clients and
// observer live, and the etcds and agents as they were last seen, if this host sees them
// under the same numbers.
func (w *World) processes() []string {
	all := []string{"self"}
	if _, apart := w.lab.(Apart); apart {
		return all
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		for _, pid := range []int{n.etcd, n.agentPID} {
			if pid != 0 && !n.lost {
				all = append(all, fmt.Sprint(pid))
			}
		}
	}
	return all
}
