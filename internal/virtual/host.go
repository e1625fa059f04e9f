// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/lockstep"
)

// host is one machine.
type host struct {
	lab    *lab
	name   string
	number byte
	inner  []byte                // the numbers of what lives on it at addresses of its own
	tags   func() map[int]string // of processes that lead, beside the commands that were started; may be nil

	mu       sync.Mutex
	on       bool
	bare     bool            // its volume isn't mounted
	blocked  []lockstep.Deed // what is cut off of others
	skew     time.Duration   // of its wall clock
	slow     time.Duration
	sluggish time.Duration // how much longer its disk takes to sync
	tasks    map[string]*task
	pids     map[int]string // the tags of the commands that were started on it
}

// task is a command that was started, kept until its tag is used again.
type task struct {
	over chan struct{}
	exit machines.Exit
}

var errOff = errors.New("it is off")

func (h *host) Addr() netip.Addr { return lockstep.Address(h.number) }

// numbers are those of the machine and of all that lives on it.
func (h *host) numbers() []byte { return append([]byte{h.number}, h.inner...) }

// DataDir is the volume as programs on the machine see it.
func (h *host) DataDir() string { return filepath.Join(h.lab.WorkDir, h.name, "data") }

// On reports whether the machine has power.
func (h *host) On() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.on
}

func (h *host) mark(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// PowerOff ends every process on the machine at once. Nobody who is connected to it hears of
// that.
func (h *host) PowerOff() (machines.Evidence, error) {
	all, err := h.Processes()
	if err != nil {
		return machines.Evidence{}, err
	}
	if err := h.lab.orders.Do(lockstep.Deed{Do: lockstep.DoOff, Machines: h.numbers()}); err != nil {
		return machines.Evidence{}, err
	}
	h.mark(func() { h.on = false })
	return machines.Evidence{What: "power loss of machine " + h.name, Detail: "dead: " + machines.Roll(all), Processes: all}, nil
}

// PowerOn gives the machine power. It starts no command.
func (h *host) PowerOn(context.Context) (machines.Evidence, error) {
	if h.On() {
		return machines.Evidence{}, fmt.Errorf("refused to power on machine %s: it is on", h.name)
	}
	if err := h.lab.orders.Do(lockstep.Deed{Do: lockstep.DoOn, Machines: h.numbers()}); err != nil {
		return machines.Evidence{}, err
	}
	h.mark(func() { h.on = true })
	return machines.Evidence{What: "power on", Detail: fmt.Sprintf("machine %s is at %v", h.name, h.Addr())}, nil
}

// Destroy takes the machine away for good, with its volume.
func (h *host) Destroy() (machines.Evidence, error) {
	e := machines.Evidence{Detail: "it was off"}
	if h.On() {
		var err error
		if e, err = h.PowerOff(); err != nil {
			return e, err
		}
	}
	e.What, e.Detail = "loss of machine "+h.name, e.Detail+"; its volume is gone"
	h.lab.mu.Lock()
	delete(h.lab.hosts, h.number)
	h.lab.mu.Unlock()
	return e, h.scrap()
}

// Start runs a program on the machine; Wait and Options.OnExit tell how it ended.
func (h *host) Start(_ context.Context, c machines.Command) error {
	if !h.On() {
		return fmt.Errorf("starting %s on machine %s: %w", c.Tag, h.name, errOff)
	}
	t := &task{over: make(chan struct{})}
	h.mu.Lock()
	if old := h.tasks[c.Tag]; old != nil && !old.ended() {
		h.mu.Unlock()
		return fmt.Errorf("refused to start %s on machine %s: it still runs; signal it, or choose another tag", c.Tag, h.name)
	}
	h.tasks[c.Tag] = t
	h.mu.Unlock()
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env = "/", append(slices.Clone(c.Env), lockstep.MachineEnv+"="+strconv.Itoa(int(h.number)))
	said, err := streams(cmd, c)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		h.mark(func() { delete(h.tasks, c.Tag) })
		return fmt.Errorf("starting %s on machine %s: %w", c.Tag, h.name, err)
	}
	h.mark(func() { h.pids[cmd.Process.Pid] = c.Tag })
	go h.attend(cmd.Process, t, c.Tag, said)
	return nil
}

// output is what is read of a command, line by line.
type output struct {
	pipes []io.Closer
	read  sync.WaitGroup
}

// streams has the output of a command read.
func streams(cmd *exec.Cmd, c machines.Command) (*output, error) {
	o := &output{}
	if c.Log != "" {
		file, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		cmd.Stdout, cmd.Stderr, o.pipes = file, file, []io.Closer{file}
		return o, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return o, err
	}
	complaint, err := cmd.StderrPipe()
	if err != nil {
		return o, err
	}
	o.pipes = []io.Closer{out, complaint}
	o.read.Go(func() { lines(out, c.Stdout) })
	o.read.Go(func() { lines(complaint, c.Stderr) })
	return o, nil
}

func lines(r io.Reader, each func(string)) {
	for b := bufio.NewReader(r); ; {
		line, err := b.ReadString('\n')
		if line != "" && each != nil {
			each(strings.TrimSuffix(line, "\n"))
		}
		if err != nil {
			return
		}
	}
}

// lull is how long an end waits for output that descendants may still hold open.
const lull = 200 * time.Millisecond

// end waits until all of it is read.
func (o *output) end() {
	read := make(chan struct{})
	go func() { o.read.Wait(); close(read) }()
	select {
	case <-read:
	case <-time.After(lull):
	}
	for _, p := range o.pipes {
		p.Close()
	}
}

// attend waits for the end of a command and tells of it.
func (h *host) attend(p *os.Process, t *task, tag string, said *output) {
	t.exit = machines.Exit{Machine: h.name, Tag: tag, Code: -1}
	if state, err := p.Wait(); err == nil {
		status := state.Sys().(syscall.WaitStatus)
		if t.exit.Code = status.ExitStatus(); status.Signaled() {
			t.exit.Signal = status.Signal()
		}
	}
	said.end()
	close(t.over)
	if h.lab.OnExit != nil {
		h.lab.OnExit(t.exit)
	}
}

func (t *task) ended() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// Wait waits for the end of the command last started under the tag.
func (h *host) Wait(ctx context.Context, tag string) (machines.Exit, error) {
	h.mu.Lock()
	t := h.tasks[tag]
	h.mu.Unlock()
	if t == nil {
		return machines.Exit{}, fmt.Errorf("refused to wait for %s on machine %s: it was never started", tag, h.name)
	}
	select {
	case <-t.over:
		return t.exit, nil
	case <-ctx.Done():
		return machines.Exit{}, ctx.Err()
	}
}

// Processes lists what runs on the machine, in the order of its start.
func (h *host) Processes() (all []machines.Process, err error) {
	if !h.On() {
		return nil, fmt.Errorf("machine %s: %w", h.name, errOff)
	}
	tags := map[int]string{}
	if h.tags != nil {
		tags = h.tags()
	}
	h.mu.Lock()
	maps.Copy(tags, h.pids)
	h.mu.Unlock()
	for _, n := range h.numbers() {
		pids, table := lockstep.Running(n)
		for _, pid := range pids {
			if p, err := describe(pid, filepath.Join(table, strconv.Itoa(pid)), tags); err == nil {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// describe reads what a machine's /proc has of a process. What a process with a tag
// started bears it too.
func describe(pid int, dir string, tags map[int]string) (p machines.Process, err error) {
	exe, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil {
		return p, err
	}
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return p, err
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return p, err
	}
	after := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	p = machines.Process{PID: pid, Exe: filepath.Base(exe), File: exe, Args: strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"), State: after[0]}
	parent, _ := strconv.Atoi(after[1])
	p.Tag, p.Leads = tags[pid], tags[pid] != ""
	if p.Tag == "" {
		p.Tag = tags[parent]
	}
	return p, nil
}

// Environ is what a process of the machine has in its environment.
func (h *host) Environ(p machines.Process) ([]string, error) {
	for _, n := range h.numbers() {
		_, table := lockstep.Running(n)
		block, err := os.ReadFile(filepath.Join(table, strconv.Itoa(p.PID), "environ"))
		if !os.IsNotExist(err) {
			return strings.Split(string(block), "\x00"), err
		}
	}
	return nil, fmt.Errorf("process %d of machine %s: %w", p.PID, h.name, os.ErrNotExist)
}

// gone are those of the processes that run no more.
func (h *host) gone(before []machines.Process) []machines.Process {
	now, _ := h.Processes()
	return slices.DeleteFunc(before, func(p machines.Process) bool {
		return slices.ContainsFunc(now, func(q machines.Process) bool { return q.PID == p.PID })
	})
}

// Signal signals the tagged command and what it started.
func (h *host) Signal(tag string, sig syscall.Signal) (machines.Evidence, error) {
	return h.SignalAny("tagged "+tag, sig, func(p machines.Process) bool { return p.Tag == tag })
}

// SignalExe signals every process of a program.
func (h *host) SignalExe(program string, sig syscall.Signal) (machines.Evidence, error) {
	return h.SignalAny("of program "+program, sig, func(p machines.Process) bool {
		return p.Exe == program || filepath.Base(p.Args[0]) == program
	})
}

// SignalAny signals every process that is hit, all at once.
func (h *host) SignalAny(which string, sig syscall.Signal, hit func(machines.Process) bool) (machines.Evidence, error) {
	all, err := h.Processes()
	if err != nil {
		return machines.Evidence{}, err
	}
	all = slices.DeleteFunc(all, func(p machines.Process) bool { return !hit(p) })
	if len(all) == 0 {
		return machines.Evidence{}, fmt.Errorf("signal %v did not land: no process %s runs on machine %s", sig, which, h.name)
	}
	d := lockstep.Deed{Do: lockstep.DoSignal, Machines: h.numbers(), Signal: sig}
	for _, p := range all {
		d.Pids = append(d.Pids, p.PID)
	}
	if err := h.lab.orders.Do(d); err != nil {
		return machines.Evidence{}, err
	}
	return machines.Evidence{What: fmt.Sprintf("signal %v on machine %s", sig, h.name), Detail: machines.Became(sig) + ": " + machines.Roll(all), Processes: all}, nil
}

// Freeze stops everything on the machine. Connections stay open, as with a hung program.
func (h *host) Freeze() (machines.Evidence, error) {
	e, err := h.SignalAny("at all", syscall.SIGSTOP, func(machines.Process) bool { return true })
	e.What = "freeze of machine " + h.name
	return e, err
}

// Thaw lets everything on the machine go on.
func (h *host) Thaw() (machines.Evidence, error) {
	return h.SignalAny("at all", syscall.SIGCONT, func(machines.Process) bool { return true })
}
