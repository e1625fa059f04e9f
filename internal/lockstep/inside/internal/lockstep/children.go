// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build lockstep

package lockstep

import (
	"encoding/json"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
)

// child is a process that this one started.
type child struct {
	over   *sync.Cond
	ended  bool
	status syscall.WaitStatus
}

// Start has the coordinator start a process.
func (p *process) Start(name string, argv []string, dir string, env []string, files []uintptr) (int, error) {
	of, err := json.Marshal(order{Name: name, Args: argv, Dir: dir, Env: env})
	if err != nil {
		return 0, err
	}
	var descriptors []int
	for _, f := range files {
		descriptors = append(descriptors, int(f))
	}
	pid, errno := p.call(spawn, 0, of, descriptors)
	if errno != 0 {
		return 0, errno
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.children[int(pid)] = &child{over: sync.NewCond(&p.mu)}
	return int(pid), nil
}

// Wait waits for the end of a child.
func (p *process) Wait(pid int) (syscall.WaitStatus, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.children[pid]
	if c == nil {
		return 0, syscall.ECHILD
	}
	for !c.ended {
		c.over.Wait()
	}
	delete(p.children, pid)
	return c.status, nil
}

func (p *process) ended(pid int, status syscall.WaitStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.children[pid]; c != nil {
		c.ended, c.status = true, status
		c.over.Broadcast()
	}
}

// Exit ends this process.
func (p *process) Exit(code int) { p.call(exit, uint64(code), nil, nil) }

// kill is kill(2).
func (p *process) kill(pid int, sig syscall.Signal) error {
	if pid == p.Pid && sig != 0 && sig != syscall.SIGKILL && signal.LockstepDeliver(sig) {
		return nil
	}
	if _, errno := p.call(kill, uint64(pid), []byte{byte(sig)}, nil); errno != 0 {
		return errno
	}
	return nil
}

// pipe waits until a child may have written, or has let go of its end; with wake it ends
// such waits. A file's finalizer, which closes one, is not in the bubble.
func (p *process) pipe(wake bool) {
	switch {
	case !wake:
		p.mu.Lock()
		p.poked.Wait()
		p.mu.Unlock()
	case runtime.LockstepInBubble():
		p.poked.Broadcast()
	}
}
