// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package machines

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Options are the choices of a lab. The zero value is good.
type Options struct {
	// WorkDir is where machines see their volumes: <WorkDir>/<machine>/data. Empty means a place that
	// vanishes with the sandbox.
	WorkDir string
	// VolumeBytes is the size of each volume; 512 MiB if zero.
	VolumeBytes int64
	// Domain is what the machines' names are in: on each of them every NAME.Domain is resolved, by an
	// /etc/hosts of the lab's that is mounted over the host's. The run itself resolves none of them.
	Domain string
	// OnExit is told of every started command that ended, power loss included. Calls come from
	// different goroutines.
	OnExit func(Exit)
}

// Command is a program to start on a machine.
type Command struct {
	// Tag names the command on its machine, and its descendants with it. It is free again once the
	// command has ended.
	Tag  string
	Args []string
	// Env is the whole environment; nil means that of the run.
	Env []string
	// Dir is the working directory, / if empty.
	Dir string
	// Stdout and Stderr get each line, without its newline. With no Stderr, Stdout gets both.
	Stdout, Stderr func(line string)
	// Log is a file to append both streams to, instead of Stdout and Stderr.
	Log string
}

// Exit is how a command ended.
type Exit struct {
	Machine, Tag string
	// Code is -1 when a signal ended it.
	Code   int
	Signal syscall.Signal
}

func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("%s/%s: signal %d, %v", e.Machine, e.Tag, int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("%s/%s: exit code %d", e.Machine, e.Tag, e.Code)
}

// Process is a live process on a machine. Its PID is as the run sees it, not as the machine does.
type Process struct {
	PID     int
	Tag     string
	Exe     string
	File    string // of the program, as the run sees it; "": that isn't known
	Args    []string
	Started time.Time
	// State is the kernel's letter: R, S, D, T (stopped), …
	State string
	// Leads says that it leads its session, as a command does that Start started.
	Leads bool

	// ticks is the start time in clock ticks since boot: with the pid it names a process for good.
	ticks uint64
}

func (p Process) String() string { return fmt.Sprintf("%s[%d@%d]", p.Exe, p.PID, p.ticks) }

// Became says what a signal makes of a process.
func Became(sig syscall.Signal) string {
	switch sig {
	case syscall.SIGKILL:
		return "dead"
	case Stop:
		return "stopped"
	case Continue:
		return "running"
	}
	return "sent"
}

// Empty removes all that a directory holds.
func Empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// Evidence says that a fault, or its healing, really landed, and how that is known.
type Evidence struct {
	What, Detail string
	// Processes are those that were hit.
	Processes []Process
}

func (e Evidence) String() string { return e.What + ": " + e.Detail }

// Capability is one thing that Doctor tried on this host.
type Capability struct {
	Name   string
	OK     bool
	Detail string
	// Fix says what to do when it is not OK.
	Fix string
	// Untold says that it is not known, as the trial was not over in time.
	Untold bool
}

func (c Capability) String() string {
	if c.OK {
		return fmt.Sprintf("%s: yes: %s", c.Name, c.Detail)
	}
	if c.Untold {
		return fmt.Sprintf("%s: not known: %s; %s", c.Name, c.Detail, c.Fix)
	}
	return fmt.Sprintf("%s: no: %s; %s", c.Name, c.Detail, c.Fix)
}

// Roll lists processes in one line.
func Roll(ps []Process) string {
	if len(ps) == 0 {
		return "no process"
	}
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = p.String()
	}
	return strings.Join(names, " ")
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), errors.ErrUnsupported)
}

// Traffic is a part of what goes between two machines; the zero value is all of it.
type Traffic struct {
	Port uint16 // the TCP connections to this port, whoever of the two dialled
	But  bool   // not these, but all others
}

func (t Traffic) String() string {
	switch {
	case t.Port == 0:
		return ""
	case t.But:
		return fmt.Sprintf("all but port %d ", t.Port)
	}
	return fmt.Sprintf("port %d ", t.Port)
}
