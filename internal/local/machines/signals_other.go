// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build !unix

package machines

import "syscall"

// Stop and Continue have Linux's numbers, and nothing here that takes them.
const (
	Stop     = syscall.Signal(19)
	Continue = syscall.Signal(18)
)
