// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"

	"github.com/ringproof/ringproof"
)

// record is what keeps a journal. A note is what is given back when an effect is done.
type record interface {
	reach(who origin, effect string) (note int)
	done(note int)
	decided(who origin, decision, said string, change bool)
}

// origin is whose calls are counted together: those of a machine's agent, or on Kubernetes
// of whichever controller acts.
type origin struct {
	Machine string `json:"machine,omitempty"`
	Scope   string `json:"scope,omitempty"` // [ringproof.ScopeController], and then no machine
}

// Effect is one side effect that an agent came to.
type Effect struct {
	origin
	Name string `json:"name"` // one of the forms in package faults: "etcd put", "write disk.json"
	Nth  int    `json:"nth"`  // of the machine's effects of that name: what the phases before and refused count
	Done int    `json:"done"` // of those that were done: what after and reply-lost count; 0: it failed by itself
	Acts int    `json:"acts"` // how many different changes had been decided by then, on all machines
}

// Decision is one that an agent's brain came to.
type Decision struct {
	origin
	Name string `json:"name"` // DecidesNext or DecidesBoot
	Nth  int    `json:"nth"`  // of the machine's decisions of that name
	Said string `json:"said"`
	Acts int    `json:"acts"` // how many different changes had been decided by then, on all machines
}

// Journal is every effect and decision of a run, in the order in which the
// agents came to them: what a sweep may cut, stale or skip. Each is found again
// by its machine, name and number in a fault that is set when the journal begins
// and taken away when it ends: record it with [Probe] in that fault's place.
// Without one it is the whole run. A nil Journal records nothing.
type Journal struct {
	Effects   []Effect
	Decisions []Decision

	reached map[string]int
	gone    int // effects that were forgotten; a note counts them
	acts    int
	acted   string // the change decided last; one that is tried again is no other
	over    bool
}

// Probe is a fault that is set at all machines, never fires, and is taken away with the
// others.
func Probe() ringproof.Fault {
	return ringproof.Fault{Kind: ringproof.FaultAgentCrash, Effect: "etcd defragment", Phase: Before, Nth: math.MaxInt32}
}

// probes reports whether the setting is the probe.
func (s Setting) probes() bool { return s.Fault != nil && s.Fault.Nth == math.MaxInt32 }

// Begin forgets what was recorded, so that the numbers count from now on, as a
// fault that is set now counts.
func (j *Journal) Begin() {
	if j != nil {
		*j = Journal{gone: j.gone + len(j.Effects)}
	}
}

// End records nothing more: what comes now can't be hit.
func (j *Journal) End() {
	if j != nil {
		j.over = true
	}
}

// next numbers one more of a kind.
func (j *Journal) next(kind string, who origin, name string) int {
	if j.reached == nil {
		j.reached = map[string]int{}
	}
	key := kind + "\x00" + who.Machine + "\x00" + who.Scope + "\x00" + name
	j.reached[key]++
	return j.reached[key]
}

// reach records that a machine's agent came to the effect, and returns where.
// An action that is no effect is not recorded.
func (j *Journal) reach(who origin, effect string) (note int) {
	if j == nil || j.over || effect == "" {
		return -1
	}
	j.Effects = append(j.Effects, Effect{origin: who, Name: effect, Nth: j.next("reached", who, effect), Acts: j.acts})
	if changesCluster(effect) {
		j.acts, j.acted = j.acts+1, ""
	}
	return j.gone + len(j.Effects) - 1
}

// changesCluster reports whether the effect is a change of an object: what a controller does
// to those is told as no decision of its brain.
func changesCluster(effect string) bool {
	return strings.HasPrefix(effect, "kube ") && !strings.HasPrefix(effect, "kube status ")
}

// done records that it succeeded. One that was under way when the journal began
// anew is not in it.
func (j *Journal) done(note int) {
	if j == nil || j.over || note < j.gone {
		return
	}
	e := &j.Effects[note-j.gone]
	e.Done = j.next("done", e.origin, e.Name)
}

// decided records a decision; change tells whether it changes anything.
func (j *Journal) decided(who origin, decision, said string, change bool) {
	if j == nil || j.over {
		return
	}
	j.Decisions = append(j.Decisions, Decision{origin: who, Name: decision, Nth: j.next("decided", who, decision), Said: said, Acts: j.acts})
	if change && said != j.acted {
		j.acts, j.acted = j.acts+1, said
	}
}

// pages are a journal of agents that are processes: a file to which all of them append, a
// line for each thing. To write there takes no virtual time and wakes nobody, so a run that
// is recorded is the run that would have been.
type pages struct {
	file  string
	notes int
}

// line is one of them.
type line struct {
	origin
	Life     int    `json:"life"`           // pid of the process
	Note     int    `json:"note,omitempty"` // of an effect, from 1; each comes once, and once more when it is done
	Effect   string `json:"effect,omitempty"`
	Decision string `json:"decision,omitempty"`
	Said     string `json:"said,omitempty"`
	Change   bool   `json:"change,omitempty"`
}

func (p *pages) reach(who origin, effect string) (note int) {
	if effect == "" {
		return 0
	}
	p.notes++
	p.write(line{origin: who, Note: p.notes, Effect: effect})
	return p.notes
}

func (p *pages) done(note int) {
	if note > 0 {
		p.write(line{Note: note})
	}
}

func (p *pages) decided(who origin, decision, said string, change bool) {
	p.write(line{origin: who, Decision: decision, Said: said, Change: change})
}

// write appends a line. One that can't be written is missed by whoever sweeps, who is told
// of what is there.
func (p *pages) write(l line) {
	l.Life = os.Getpid()
	text, err := json.Marshal(l)
	if err != nil {
		return
	}
	f, err := os.OpenFile(p.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = f.Write(append(text, '\n'))
	f.Close()
}

// ReadJournal reads what processes have recorded in the file; without one it is empty.
func ReadJournal(file string) (*Journal, error) {
	j := &Journal{}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the journal of a run: %w", err)
	}
	defer f.Close()
	notes := map[[2]int]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("reading the journal of a run: %w: %.80q", err, lines.Text())
		}
		switch of := [2]int{l.Life, l.Note}; {
		case l.Decision != "":
			j.decided(l.origin, l.Decision, l.Said, l.Change)
		case l.Effect != "":
			notes[of] = j.reach(l.origin, l.Effect)
		default:
			j.done(notes[of])
		}
	}
	return j, lines.Err()
}
