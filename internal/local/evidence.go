// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/observe"
	"github.com/ringproof/ringproof/internal/raftlog"
)

// keepLog reads whose log a disk holds before the disk is taken away.
func (w *World) keepLog(n *node) {
	log, read, err := w.readLog(n)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs = append(w.logs, log)
	if err == nil {
		w.passed.keep(read)
	}
}

// note notes whose log an etcd runs on, once it has one: its disk may be cleared as soon as it has ended.
func (w *World) note(n *node, pid int) {
	w.mu.Lock()
	running := [2]int{pid, n.disk}
	known := pid == 0 || n.noted == running || n.swap
	w.mu.Unlock()
	if known {
		return
	}
	log, _, err := w.readLog(n)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && log.Member != 0 && n.disk == log.Disk && !n.swap {
		n.noted = running
		w.ran.Note(log)
	}
}

// passed is what of the ring's log was read while it ran, beside values. A ring of which all
// machines were replaced ends with no log of how it began: who has left is cleared.
type passed struct {
	listed []role // that the logs were read for
	logs   []raftlog.Log
}

// role is what a member is in the list.
type role struct {
	member  ringproof.MemberID
	learner bool
}

// keep keeps a log, in the place of the one that it goes on with.
func (p *passed) keep(l raftlog.Log) {
	l = l.WithoutValues()
	i := slices.IndexFunc(p.logs, func(had raftlog.Log) bool { return l.Continues(had) })
	if i < 0 {
		p.logs = append(p.logs, l)
		return
	}
	p.logs[i] = l
}

// follow reads the logs of those who serve, whenever others are listed than before, or as what else: the one
// member of a ring promoted another, was removed and cleared its disk, all between two looks at whom there is.
func (w *World) follow(o ringproof.Observation) {
	var listed []role
	for _, m := range o.Members {
		listed = append(listed, role{m.ID, m.Learner})
	}
	w.mu.Lock()
	known := !o.Fresh || slices.Equal(listed, w.passed.listed)
	w.mu.Unlock()
	if known {
		return
	}
	for _, m := range o.Members {
		n := w.node(m.Machine)
		if n == nil || !m.Serving {
			continue
		}
		// One that can't be read is another's by now, or is written to as it is read: the next
		// look reads it again if nobody else's was read.
		log, read, err := w.readLog(n)
		w.mu.Lock()
		if err == nil && log.Member == m.ID {
			w.passed.keep(read.Applied(m.Applied))
			w.passed.listed = listed
		}
		w.mu.Unlock()
	}
}

// readLog reads the WAL of a machine's disk.
func (w *World) readLog(n *node) (ringproof.MemberLog, raftlog.Log, error) {
	log := ringproof.MemberLog{Machine: n.name, Disk: n.disk}
	if w.foreign(n) {
		return log, raftlog.Log{}, fs.ErrNotExist
	}
	read, err := raftlog.Read(w.data(n))
	if err != nil {
		log.Err = err.Error()
		return log, read, err
	}
	log.Member, log.ClusterID = ringproof.MemberID(read.Member), read.Cluster
	log.First, log.Last, log.Term, log.Forced = read.First(), read.Last(), read.Term, read.Forced()
	return log, read, nil
}

// Evidence reads the disks and asks the members, once.
func (w *World) Evidence(ctx context.Context) (ringproof.Evidence, error) {
	var e ringproof.Evidence
	err := w.lacking()
	if err != nil {
		return e, err
	}
	w.compare(ctx, &e) // first: it may take a while, and what follows is to be of the end
	if e.Final, err = w.lastObservation(ctx); err != nil {
		return e, err
	}
	w.readDisks(&e)
	e.Mute, e.Rejected, e.Outputs = w.mute(), w.rejected(), w.outputs()
	observe.Dump(ctx, w, len(w.present()), &e)
	observe.Hashes(ctx, w, w.reach, &e)
	e.PeerPorts, e.ClientPorts = w.ports(ctx)
	e.Etcds, e.Talks, e.Statuses = w.etcds(), w.talks(), w.statuses()
	e.Backups = w.backups
	e.Claims, e.Objects = w.claims(ctx), w.objects(ctx)
	if err := w.Sleep(ctx, beat); err != nil { // so that the last of it is counted
		return e, err
	}
	e.Starved, e.Pressure = w.pace.all(), since(w.pressed, pressed())
	return e, ctx.Err()
}

// lacking is the error of a run in which the subject asked for what the world's model of a node
// hasn't got: what became of that is nobody's fault.
func (w *World) lacking() error {
	var all []string
	for _, n := range w.nodes {
		if l, is := n.machine.(Limited); is {
			all = append(all, l.Lacks()...)
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		return nil
	}
	return fmt.Errorf("nothing can be said of this run, as the subject's pods ask for more: %s; try it with --world kind", strings.Join(all, "; "))
}

// etcds says how the machines' etcds were started. The environment of one counts as
// its arguments do: a launcher may use either.
func (w *World) etcds() (all []ringproof.EtcdProcess) {
	for _, n := range w.present() {
		processes, err := n.machine.Processes()
		i := slices.IndexFunc(processes, w.isEtcd)
		if n.taken || err != nil || i < 0 {
			continue
		}
		p := processes[i]
		environment, err := n.machine.Environ(p)
		if err != nil || len(p.Args) == 0 {
			continue // it has ended since
		}
		all = append(all, observe.Process(n.name, p.Args, environment, w.releasesOf(cmp.Or(p.File, p.Args[0]))...))
	}
	return all
}

// releasesOf are the plan's releases whose etcd the program is: one, but where one
// program stands for all.
func (w *World) releasesOf(program string) (all []string) {
	file, err := os.Stat(program)
	if err != nil {
		return nil
	}
	for _, version := range slices.Sorted(maps.Keys(w.Releases)) {
		if own, err := os.Stat(w.Releases[version].Etcd); err == nil && os.SameFile(own, file) {
			all = append(all, version)
		}
	}
	return all
}

// finalTries is how often the ring is looked at for the last time.
const finalTries = 3

// lastObservation looks until a look is whole. On a busy host a member that serves
// may miss one: five of 68 cells once failed by one look in which one member was
// late, though the looks before and after had its answer.
func (w *World) lastObservation(ctx context.Context) (o ringproof.Observation, err error) {
	for range finalTries {
		o, err = w.observe(ctx, finalTimeout)
		if err != nil || whole(o) || w.plan.Mode == ringproof.ModeDisaster {
			return o, err
		}
		if err := w.Sleep(ctx, 200*time.Millisecond); err != nil {
			return o, err
		}
	}
	return o, nil
}

// whole reports whether the list was read with a quorum, and everybody on it whose
// machine runs gave an answer.
func whole(o ringproof.Observation) bool {
	return o.Fresh && !slices.ContainsFunc(o.Members, func(m ringproof.MemberView) bool {
		on, known := o.Machine(m.Machine)
		return !m.Serving && known && on.Up && !on.Lost && on.Etcd
	})
}

func (w *World) readDisks(e *ringproof.Evidence) {
	var logs []raftlog.Log
	for _, n := range w.present() {
		log, read, err := w.readLog(n)
		if errors.Is(err, fs.ErrNotExist) {
			if m, on := e.Final.On(n.name); on && m.Serving {
				e.Unknown = append(e.Unknown, fmt.Sprintf("the log of %s: its member serves, and there is none in %s of its data filesystem", n.name, w.Subject.Etcd().Dir))
			}
			continue
		}
		e.Logs = append(e.Logs, log)
		if err != nil {
			e.Unknown = append(e.Unknown, fmt.Sprintf("the log of %s: %v", n.name, err))
			continue
		}
		if m, on := e.Final.On(n.name); on && m.Serving && m.ID == log.Member {
			read = read.Applied(m.Applied)
		}
		logs = append(logs, read)
		if w.plan.Mode == ringproof.ModeDisaster {
			e.Surviving = append(e.Surviving, read.Values()...)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Logs = w.ran.Beside(append(e.Logs, w.logs...))
	slices.Sort(e.Surviving)
	e.Surviving = slices.Compact(e.Surviving)
	changes, err := raftlog.Changes(append(logs, w.passed.logs...))
	if err != nil {
		e.Gap = err.Error()
		e.Unknown = append(e.Unknown, "the membership's history: "+e.Gap)
	}
	e.Changes = changes
}

// reach is a client of the etcd on a machine, from beside the network.
func (w *World) reach(machine string) (observe.Hasher, string, error) {
	n := w.node(machine)
	if n == nil {
		return nil, "", nil
	}
	c, err := w.prober(n)
	if err != nil {
		return nil, "", err
	}
	return c, w.url(n), nil
}
