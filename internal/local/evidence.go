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

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/look"
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
	look.Dump(ctx, w, len(w.present()), &e)
	look.Hashes(ctx, w, w.reach, &e)
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

// reach is a client of the etcd on a machine, from beside the network.
func (w *World) reach(machine string) (look.Hasher, string, error) {
	n := w.node(machine)
	if n == nil {
		return nil, "", nil
	}
	c, err := w.looker(n)
	if err != nil {
		return nil, "", err
	}
	return c, w.url(n), nil
}
