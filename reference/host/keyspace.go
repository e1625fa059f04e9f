// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// unopened says why etcd can't open the keyspace in a folder of snapshots; "": it can, or nobody knows
// before it tries. One that is gone, or is an empty file, it makes of its log, if that begins at its
// beginning and not after a snapshot: then it wants the keyspace that the leader sent with that
// (snap.Snapshotter.DBFilePath). What it finds it opens or ends, also where the log would do. A member
// is replaced for what this says, so a disk that can't be read now, or a file that can't be opened for
// want of memory, says nothing.
func unopened(path string, snapshot uint64) (why string) {
	name := filepath.Join(path, "db")
	switch is, err := os.Stat(name); {
	case errors.Is(err, fs.ErrNotExist), err == nil && is.Size() == 0:
		return unmade(path, snapshot)
	case err != nil || !readable(name):
		return ""
	}
	db, err := bbolt.Open(name, 0, &bbolt.Options{ReadOnly: true, Timeout: time.Millisecond}) // an etcd may have it open
	if err == nil {
		_ = db.Close() // it was opened for reading alone
		return ""
	}
	if slices.ContainsFunc(invalid, func(e error) bool { return errors.Is(err, e) }) || strings.Contains(err.Error(), tooSmall) {
		return fmt.Sprintf("%s: %v", name, err)
	}
	return ""
}

// What no program opens as a keyspace, however often it tries; for the last bbolt has no error of its own.
var invalid = []error{bbolterrors.ErrInvalid, bbolterrors.ErrVersionMismatch, bbolterrors.ErrChecksum}

const tooSmall = "file size too small"

// readable reports whether the disk gives what a program reads first, which bbolt would read through
// memory: of a disk that answers with EIO the process would end by SIGBUS.
func readable(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(f, head))
	return err == nil
}

// head is where bbolt looks for the pages that say where the rest is, in bytes: two, of 64 KiB at most.
const head = 128 << 10

// unmade says why etcd can't make a keyspace, where there is none, of a log that begins after a snapshot.
func unmade(path string, snapshot uint64) (why string) {
	_, err := os.Stat(filepath.Join(path, fmt.Sprintf("%016x.snap.db", snapshot)))
	if snapshot == 0 || !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return fmt.Sprintf("there is no keyspace in %s, and the log begins after a snapshot, at %d", path, snapshot)
}
