// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build lockstep

package os

import (
	"internal/poll"
	"syscall"
)

// LockstepProcesses, where it is set, stands for the kernel's processes.
var LockstepProcesses interface {
	Start(name string, argv []string, dir string, env []string, files []uintptr) (pid int, err error)
	Wait(pid int) (syscall.WaitStatus, error)
	Exit(code int)
}

// LockstepHostname is the name of the machine; "": the host's.
var LockstepHostname string

// LockstepPipes says who waits for pipes: wait(false) returns when one may have something,
// wait(true) ends such waits.
func LockstepPipes(wait func(wake bool)) { poll.LockstepWait = wait }

// lockstepStart is os.StartProcess in lockstep.
func lockstepStart(name string, argv []string, attr *syscall.ProcAttr) (*Process, error) {
	pid, err := LockstepProcesses.Start(name, argv, attr.Dir, attr.Env, attr.Files)
	if err != nil {
		return nil, &PathError{Op: "fork/exec", Path: name, Err: err}
	}
	return newPIDProcess(pid), nil
}

// lockstepWait is Process.Wait in lockstep.
func (p *Process) lockstepWait() (*ProcessState, error) {
	status, err := LockstepProcesses.Wait(p.Pid)
	if err != nil {
		return nil, NewSyscallError("wait", err)
	}
	p.doRelease(statusDone)
	return &ProcessState{pid: p.Pid, status: status, rusage: new(syscall.Rusage)}, nil
}
