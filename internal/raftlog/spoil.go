// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package raftlog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// ForceNew writes into the log of an etcd data directory, which no etcd holds open, what
// etcd --force-new-cluster does at its start: every other member is removed, in the last
// term, and all of it is committed. Every entry of the log is kept, as etcd 3.7 keeps what
// it has applied: 3.6 drops those of which the log doesn't know that they are committed.
func ForceNew(dataDir string) error {
	dir, quiet := filepath.Join(dataDir, "member", "wal"), zap.NewNop()
	marks, err := wal.ValidSnapshotEntries(quiet, dir)
	if err != nil || len(marks) == 0 {
		return fmt.Errorf("reading the snapshots of %s: %w", dir, cmp.Or(err, fs.ErrInvalid))
	}
	newest := marks[len(marks)-1]
	w, err := wal.Open(quiet, dir, newest)
	if err != nil {
		return fmt.Errorf("opening %s: %w", dir, err)
	}
	defer w.Close()
	metadata, state, entries, err := w.ReadAll()
	if err != nil {
		return fmt.Errorf("reading %s: %w", dir, err)
	}
	log, err := newLog(metadata, state, entries)
	if err != nil {
		return err
	}
	last := max(log.Last(), newest.GetIndex())
	removals := Removals(newest.GetConfState(), entries, log.Member, log.Term, last)
	state.Commit = new(last + uint64(len(removals)))
	return w.Save(state, removals)
}

// Removals are the entries after the last by which every other member leaves a log that
// begins with conf. None has an ID, as nobody asked for it (etcd's
// storage.CreateConfigChangeEnts).
func Removals(conf *raftpb.ConfState, entries []*raftpb.Entry, self, term, last uint64) (removals []*raftpb.Entry) {
	members := map[uint64]bool{}
	for _, id := range slices.Concat(conf.GetVoters(), conf.GetLearners()) {
		members[id] = true
	}
	for _, e := range entries {
		var change raftpb.ConfChange
		if e.GetType() == raftpb.EntryConfChange && proto.Unmarshal(e.GetData(), &change) == nil {
			members[change.GetNodeId()] = change.GetType() != raftpb.ConfChangeRemoveNode
		}
	}
	delete(members, self)
	maps.DeleteFunc(members, func(_ uint64, in bool) bool { return !in })
	for _, id := range slices.Sorted(maps.Keys(members)) {
		last++
		change, err := proto.Marshal(&raftpb.ConfChange{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(id)})
		if err != nil {
			panic(err) // of a message of two numbers
		}
		removals = append(removals, &raftpb.Entry{Type: raftpb.EntryConfChange.Enum(), Term: new(term), Index: new(last), Data: change})
	}
	return removals
}

// Damage leaves other bytes in the middle of what was written to the newest file of the
// log of an etcd data directory: more than the seven of a record's padding, which nobody
// would miss.
func Damage(dataDir string) error {
	return spoil(dataDir, 1, 32, func(part []byte) {
		for i := range part {
			part[i] = ^part[i]
		}
	})
}

// Hole leaves a block of zeros there, as a disk does that has lost one: of several records, as a rule.
func Hole(dataDir string) error {
	return spoil(dataDir, block, block, func(part []byte) { clear(part) })
}

// TellsHole reports whether so much was written to the newest file of the log that what was saved after
// its middle tells of a hole there: two batches. Of a log that is shorter it may be all that was
// saved at once, which is cut off where it was torn.
func TellsHole(dataDir string) (bool, error) {
	_, content, err := newest(dataDir)
	return len(bytes.TrimRight(content, "\x00")) >= 16*block, err
}

// newest is the newest file of the log, and what it holds.
func newest(dataDir string) (name string, content []byte, err error) {
	files, err := filepath.Glob(filepath.Join(dataDir, "member", "wal", "*.wal"))
	if err != nil || len(files) == 0 {
		return "", nil, fmt.Errorf("%s holds no log: %w", dataDir, os.ErrNotExist)
	}
	name = slices.Max(files)
	content, err = os.ReadFile(name)
	return name, content, err
}

// Garble writes other bytes over the beginning of the keyspace beside the log, both pages that say
// where the rest is among them: etcd ends at every start.
func Garble(dataDir string) error {
	file, err := os.OpenFile(filepath.Join(dataDir, "member", "snap", "db"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(bytes.Repeat([]byte("x"), 32*block), 0)
	return errors.Join(err, file.Sync(), file.Close())
}

const block = 512 // bytes

// spoil does something to so many bytes in the middle of what was written, which begin at a multiple
// of a number.
func spoil(dataDir string, multiple, size int, how func([]byte)) error {
	name, content, err := newest(dataDir)
	if err != nil {
		return err
	}
	at := len(bytes.TrimRight(content, "\x00")) / 2 / multiple * multiple
	part := content[at : at+size]
	how(part)
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(part, int64(at))
	return errors.Join(err, file.Sync(), file.Close())
}
