// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// Faults is what the world's file of one machine says. The world replaces the
// file by a rename; the agent reads it at every call. No file is no faults.
type Faults struct {
	Step        string `json:"step,omitempty"` // that set the outage or the staleness
	StoreOutage bool   `json:"storeOutage,omitempty"`
	StoreStale  bool   `json:"storeStale,omitempty"` // reads answer as of the moment when this was first seen
	Crash       *Crash `json:"crash,omitempty"`
}

// Crash ends an agent at a named action, or loses the action's reply.
type Crash struct {
	Step   string `json:"step"`
	Action string `json:"action"`
	Phase  string `json:"phase"` // Before, After, ReplyLost
	Nth    int    `json:"nth"`   // of all machines together; 0 means 1
	Fired  string `json:"fired"` // the marker; created exclusively, so that it fires once over all machines
}

// The phases of a crash.
const (
	Before    = "before"     // the agent dies, and nothing was asked
	After     = "after"      // it is done, and the agent dies
	ReplyLost = "reply-lost" // it is done, and the agent is told that time ran out
)

// EventFaultLanded is the line that tells of a fault that did harm.
const EventFaultLanded host.Event = "fault-landed"

// harm does at one machine's seams what the file says.
type harm struct {
	file string
	kill func()
	host host.Host // whose log is written

	told  map[string]bool // steps whose outage was logged
	past  map[string]bool
	since string // the step whose past that is
	bad   string // what was wrong with the file
}

func newHarm(file string, kill func()) *harm {
	return &harm{file: file, kill: kill, told: map[string]bool{}}
}

func (x *harm) layer() layer {
	return layer{
		host: func(h host.Host) host.Host {
			x.host = h
			return machine{Host: h, process: harmedProcess{h.Process(), x}, disk: harmedDisk{h.Disk(), x}}
		},
		store: func(_ host.Host, s store.Store) store.Store { return harmedStore{s, x} },
		brain: func(_ host.Host, b auto.Brain) auto.Brain {
			do := b.Do
			b.Do = func(ctx context.Context, r *admin.Ring, a ring.Action) error {
				return x.around(string(a.Kind), func() error { return do(ctx, r, a) })
			}
			return b
		},
	}
}

// faults reads the file. What can't be read is told, and harms nobody: the
// fault is missed, and the world sees that.
func (x *harm) faults() Faults {
	text, err := os.ReadFile(x.file)
	if errors.Is(err, fs.ErrNotExist) {
		return Faults{}
	}
	var f Faults
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err == nil {
		return f
	}
	if x.bad != err.Error() {
		x.bad = err.Error()
		x.host.Log(host.Line{Event: host.EventTrouble, Text: "the file of faults can't be read: " + x.bad})
	}
	return Faults{}
}

func (x *harm) landed(step, action, text string) {
	x.host.Log(host.Line{Event: EventFaultLanded, Step: step, Action: action, Text: text})
}

// errKilled is never seen by an agent: it is dead.
var errKilled = errors.New("killed by a fault")

// around does the action and the crash that was ordered for it.
func (x *harm) around(action string, do func() error) error {
	c := x.faults().Crash
	if c == nil || c.Action != action {
		return do()
	}
	switch c.Phase {
	case Before:
		if !c.fires() {
			return do()
		}
		return x.crash(c, "the agent dies before it")
	case After, ReplyLost:
		// One that failed by itself has no reply to lose.
		if err := do(); err != nil || !c.fires() {
			return err
		}
		if c.Phase == After {
			return x.crash(c, "done, and the agent dies")
		}
		x.landed(c.Step, action, "done, and its reply is lost")
		return fmt.Errorf("%s: its reply is lost: %w", action, context.DeadlineExceeded)
	}
	return do()
}

func (x *harm) crash(c *Crash, text string) error {
	x.landed(c.Step, c.Action, text)
	x.kill()
	return errKilled
}

// fires numbers this action among all machines' and tells whether its turn it
// is. Each number is a file that only one can create; the last is the marker.
func (c Crash) fires() bool {
	for i := 1; i < c.Nth; i++ {
		if err := claim(fmt.Sprintf("%s.%d", c.Fired, i)); !errors.Is(err, fs.ErrExist) {
			return false
		}
	}
	return claim(c.Fired) == nil
}

func claim(marker string) error {
	f, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

type harmedProcess struct {
	host.Process
	harm *harm
}

func (p harmedProcess) Start(ctx context.Context, args []string) error {
	return p.harm.around("launch", func() error { return p.Process.Start(ctx, args) })
}

type harmedDisk struct {
	host.Disk
	harm *harm
}

func (d harmedDisk) Remove(name string) error {
	if name != launcher.DataDir {
		return d.Disk.Remove(name)
	}
	return d.harm.around("clear", func() error { return d.Disk.Remove(name) })
}
