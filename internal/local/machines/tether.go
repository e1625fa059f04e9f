// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// tether is the run's end of one powered machine: its host process and the socket to it.
type tether struct {
	cmd  *exec.Cmd
	conn *net.UnixConn
	// gone is closed once the host is dead; in a PID namespace that means all of the machine.
	gone  chan struct{}
	ended func(reply)

	mu    sync.Mutex
	last  uint64
	calls map[uint64]chan reply
}

var errOff = errors.New("the machine is off: call PowerOn first")

// fasten starts a host. Its session is its own: a terminal's Ctrl-C is for the run, which ends its
// machines in its own order.
func fasten(env []string, alone bool, ended func(reply)) (*tether, error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	attr := &syscall.SysProcAttr{Setsid: true}
	if alone {
		attr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS
	}
	t := &tether{conn: ours, gone: make(chan struct{}), ended: ended, calls: map[uint64]chan reply{}}
	t.cmd = &exec.Cmd{
		Path: self, Args: []string{os.Args[0], asHost}, Env: env,
		Stderr: os.Stderr, ExtraFiles: []*os.File{theirs}, SysProcAttr: attr,
	}
	if err := t.cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("starting a machine's host: %w", err)
	}
	go t.listen()
	return t, nil
}

func (t *tether) pid() int { return t.cmd.Process.Pid }

func (t *tether) listen() {
	for {
		var r reply
		if _, err := receive(t.conn, &r); err != nil {
			break
		}
		if r.Ended {
			t.ended(r)
		} else {
			t.answer(r)
		}
	}
	t.conn.Close()
	_ = t.cmd.Wait()
	close(t.gone)
}

func (t *tether) answer(r reply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.calls[r.ID]; ok {
		c <- r
		delete(t.calls, r.ID)
	}
}

// number is the next request's ID.
func (t *tether) number() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	return t.last
}

func (t *tether) call(ctx context.Context, q request, files ...*os.File) (reply, error) {
	answer := make(chan reply, 1)
	t.mu.Lock()
	t.calls[q.ID] = answer
	t.mu.Unlock()
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	if err := send(t.conn, q, fds...); err != nil {
		return reply{}, fmt.Errorf("asking a machine's host to %s: %w", q.Do, err)
	}
	select {
	case r := <-answer:
		if r.Error != "" {
			return r, errors.New(r.Error)
		}
		return r, nil
	case <-t.gone:
		return reply{}, errOff
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}
