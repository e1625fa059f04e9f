// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// private makes the run directory one that nobody else reads, and the files in it:
// etcd's output names keys and addresses, and who may write the pid file chooses
// which process is taken for etcd. A directory that is open and holds what isn't
// ours belongs to others too, and is refused.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if open, err := isOpen(dir); err != nil || !open {
		return errors.Join(err, shut(dir, entries))
	}
	for _, e := range entries {
		if !ours(e.Name()) {
			return fmt.Errorf("%s is open to other users, and holds what is not ringadm's (%s): give ringadm a directory of its own with --run", dir, e.Name())
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("%s is open to other users: %w; give ringadm a directory of its own with --run", dir, err)
	}
	return shut(dir, entries)
}

// shut takes our files from everybody else.
func shut(dir string, entries []fs.DirEntry) error {
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if open, err := isOpen(path); ours(e.Name()) && err == nil && open {
			errs = append(errs, os.Chmod(path, 0o600))
		}
	}
	return errors.Join(errs...)
}

func isOpen(path string) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	return info.Mode().Type()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o077 != 0, nil
}

func ours(name string) bool {
	return strings.HasPrefix(name, "etcd.pid") || strings.HasPrefix(name, "etcd.log") || name == "agent.lock"
}
