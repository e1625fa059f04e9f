// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build lockstep

package signal

import (
	"os"
	"syscall"
)

var (
	lockstepIn      bool
	lockstepIgnored [numSig]bool
)

// LockstepKeepOut keeps the kernel's signals out. To enable one is to wait for a goroutine
// outside the bubble, and that would pass for idleness.
func LockstepKeepOut() { lockstepIn, watchSignalLoop = true, nil }

// LockstepDeliver delivers a signal to whoever asked for it, from the goroutine that calls
// it. It reports whether the process lives on: somebody wanted the signal, or nobody dies of it.
func LockstepDeliver(sig os.Signal) bool {
	if Ignored(sig) {
		return true
	}
	handlers.Lock()
	wanted := handlers.ref[signum(sig)] > 0
	handlers.Unlock()
	if wanted {
		process(sig)
	}
	return wanted || sig == syscall.SIGCHLD || sig == syscall.SIGURG || sig == syscall.SIGWINCH || sig == syscall.SIGCONT
}

// lockstepSet notes whether the signal is ignored, and reports whether that is all there
// is to do.
func lockstepSet(sig int, ignored bool) bool {
	if lockstepIn {
		lockstepIgnored[sig] = ignored
	}
	return lockstepIn
}
