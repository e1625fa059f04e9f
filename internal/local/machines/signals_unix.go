// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build unix

package machines

import "syscall"

// What a process is paused with, and goes on with.
const (
	Stop     = syscall.SIGSTOP
	Continue = syscall.SIGCONT
)
