// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Machine is one simulated host. Its methods may be called from any goroutine; faults of one machine run
// one after another.
type Machine struct {
	lab  *Lab
	name string
	addr netip.Addr

	// whole is held through every method that changes the machine as a whole.
	whole sync.Mutex
	// dropped counts packets of rules that are gone.
	dropped uint64
	// swaps counts the volumes, so that each has its own directory.
	swaps int

	mu     sync.Mutex
	blocks []block
	lossy  int // of 100 packets from and to others, how many are lost
	host   *tether
	volume string
	bare   bool // the volume isn't mounted
	tasks  map[string]*task
}

// task is a started command, kept until its tag is used again.
type task struct {
	id      uint64
	tag     string
	drained sync.WaitGroup
	done    chan struct{}
	exit    Exit
}

// lull is how long an exit waits for output that descendants may still hold open.
const lull = 200 * time.Millisecond

func newMachine(l *Lab, name string, n int) *Machine {
	return &Machine{lab: l, name: name, addr: l.address(n), tasks: map[string]*task{}}
}

func (m *Machine) Name() string     { return m.name }
func (m *Machine) Addr() netip.Addr { return m.addr }

// DataDir is the volume as programs on the machine see it.
func (m *Machine) DataDir() string { return filepath.Join(m.lab.opts.WorkDir, m.name, "data") }

// DataRoot is the volume as the run sees it, with the machine off too. It changes with SwapVolume.
func (m *Machine) DataRoot() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.volume
}

func (m *Machine) powered() (*tether, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.host == nil {
		return nil, fmt.Errorf("machine %s: %w", m.name, errOff)
	}
	return m.host, nil
}

// On reports whether the machine has power.
func (m *Machine) On() bool {
	_, err := m.powered()
	return err == nil
}

// PowerOn boots the machine with the volume, the address and the blocks it had. It starts no command.
func (m *Machine) PowerOn(ctx context.Context) (Evidence, error) {
	m.whole.Lock()
	defer m.whole.Unlock()
	if m.On() {
		return Evidence{}, fmt.Errorf("refused to power on machine %s: it is on", m.name)
	}
	alone := m.lab.limits == nil
	t, err := fasten(append(os.Environ(), m.marks("")...), alone, m.ended)
	if err != nil {
		return Evidence{}, err
	}
	m.mu.Lock()
	m.host = t
	m.mu.Unlock()
	go m.mourn(t)
	if err := m.boot(ctx, t); err != nil {
		_ = m.cut(t)
		return Evidence{}, fmt.Errorf("booting machine %s: %w", m.name, err)
	}
	return Evidence{What: "power on", Detail: fmt.Sprintf("machine %s answers at %v, host pid %d", m.name, m.addr, t.pid())}, nil
}

func (m *Machine) boot(ctx context.Context, t *tether) error {
	q := request{ID: t.number(), Do: doSettle, Name: m.name, Dir: m.DataDir()}
	if m.lab.limits != nil {
		m.lab.trace.process(t.pid())
		_, err := t.call(ctx, q)
		return err
	}
	q.Alone, q.Shared, q.Bare, q.Named = true, m.lab.shared, m.unmounted(), m.lab.opts.Domain != ""
	shared, err := detached(m.lab.shared)
	if err != nil {
		return err
	}
	defer shared.Close()
	mount, err := detached(m.DataRoot())
	if err != nil {
		return err
	}
	defer mount.Close()
	if _, err := t.call(ctx, q, mount, shared); err != nil {
		return err
	}
	// Blocks first: not one packet may pass between the cable and the rules.
	if err := lay(t.pid(), m.inForce()); err != nil {
		return err
	}
	if err := m.leak(t.pid(), 0); err != nil {
		return err
	}
	return m.lab.cable(m, t.pid())
}

// marks is what everything on the machine has in its environment.
func (m *Machine) marks(tag string) []string {
	marks := []string{envMachine + "=" + m.name}
	if m.lab.trace != nil {
		marks = append(marks, envRun+"="+m.lab.trace.id())
	}
	if tag != "" {
		marks = append(marks, envTag+"="+tag)
	}
	return marks
}

// Start runs a program on the machine and returns once it runs; Wait and Options.OnExit tell how it
// ended. Its name is looked up in the run's PATH.
func (m *Machine) Start(ctx context.Context, c Command) error {
	t, err := m.powered()
	if err != nil {
		return err
	}
	q, err := m.order(t, c)
	if err != nil {
		return fmt.Errorf("starting %s on machine %s: %w", c.Tag, m.name, err)
	}
	k, err := m.claim(c.Tag, q.ID)
	if err != nil {
		return err
	}
	files, err := k.streams(c)
	defer closeAll(files)
	if err == nil {
		var r reply
		if r, err = t.call(ctx, q, files...); err == nil {
			m.trail(r.PID)
			return nil
		}
	}
	m.forget(k)
	return fmt.Errorf("starting %s on machine %s: %w", c.Tag, m.name, err)
}

func (m *Machine) order(t *tether, c Command) (request, error) {
	if c.Tag == "" || len(c.Args) == 0 {
		return request{}, errors.New("refused: a command needs a tag and arguments")
	}
	if c.Log != "" && (c.Stdout != nil || c.Stderr != nil) {
		return request{}, errors.New("refused: output goes to Log or to Stdout and Stderr, not to both")
	}
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return request{}, err
	}
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	q := request{ID: t.number(), Do: doStart, Dir: "/", Args: slices.Concat([]string{path}, c.Args[1:])}
	if c.Dir != "" {
		q.Dir = c.Dir
	}
	// As in os/exec, the last of two values counts.
	q.Env = (&exec.Cmd{Env: slices.Concat(env, m.marks(c.Tag))}).Environ()
	return q, nil
}

// claim notes the command before it is started: its end may be heard of before its start.
func (m *Machine) claim(tag string, id uint64) (*task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.tasks[tag]; old != nil && !old.over() {
		return nil, fmt.Errorf("refused to start %s on machine %s: it still runs; signal it, or choose another tag", tag, m.name)
	}
	k := &task{id: id, tag: tag, done: make(chan struct{})}
	m.tasks[tag] = k
	return k, nil
}

func (m *Machine) forget(k *task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tasks[k.tag] == k {
		delete(m.tasks, k.tag)
	}
}

// trail leaves the process where Clean finds it.
func (m *Machine) trail(pid int) {
	if m.lab.trace != nil {
		m.lab.trace.process(pid)
	}
}

func (k *task) over() bool {
	select {
	case <-k.done:
		return true
	default:
		return false
	}
}

// streams opens what the command gets as stdin, stdout and stderr.
func (k *task) streams(c Command) (files []*os.File, err error) {
	in, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	files = []*os.File{in}
	out, err := k.stream(c.Log, c.Stdout)
	if err != nil {
		return files, err
	}
	files = append(files, out)
	if c.Stderr == nil {
		return append(files, out), nil
	}
	failing, err := k.stream("", c.Stderr)
	if err != nil {
		return files, err
	}
	return append(files, failing), nil
}

func (k *task) stream(log string, each func(string)) (*os.File, error) {
	if log != "" {
		return os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	}
	if each == nil {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	// The pipe's mode is shared with the program, which expects its output to block.
	if err := unix.SetNonblock(int(w.Fd()), false); err != nil {
		return nil, err
	}
	k.drained.Go(func() { lines(r, each) })
	return w, nil
}

func lines(r io.ReadCloser, each func(string)) {
	defer r.Close()
	for b := bufio.NewReader(r); ; {
		line, err := b.ReadString('\n')
		if line != "" {
			each(strings.TrimSuffix(line, "\n"))
		}
		if err != nil {
			return
		}
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// ended is what the host says of a command.
func (m *Machine) ended(r reply) {
	s := syscall.WaitStatus(r.Status)
	e := Exit{Code: s.ExitStatus()}
	if s.Signaled() {
		e.Signal = s.Signal()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.tasks {
		if k.id == r.ID && !k.over() {
			m.finish(k, e)
		}
	}
}

// finish needs mu. The world hears of it later, when the last lines are read.
func (m *Machine) finish(k *task, e Exit) {
	e.Machine, e.Tag = m.name, k.tag
	k.exit = e
	close(k.done)
	go func() {
		k.settle()
		if m.lab.opts.OnExit != nil {
			m.lab.opts.OnExit(e)
		}
	}()
}

func (k *task) settle() {
	read := make(chan struct{})
	go func() { k.drained.Wait(); close(read) }()
	select {
	case <-read:
	case <-time.After(lull):
	}
}

// mourn waits for the end of power, wanted or not, and reports what died with it.
func (m *Machine) mourn(t *tether) {
	<-t.gone
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.host == t {
		if m.lab.trace != nil {
			// Nothing to find, unless the host itself was killed.
			_, _ = m.lab.trace.bury(m.name)
		}
		m.host = nil
	}
	for _, k := range m.tasks {
		if !k.over() {
			m.finish(k, Exit{Code: -1, Signal: syscall.SIGKILL})
		}
	}
}

// Wait waits for the end of the command last started under the tag, and for its last lines.
func (m *Machine) Wait(ctx context.Context, tag string) (Exit, error) {
	m.mu.Lock()
	k := m.tasks[tag]
	m.mu.Unlock()
	if k == nil {
		return Exit{}, fmt.Errorf("refused to wait for %s on machine %s: it was never started", tag, m.name)
	}
	select {
	case <-k.done:
		k.settle()
		return k.exit, nil
	case <-ctx.Done():
		return Exit{}, ctx.Err()
	}
}

// Processes lists what runs on the machine, parents before children, without its host.
func (m *Machine) Processes() ([]Process, error) {
	t, err := m.powered()
	if err != nil {
		return nil, err
	}
	return below(t.pid()), nil
}

// Environ is what a process of the machine has in its environment, NAME=VALUE each.
func (m *Machine) Environ(p Process) ([]string, error) {
	block, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
	return strings.Split(string(block), "\x00"), err
}
