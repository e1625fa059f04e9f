// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

type disk struct {
	root  string
	plain bool // the root needs no filesystem of its own
}

func (d disk) Path(name string) string { return filepath.Join(d.root, name) }

func (d disk) Read(name string) ([]byte, error) { return os.ReadFile(d.Path(name)) }

// Write writes beside the file and renames, syncing file and directory, so
// that a crash leaves the old content or the new and never a torn one.
func (d disk) Write(name string, content []byte) error {
	path := d.Path(name)
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := writeSynced(path+".new", content); err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// makeDir makes a directory, and those it is in, so that they survive a power
// loss: the file may be synced in a directory of which nobody has heard.
func makeDir(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// Rename moves within the filesystem, so it takes no room.
func (d disk) Rename(old, new string) error {
	if there, err := d.Exists(new); there || err != nil {
		return errors.Join(err, fmt.Errorf("renaming %s: %s is there", d.Path(old), d.Path(new)))
	}
	if err := os.Rename(d.Path(old), d.Path(new)); err != nil {
		return err
	}
	return syncDir(filepath.Dir(d.Path(new)))
}

// Prepared reports whether a filesystem is mounted where the data is kept.
func (d disk) Prepared() (bool, error) {
	if d.plain {
		return true, nil
	}
	return mounted(d.root)
}

func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (d disk) Remove(name string) error { return os.RemoveAll(d.Path(name)) }

func (d disk) Exists(name string) (bool, error) {
	_, err := os.Stat(d.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// WAL reads the log as etcd would at its start. It opens it for reading only:
// a running etcd may hold it.
func (d disk) WAL(dir string) (WAL, error) {
	path := filepath.Join(d.Path(dir), "member", "wal")
	if err := walAt(path); err != nil {
		return WAL{}, err
	}
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), path)
	if err != nil { // of a segment that is gone since, too: it doesn't say that there is no log
		return WAL{}, fmt.Errorf("reading the WAL in %s: its snapshots: %v", dir, err)
	}
	// Like etcd, from the newest snapshot that leads into it: one that came from
	// the leader leaves a gap before it, and segments that one covers are gone.
	var metadata []byte
	var entries []*raftpb.Entry
	last := uint64(0)
	for _, snapshot := range slices.Backward(snapshots) {
		metadata, entries, err = readAll(path, snapshot)
		if last = snapshot.GetIndex(); len(metadata) > 0 {
			break
		}
	}
	if len(metadata) == 0 {
		return WAL{}, fmt.Errorf("reading the WAL in %s: no metadata record: %v", dir, err)
	}
	var whose etcdserverpb.Metadata
	if err := proto.Unmarshal(metadata, &whose); err != nil {
		return WAL{}, fmt.Errorf("reading the WAL in %s: %w", dir, err)
	}
	found := WAL{Member: whose.GetNodeID(), Cluster: whose.GetClusterID(), Last: last}
	if found.Cut, err = cutOff(path); err != nil {
		return WAL{}, fmt.Errorf("reading the WAL in %s: %w", dir, err)
	}
	found.Unopened = unopened(filepath.Join(d.Path(dir), "member", "snap"), last)
	if n := len(entries); n > 0 {
		found.Last = entries[n-1].GetIndex()
	}
	return found.With(entries), nil
}

// walAt fails with fs.ErrNotExist if there is no log for certain, and with another error
// if that can't be told. etcd's wal.Exist takes every error for no: of a disk that answers
// with EIO, the log was one that is gone, its member was replaced, and it was removed.
func walAt(path string) error {
	names, err := os.ReadDir(path)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("whether a WAL is there can't be told: %w", err)
	case !slices.ContainsFunc(names, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == ".wal" }):
		return fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	return nil
}

// With adds what the entries of the log say of the membership, and which of them is a
// request of the v2 API: what v3.7 reads every entry as, it isn't. etcd gives each change of
// the membership that somebody asked for an ID; those that --force-new-cluster writes have
// none, and follow one another (storage.CreateConfigChangeEnts).
func (w WAL) With(entries []*raftpb.Entry) WAL {
	last := uint64(0) // of those that it has written
	for _, e := range entries {
		if e.GetType() == raftpb.EntryNormal && proto.Unmarshal(e.GetData(), &etcdserverpb.InternalRaftRequest{}) != nil {
			w.V2 = e.GetIndex()
		}
		var change raftpb.ConfChange
		if e.GetType() != raftpb.EntryConfChange || proto.Unmarshal(e.GetData(), &change) != nil || change.GetType() != raftpb.ConfChangeRemoveNode {
			continue
		}
		if change.GetNodeId() == w.Member {
			w.Left = true
		}
		if change.GetId() != 0 {
			continue
		}
		if last == 0 || e.GetIndex() != last+1 {
			w.Forced = e.GetIndex()
		}
		last = e.GetIndex()
	}
	return w
}

func readAll(path string, from *walpb.Snapshot) (metadata []byte, entries []*raftpb.Entry, err error) {
	w, err := wal.OpenForRead(zap.NewNop(), path, from)
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	metadata, _, entries, err = w.ReadAll()
	return metadata, entries, err
}
