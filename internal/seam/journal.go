// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package seam

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/ringproof/ringproof"
)

// Recorder is what keeps a journal. A note is what is given back when an effect is done.
type Recorder interface {
	Reach(who Origin, effect string) (note int)
	Done(note int)
	Decided(who Origin, decision, said string, change bool)
}

// Origin is whose calls are counted together: those of a machine's agent, or on Kubernetes
// of whichever controller acts.
type Origin struct {
	Machine string `json:"machine,omitempty"`
	Scope   string `json:"scope,omitempty"` // [ringproof.ScopeController], and then no machine
}

// Journal records every effect and decision of a run, in the order in which the
// agents came to them: what a sweep may cut, stale or skip. Each is found again
// by its machine, name and number in a fault that is set when the journal begins
// and taken away when it ends: record it with [Probe] in that fault's place.
// Without one it is the whole run. A nil Journal records nothing.
//
// What the ring was at each is how many different changes had been decided by then, on all
// machines: cuts of one effect between the same two changes are alike.
type Journal struct {
	ringproof.Journal

	reached map[string]int
	gone    int    // effects that were forgotten; a note counts them
	acts    int    // different changes that were decided
	acted   string // the change decided last; one that is tried again is no other
	over    bool
}

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
func (j *Journal) next(kind string, who Origin, name string) int {
	if j.reached == nil {
		j.reached = map[string]int{}
	}
	key := kind + "\x00" + who.Machine + "\x00" + who.Scope + "\x00" + name
	j.reached[key]++
	return j.reached[key]
}

// Reach records that a machine's agent came to the effect, and returns where.
// An action that is no effect is not recorded.
func (j *Journal) Reach(who Origin, effect string) (note int) {
	if j == nil || j.over || effect == "" {
		return -1
	}
	j.Effects = append(j.Effects, ringproof.Effect{Machine: who.Machine, Scope: who.Scope, Name: effect, Nth: j.next("reached", who, effect), State: strconv.Itoa(j.acts)})
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

// Done records that it succeeded. One that was under way when the journal began
// anew is not in it.
func (j *Journal) Done(note int) {
	if j == nil || j.over || note < j.gone {
		return
	}
	e := &j.Effects[note-j.gone]
	e.Done = j.next("done", Origin{e.Machine, e.Scope}, e.Name)
}

// Decided records a decision; change reports whether it changes anything.
func (j *Journal) Decided(who Origin, decision, said string, change bool) {
	if j == nil || j.over {
		return
	}
	j.Decisions = append(j.Decisions, ringproof.Decision{Machine: who.Machine, Scope: who.Scope, What: decision, Nth: j.next("decided", who, decision), State: fmt.Sprint(j.acts, " ", said)})
	if change && said != j.acted {
		j.acts, j.acted = j.acts+1, said
	}
}

// Pages are a journal of agents that are processes: a file to which all of them append, a
// line for each thing. To write there takes no virtual time and wakes nobody, so a run that
// is recorded is the run that would have been.
type Pages struct {
	File  string
	notes int
}

// line is one of them.
type line struct {
	Origin
	Life     int    `json:"life"`           // pid of the process
	Note     int    `json:"note,omitempty"` // of an effect, from 1; each comes once, and once more when it is done
	Effect   string `json:"effect,omitempty"`
	Decision string `json:"decision,omitempty"`
	Said     string `json:"said,omitempty"`
	Change   bool   `json:"change,omitempty"`
}

// Reach writes that an agent came to an effect.
func (p *Pages) Reach(who Origin, effect string) (note int) {
	if effect == "" {
		return 0
	}
	p.notes++
	p.write(line{Origin: who, Note: p.notes, Effect: effect})
	return p.notes
}

// Done writes that it succeeded.
func (p *Pages) Done(note int) {
	if note > 0 {
		p.write(line{Note: note})
	}
}

// Decided writes a decision.
func (p *Pages) Decided(who Origin, decision, said string, change bool) {
	p.write(line{Origin: who, Decision: decision, Said: said, Change: change})
}

// write appends a line. One that can't be written is missed by whoever sweeps, who is told
// of what is there.
func (p *Pages) write(l line) {
	l.Life = os.Getpid()
	text, err := json.Marshal(l)
	if err != nil {
		return
	}
	f, err := os.OpenFile(p.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = f.Write(append(text, '\n'))
	f.Close()
}

// Read reads what processes have recorded in the file; without one it is empty.
func Read(file string) (*ringproof.Journal, error) {
	j := &Journal{}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &j.Journal, nil
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
			j.Decided(l.Origin, l.Decision, l.Said, l.Change)
		case l.Effect != "":
			notes[of] = j.Reach(l.Origin, l.Effect)
		default:
			j.Done(notes[of])
		}
	}
	return &j.Journal, lines.Err()
}
