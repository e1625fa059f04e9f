// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build unix

package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// mounted goes by the device: a directory on which a filesystem is mounted has another
// than the one it is in.
func mounted(dir string) (bool, error) {
	var root, above syscall.Stat_t
	if err := syscall.Stat(dir, &root); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if err := syscall.Stat(filepath.Dir(dir), &above); err != nil {
		return false, err
	}
	return root.Dev != above.Dev || root.Ino == above.Ino, nil
}

func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func signalProcess(pid int, signal syscall.Signal) error { return syscall.Kill(pid, signal) }

// lock takes the file for this process alone, or fails at once.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
