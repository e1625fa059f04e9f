// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package needs

import (
	"os/exec"
	"syscall"
)

// EndsWithTest has the kernel end cmd, which isn't started yet, with this process, however
// that ends.
func EndsWithTest(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
