// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// nursery starts processes and reaps whatever dies under this one: its own children, and orphans.
// os/exec is no use here: a wait for any child steals the status that exec.Cmd.Wait wants.
type nursery struct {
	// mu is held from fork to the note in born, and while reaping, so that no child is reaped before
	// it is known.
	mu   sync.Mutex
	born map[int]uint64
	// ended is told of children that start began, not of orphans.
	ended func(id uint64, pid int, status syscall.WaitStatus)
}

func newNursery(ended func(uint64, int, syscall.WaitStatus)) *nursery {
	n := &nursery{born: map[int]uint64{}, ended: ended}
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, syscall.SIGCHLD)
	go func() {
		for range deaths {
			n.reap()
		}
	}()
	return n
}

func (n *nursery) start(id uint64, path string, args []string, attr *syscall.ProcAttr) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pid, err := syscall.ForkExec(path, args, attr)
	if err == nil {
		n.born[pid] = id
	}
	return pid, err
}

// reap collects all that have died; signals of several deaths may have come as one.
func (n *nursery) reap() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if id, ours := n.born[pid]; ours {
			delete(n.born, pid)
			n.ended(id, pid, status)
		}
	}
}

// exitCode is the shell's convention: 128 and the signal's number for a process that one ended.
func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
