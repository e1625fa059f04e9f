// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/internal/raftlog"
)

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

// readLog reads the log on the machine's disk; found is false when there is none.
func (m *Machine) readLog() (log ringproof.MemberLog, read raftlog.Log, found bool) {
	log = ringproof.MemberLog{Machine: m.name, Disk: m.disk.numbers[m]}
	for _, name := range slices.Sorted(maps.Keys(m.disk.data)) {
		data := m.disk.data[name]
		member, cluster, _, found, err := data.Whose()
		if !found {
			continue
		}
		if err != nil {
			log.Err = err.Error()
			return log, read, true
		}
		read = raftlog.Of(member, cluster, data.Hard(), data.Entries())
		log.Member, log.ClusterID = ringproof.MemberID(member), cluster
		log.First, log.Last, log.Term = read.First(), read.Last(), read.Term
		return log, read, true
	}
	return log, read, false
}

// keepLog notes whose log a disk holds before the disk is taken away.
func (w *World) keepLog(m *Machine) {
	if log, read, found := m.readLog(); found {
		w.logs = append(w.logs, log)
		w.cleared = append(w.cleared, read)
	}
}

func (w *World) readDisks(e *ringproof.Evidence) {
	var logs []raftlog.Log
	for _, m := range w.present() {
		log, read, found := m.readLog()
		if !found {
			continue
		}
		e.Logs = append(e.Logs, log)
		if log.Err != "" {
			e.Unknown = append(e.Unknown, fmt.Sprintf("the log of %s: %s", m.name, log.Err))
			continue
		}
		logs = append(logs, read)
		if w.plan.Mode == ringproof.ModeDisaster {
			e.Surviving = append(e.Surviving, read.Values()...)
		}
	}
	e.Logs = append(e.Logs, w.logs...)
	slices.Sort(e.Surviving)
	e.Surviving = slices.Compact(e.Surviving)
	changes, err := raftlog.Changes(append(logs, w.cleared...))
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
		asking, cancel := w.engine.timeout(ctx, lastLook)
		all, err := c.(*client.Client).Etcd.Get(asking, "", clientv3.WithPrefix())
		cancel()
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
	for _, v := range e.Final.Members {
		m := w.machine(v.Machine)
		if !v.Serving || m == nil {
			continue
		}
		h := ringproof.Hash{Machine: m.name, Member: v.ID, Version: v.Version, Revision: revision}
		c, err := w.dial(nil, w.url(m), w.secure)
		if err == nil {
			asking, cancel := w.engine.timeout(ctx, lastLook)
			var hashed *clientv3.HashKVResponse
			if hashed, err = c.HashKV(asking, w.url(m), revision); err == nil {
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
