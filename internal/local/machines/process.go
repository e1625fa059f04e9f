// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The environment of what runs on a machine: descendants inherit it, so they can be told apart even when
// the process that started them is gone.
const (
	envTag     = "RINGPROOF_TAG"
	envMachine = "RINGPROOF_MACHINE"
	envRun     = "RINGPROOF_RUN"
)

// patience is how long the kernel may take to do what a signal asked. On a quiet host that is nothing; on
// a busy one whoever was hit must get a processor to die on.
const patience = 30 * time.Second

// hertz is the kernel's USER_HZ, 100 on every architecture that Go knows.
const hertz = 100

var bootTime = sync.OnceValue(func() time.Time {
	stat, _ := os.ReadFile("/proc/stat")
	_, after, _ := bytes.Cut(stat, []byte("\nbtime "))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	s, _ := strconv.ParseInt(string(line), 10, 64)
	return time.Unix(s, 0)
})

// vital is what /proc/<pid>/stat says.
type vital struct {
	pid, parent int
	session     int
	state       string
	ticks       uint64
	threads     int
}

// dead is more than a zombie: that is the first thread's state alone, and while others end, the process
// still listens and writes.
func (v vital) dead() bool { return (v.state == "Z" || v.state == "X") && v.threads <= 1 }

func readVital(pid int) (vital, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return vital{}, err
	}
	// The name stands in brackets and may hold anything, brackets too.
	f := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(f) < 20 {
		return vital{}, fmt.Errorf("reading /proc/%d/stat: %d fields after the name", pid, len(f))
	}
	parent, _ := strconv.Atoi(f[1])
	ticks, _ := strconv.ParseUint(f[19], 10, 64)
	session, _ := strconv.Atoi(f[3])
	threads, _ := strconv.Atoi(f[17])
	return vital{pid: pid, parent: parent, session: session, state: f[0], ticks: ticks, threads: threads}, nil
}

// vitals lists every process that this one can see.
func vitals() (all []vital) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if v, err := readVital(pid); err == nil {
				all = append(all, v)
			}
		}
	}
	return all
}

// below lists the live descendants of a process, parents before children. Below a machine's host that is
// all of the machine: orphans come back to the host.
func below(root int) []Process {
	children := map[int][]vital{}
	for _, v := range vitals() {
		children[v.parent] = append(children[v.parent], v)
	}
	var found []Process
	var walk func(pid int, tag string)
	walk = func(pid int, tag string) {
		for _, v := range children[pid] {
			p := describe(v, tag)
			if !v.dead() {
				found = append(found, p)
			}
			walk(v.pid, p.Tag)
		}
	}
	walk(root, "")
	return found
}

// describe fills in the rest; a process that cleared its environment has the tag of its parent.
func describe(v vital, tag string) Process {
	dir := fmt.Sprintf("/proc/%d/", v.pid)
	exe, _ := os.Readlink(dir + "exe")
	line, _ := os.ReadFile(dir + "cmdline")
	if own, ok := environ(v.pid, envTag); ok {
		tag = own
	}
	if exe == "" {
		exe = "?" // it is ending
	}
	return Process{
		PID: v.pid, Tag: tag, State: v.state, Leads: v.session == v.pid, ticks: v.ticks,
		Exe:     filepath.Base(strings.TrimSuffix(exe, " (deleted)")),
		Args:    strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"),
		Started: bootTime().Add(time.Duration(v.ticks) * time.Second / hertz),
	}
}

func environ(pid int, name string) (string, bool) {
	block, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for _, pair := range strings.Split(string(block), "\x00") {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// life names a process for good: a pid alone is used again.
type life struct {
	pid   int
	ticks uint64
}

func (v vital) life() life   { return life{v.pid, v.ticks} }
func (p Process) life() life { return life{p.PID, p.ticks} }

func (l life) String() string { return fmt.Sprintf("%d.%d", l.pid, l.ticks) }

// state is the letter of exactly this process now, or X: its pid may belong to another by now.
func (p Process) state() string {
	v, err := readVital(p.PID)
	if err != nil || v.life() != p.life() || v.dead() {
		return "X"
	}
	return v.state
}

func (p Process) dead() bool    { return p.state() == "X" }
func (p Process) stopped() bool { return strings.ContainsAny(p.state(), "Tt") }

// kill signals exactly this process. A pidfd first, the look at the start time second: so a reused pid
// is never hit.
func (p Process) kill(sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening process %v: %w", p, err)
	}
	defer unix.Close(fd)
	if p.dead() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("sending %v to %v: %w", sig, p, err)
	}
	return nil
}

func killAll(ps []Process, sig syscall.Signal) error {
	var failed []error
	for _, p := range ps {
		failed = append(failed, p.kill(sig))
	}
	return errors.Join(failed...)
}

// within waits for a condition of the kernel's; there is nothing to be woken by.
func within(d time.Duration, met func() bool) bool {
	for end := time.Now().Add(d); ; time.Sleep(2 * time.Millisecond) {
		if met() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

func allOf(ps []Process, is func(Process) bool) bool {
	return !slices.ContainsFunc(ps, func(p Process) bool { return !is(p) })
}

// stopBelow stops all that runs below a process, with what it forks meanwhile.
func stopBelow(root int) ([]Process, error) {
	var all []Process
	still := within(patience, func() bool {
		all = below(root)
		if allOf(all, Process.stopped) {
			return true
		}
		_ = killAll(all, syscall.SIGSTOP)
		return false
	})
	if !still {
		return all, fmt.Errorf("processes still run %v after SIGSTOP: %s", patience, Roll(all))
	}
	return all, nil
}

// raze kills all that runs below a process. Stopped first, a supervisor cannot replace what dies.
func raze(root int) {
	_, _ = stopBelow(root)
	within(patience, func() bool {
		left := below(root)
		_ = killAll(left, syscall.SIGKILL)
		return len(left) == 0
	})
}
