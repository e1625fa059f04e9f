// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// ForceNew writes into the log of an etcd data directory, which no etcd holds open, what
// etcd --force-new-cluster does at its start: every other member is removed, in the last
// term, and all of it is committed.
func ForceNew(dataDir string) error {
	dir, quiet := filepath.Join(dataDir, "member", "wal"), zap.NewNop()
	marks, err := wal.ValidSnapshotEntries(quiet, dir)
	if err != nil {
		return fmt.Errorf("reading the snapshots of %s: %w", dir, err)
	}
	newest, err := snap.New(quiet, filepath.Join(dataDir, "member", "snap")).LoadNewestAvailable(marks)
	if err != nil && !errors.Is(err, snap.ErrNoSnapshot) {
		return fmt.Errorf("reading the snapshots of %s: %w", dataDir, err)
	}
	from := &walpb.Snapshot{}
	if newest != nil {
		from.Index, from.Term = new(newest.GetMetadata().GetIndex()), new(newest.GetMetadata().GetTerm())
	}
	w, err := wal.Open(quiet, dir, from)
	if err != nil {
		return fmt.Errorf("opening %s: %w", dir, err)
	}
	defer w.Close()
	metadata, state, entries, err := w.ReadAll()
	if err != nil {
		return fmt.Errorf("reading %s: %w", dir, err)
	}
	var whose etcdserverpb.Metadata
	if err := proto.Unmarshal(metadata, &whose); err != nil {
		return fmt.Errorf("reading %s: %w", dir, err)
	}
	last := newest.GetMetadata().GetIndex()
	if n := len(entries); n > 0 {
		last = entries[n-1].GetIndex()
	}
	members := storage.GetEffectiveNodeIDsFromWALEntries(quiet, newest, entries)
	removals := storage.CreateConfigChangeEnts(quiet, members, whose.GetNodeID(), state.GetTerm(), last)
	state.Commit = new(last + uint64(len(removals)))
	return w.Save(state, removals)
}

// Damage leaves a wrong checksum in the middle of what was written to the newest file of
// the log of an etcd data directory.
func Damage(dataDir string) error {
	files, err := filepath.Glob(filepath.Join(dataDir, "member", "wal", "*.wal"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%s holds no log: %w", dataDir, os.ErrNotExist)
	}
	newest := slices.Max(files)
	content, err := os.ReadFile(newest)
	if err != nil {
		return err
	}
	at := len(bytes.TrimRight(content, "\x00")) / 2
	file, err := os.OpenFile(newest, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt([]byte{^content[at]}, int64(at))
	return errors.Join(err, file.Sync(), file.Close())
}
