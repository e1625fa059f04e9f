// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/observe"
	"github.com/ringproof/ringproof/internal/raftlog"
)

// Evidence reads the disks and asks the members, once.
func (w *World) Evidence(ctx context.Context) (ringproof.Evidence, error) {
	var e ringproof.Evidence
	var err error
	if e.Final, err = w.observe(ctx, finalTimeout); err != nil {
		return e, err
	}
	w.readDisks(&e)
	e.Rejected, e.Backups = slices.Clone(w.rejected), w.backups
	for _, t := range w.network.talks { // order: sorted below
		e.Talks = append(e.Talks, *t)
	}
	slices.SortFunc(e.Talks, func(a, b ringproof.Talk) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	observe.Dump(ctx, w, len(w.present()), &e)
	observe.Hashes(ctx, w, w.reach, &e)
	for _, m := range w.present() {
		if m.printed.Lines > 0 {
			m.printed.Machine = m.name
			e.Outputs = append(e.Outputs, m.printed)
		}
	}
	client, err := dialer(w.secure)
	if err != nil {
		return e, err
	}
	for _, m := range w.present() {
		if m.etcd == nil {
			continue
		}
		e.Etcds = append(e.Etcds, observe.Process(m.name, m.etcd.args, nil, m.etcd.release()))
		if client != nil && client.leaf != nil && m.etcd.peer != nil {
			e.PeerPorts = append(e.PeerPorts, m.tried(m.etcd.peer, func(l *identity) bool {
				return client.proven(l.roots, x509.ExtKeyUsageClientAuth, "") == nil
			}))
			e.ClientPorts = append(e.ClientPorts, m.tried(m.etcd.client, func(*identity) bool { return false }))
		}
	}
	return e, ctx.Err()
}

// tried reports what a port of the machine's etcd does with who shows a certificate
// that is proven so, or shows none.
func (m *Machine) tried(port *credentials, proven func(listener *identity) bool) ringproof.Port {
	listener, err := port.identity()
	if err != nil {
		return ringproof.Port{Machine: m.name, Err: err.Error()}
	}
	return ringproof.Port{Machine: m.name, Plain: listener == nil, Admits: listener == nil || !listener.auth || proven(listener)}
}

// readLog reads the log on the machine's disk; found is false when there is none.
func (m *Machine) readLog() (log ringproof.MemberLog, read raftlog.Log, found bool) {
	log = ringproof.MemberLog{Machine: m.name, Disk: m.disk.numbers[m]}
	for _, name := range slices.Sorted(maps.Keys(m.disk.data)) {
		data := m.disk.data[name]
		member, cluster, _, found, err := data.Whose()
		if !found || m.disk.foreign[name] {
			continue
		}
		if err != nil {
			log.Err = err.Error()
			return log, read, true
		}
		read = raftlog.Of(member, cluster, data.Hard(), data.Entries())
		log.Member, log.ClusterID = ringproof.MemberID(member), cluster
		log.First, log.Last, log.Term, log.Forced = read.First(), read.Last(), read.Term, read.Forced()
		return log, read, true
	}
	return log, read, false
}

// logged reports whether an etcd's own log is on the machine's disk.
func (m *Machine) logged() bool {
	_, _, found := m.readLog()
	return found
}

// keepLog notes whose log a disk holds before the disk is taken away.
func (w *World) keepLog(m *Machine) {
	if log, read, found := m.readLog(); found {
		w.logs = append(w.logs, log)
		w.cleared = append(w.cleared, read)
	}
}

// outlived notes whose log an etcd ran on as it ends: a member that has left is cleared before anybody
// else reads it. A disk that is in another's machine, or was taken, is read by whoever did that, and a
// stranger's is nobody's.
func (w *World) outlived(s *server) {
	if s.etcd == nil || s.machine.disk != s.home || s.home.home != s.machine || !slices.Contains(w.present(), s.machine) {
		return
	}
	if log, _, found := s.machine.readLog(); found && log.Member != 0 {
		w.ran.Note(log)
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
	e.Logs = w.ran.Beside(append(e.Logs, w.logs...))
	slices.Sort(e.Surviving)
	e.Surviving = slices.Compact(e.Surviving)
	changes, err := raftlog.Changes(append(logs, w.cleared...))
	if err != nil {
		e.Gap = err.Error()
		e.Unknown = append(e.Unknown, "the membership's history: "+e.Gap)
	}
	e.Changes = changes
}

// reach is a client of the etcd on a machine, from beside the network.
func (w *World) reach(machine string) (observe.Hasher, string, error) {
	m := w.machine(machine)
	if m == nil {
		return nil, "", nil
	}
	c, err := w.dial(nil, w.url(m), w.secure)
	if err != nil {
		return nil, "", err
	}
	return c, w.url(m), nil
}
