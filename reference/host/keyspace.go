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
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// unopened says why etcd can't open the keyspace in a folder of snapshots. One that is gone, or is an
// empty file, it makes of its log, if that begins at its beginning and not after a snapshot: then it
// wants the keyspace that the leader sent with that (snap.Snapshotter.DBFilePath). What it finds it
// opens or ends, also where the log would do.
func unopened(path string, snapshot uint64) (why string, err error) {
	name := filepath.Join(path, "db")
	switch is, err := os.Stat(name); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case err != nil || is.Size() == 0:
		return unmade(path, snapshot)
	}
	if err := readable(name); err != nil {
		return "", err
	}
	db, err := bbolt.Open(name, 0, &bbolt.Options{ReadOnly: true, Timeout: time.Millisecond})
	switch {
	case err == nil:
		return "", db.Close()
	case errors.Is(err, bbolterrors.ErrTimeout): // an etcd has it open
		return "", nil
	}
	return fmt.Sprintf("%s: %v", name, err), nil
}

// readable fails if the disk doesn't give what a program reads first, which bbolt would read through
// memory: of a disk that answers with EIO the process would end by SIGBUS.
func readable(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(f, head))
	return err
}

// head is where bbolt looks for the pages that say where the rest is, in bytes: two, of 64 KiB at most.
const head = 128 << 10

func unmade(path string, snapshot uint64) (why string, err error) {
	if snapshot == 0 {
		return "", nil
	}
	sent := filepath.Join(path, fmt.Sprintf("%016x.snap.db", snapshot))
	switch _, err := os.Stat(sent); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("there is no keyspace in %s, and the log begins after a snapshot, at %d", path, snapshot), nil
	default:
		return "", err
	}
}
