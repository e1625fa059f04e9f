// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build unix

package etcdbin

import (
	"os"
	"os/exec"
	"syscall"
)

// endTogether has cmd, when its context ends, killed with all that it has started.
func endTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// lock takes the file for this process alone, or fails at once with EWOULDBLOCK.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
