// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/internal/raftlog"
)

// isEtcd tells whether the command line is etcd's.
func isEtcd(args []string) bool { return len(args) > 0 && filepath.Base(args[0]) == "etcd" }

// keepLog reads whose log a disk holds before the disk is taken away.
func (w *World) keepLog(n *node) {
	log, _, err := w.readLog(n)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs = append(w.logs, log)
}

// readLog reads the WAL of a machine's disk.
func (w *World) readLog(n *node) (ringproof.MemberLog, raftlog.Log, error) {
	log := ringproof.MemberLog{Machine: n.name, Disk: n.disk}
	read, err := raftlog.Read(filepath.Join(n.machine.DataRoot(), "etcd"))
	if err != nil {
		log.Err = err.Error()
		return log, read, err
	}
	log.Member, log.ClusterID = ringproof.MemberID(read.Member), read.Cluster
	log.First, log.Last, log.Term = read.First(), read.Last(), read.Term
	return log, read, nil
}

// Evidence reads the disks and asks the members, once.
func (w *World) Evidence(ctx context.Context) (ringproof.Evidence, error) {
	var e ringproof.Evidence
	var err error
	if e.Final, err = w.observe(ctx, lastLook); err != nil {
		return e, err
	}
	w.readDisks(&e)
	w.dump(ctx, &e)
	w.hash(ctx, &e)
	return e, ctx.Err()
}

func (w *World) readDisks(e *ringproof.Evidence) {
	var logs []raftlog.Log
	for _, n := range w.present() {
		log, read, err := w.readLog(n)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		e.Logs = append(e.Logs, log)
		if err != nil {
			e.Unknown = append(e.Unknown, fmt.Sprintf("the log of %s: %v", n.name, err))
			continue
		}
		logs = append(logs, read)
		if w.plan.Mode == ringproof.ModeDisaster {
			e.Surviving = append(e.Surviving, read.Values()...)
		}
	}
	w.mu.Lock()
	e.Logs = append(e.Logs, w.logs...)
	w.mu.Unlock()
	slices.Sort(e.Surviving)
	e.Surviving = slices.Compact(e.Surviving)
	changes, err := raftlog.Changes(logs)
	if err != nil {
		e.Unknown = append(e.Unknown, "the membership's history: "+err.Error())
	}
	e.Changes = changes
}

// dump reads the whole keyspace with a quorum.
func (w *World) dump(ctx context.Context, e *ringproof.Evidence) {
	for i := range w.present() {
		c, err := w.Client(ctx, i)
		if err != nil {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, 3*time.Second)
		all, err := c.(*client.Client).Etcd.Get(asking, "", clientv3.WithPrefix())
		cancel()
		c.Close()
		if err != nil {
			continue
		}
		e.Revision = all.Header.Revision
		for _, kv := range all.Kvs {
			e.Dump = append(e.Dump, ringproof.KV{Key: string(kv.Key), Value: string(kv.Value), CreateRevision: kv.CreateRevision,
				ModRevision: kv.ModRevision, Version: kv.Version})
		}
		return
	}
	e.Unknown = append(e.Unknown, "the keyspace: nobody answered a read with a quorum")
}

// hash asks every serving member for its hash at one revision that all have.
func (w *World) hash(ctx context.Context, e *ringproof.Evidence) {
	revision := int64(0)
	for _, m := range e.Final.Members {
		if m.Serving && (revision == 0 || m.Revision < revision) {
			revision = m.Revision
		}
	}
	for _, m := range e.Final.Members {
		n := w.node(m.Machine)
		if !m.Serving || n == nil {
			continue
		}
		h := ringproof.Hash{Machine: n.name, Member: m.ID, Version: m.Version, Revision: revision}
		c, err := w.looker(n)
		if err == nil {
			asking, cancel := context.WithTimeout(ctx, 3*time.Second)
			var hashed *clientv3.HashKVResponse
			if hashed, err = c.HashKV(asking, w.url(n), revision); err == nil {
				h.Hash, h.Compact = hashed.Hash, hashed.CompactRevision
			}
			cancel()
		}
		if err != nil {
			h.Err = err.Error()
		}
		e.Hashes = append(e.Hashes, h)
	}
}
