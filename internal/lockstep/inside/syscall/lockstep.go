// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build lockstep

package syscall

// What stands for the kernel in lockstep; each is nil or zero elsewhere.
var (
	LockstepRead  func(number int, p []byte) (int, error) // reads from LockstepFD on
	LockstepKill  func(pid int, sig Signal) error
	LockstepPid   int
	LockstepSync  func()            // returns when a disk would have synced
	LockstepFiles map[string]string // where what lies elsewhere is, by its path
)

// LockstepFD is the first number that stands for a connection, beyond all descriptors.
const LockstepFD = 1 << 30

// lockstepPath is where the file really is. Of /proc only the processes lie elsewhere.
func lockstepPath(path string) string {
	if len(LockstepFiles) == 0 || len(path) < 5 || path[0] != '/' {
		return path
	}
	if to, ok := LockstepFiles[path]; ok {
		return to
	}
	if to, ok := LockstepFiles["/proc"]; ok && len(path) > 6 && path[:6] == "/proc/" && '0' <= path[6] && path[6] <= '9' {
		return to + path[5:]
	}
	return path
}
