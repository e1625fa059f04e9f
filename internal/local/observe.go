// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/internal/look"
)

// How long one machine may take to answer: the observer, who comes again soon,
// and the last look, which decides.
const (
	glance   = 500 * time.Millisecond
	lastLook = 3 * time.Second
)

// looker asks the etcd of one machine.
type looker struct {
	client *clientv3.Client
	member bool // it has answered as a member
}

func (l *looker) close() {
	if l.client != nil {
		l.client.Close()
	}
}

// Observe asks every machine at once.
func (w *World) Observe(ctx context.Context) (ringproof.Observation, error) {
	return w.observe(ctx, glance)
}

func (w *World) observe(ctx context.Context, within time.Duration) (ringproof.Observation, error) {
	o := ringproof.Observation{At: w.Now()}
	before := w.disks()
	o.Machines = w.machineViews()
	answers := w.ask(ctx, within)
	settled(answers, before, w.disks())
	o.Until = w.Now()
	look.Ring(&o, answers)
	return o, ctx.Err()
}

var errUnsettled = errors.New("its disk was being changed while it was asked")

// settled withdraws what a machine said whose disk was not one and the same the
// whole time. m2's volume is taken: until its etcd is dead it serves member a on
// disk 1 when disk 2 is counted already, and a would have lived on both.
func settled(answers []look.Answer, before, after map[string]int) {
	for i, a := range answers {
		if disk, known := before[a.Machine]; !known || disk != after[a.Machine] {
			answers[i] = look.Answer{Machine: a.Machine, Err: errUnsettled}
		}
	}
}

// disks counts the disks that each machine has had. One whose disk is being
// changed is not in it.
func (w *World) disks() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	disks := map[string]int{}
	for _, n := range w.nodes {
		noticeWipe(n)
		if !n.swap {
			disks[n.name] = n.disk
		}
	}
	return disks
}

// machineViews looks at the machines, and tells of the etcd processes that
// came and went.
func (w *World) machineViews() []ringproof.MachineView {
	var views []ringproof.MachineView
	w.mu.Lock()
	nodes := slices.Clone(w.nodes)
	w.mu.Unlock()
	for _, n := range nodes {
		v := ringproof.MachineView{Name: n.name, Address: n.machine.Addr().String(), Lost: n.lost, Disk: n.disk}
		v.Up = !n.lost && n.machine.On() && !n.paused
		etcd := 0
		if !n.lost && n.machine.On() {
			etcd, v.Agent = processes(n)
		}
		v.Etcd = etcd != 0
		w.process(n, etcd)
		views = append(views, v)
	}
	return views
}

// noticeWipe counts a disk as a new one when the log on it is gone or another:
// whoever clears a member's data has taken its disk as surely as a fault. Its
// world is locked.
func noticeWipe(n *node) {
	if n.lost || n.swap { // a swap is the fault's doing
		return
	}
	var inode uint64
	dir := filepath.Join(n.machine.DataRoot(), "etcd", "member", "wal")
	stat, err := os.Stat(dir)
	// A directory without a file is no log: etcd puts another in its place.
	if logs, _ := filepath.Glob(filepath.Join(dir, "*.wal")); err == nil && len(logs) > 0 {
		inode = stat.Sys().(*syscall.Stat_t).Ino
	}
	if n.wal != 0 && n.wal != inode {
		n.disk++
	}
	n.wal = inode
}

func processes(n *node) (etcd int, agent bool) {
	all, err := n.machine.Processes()
	if err != nil {
		return 0, false
	}
	for _, p := range all {
		switch {
		case isEtcd(p.Args):
			etcd = p.PID
		case p.Tag == "agent":
			agent = true
		}
	}
	return etcd, agent
}

// process tells when the machine's etcd is another than before.
func (w *World) process(n *node, pid int) {
	w.mu.Lock()
	before := n.etcd
	n.etcd = pid
	w.mu.Unlock()
	if before != 0 && before != pid {
		w.recorder.Record(ringproof.Event{Kind: ringproof.EventProcessExited, Machine: n.name, Text: fmt.Sprintf("etcd, pid %d", before)})
	}
	if pid != 0 && before != pid {
		w.recorder.Record(ringproof.Event{Kind: ringproof.EventProcessStarted, Machine: n.name, Text: fmt.Sprintf("etcd, pid %d", pid)})
	}
}

// ask asks each machine's etcd for its status and its own list of members, and
// one of them for a list read with a quorum.
func (w *World) ask(ctx context.Context, within time.Duration) []look.Answer {
	nodes := w.present()
	answers := make([]look.Answer, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { answers[i] = w.askOne(ctx, n, within) })
	}
	all.Wait()
	return answers
}

func (w *World) askOne(ctx context.Context, n *node, within time.Duration) look.Answer {
	a := look.Answer{Machine: n.name}
	if !n.machine.On() || n.paused {
		a.Err = fmt.Errorf("the machine is off or paused")
		return a
	}
	c, err := w.looker(n)
	if err != nil {
		a.Err = err
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if a.Status, a.Err = c.Status(ctx, w.url(n)); a.Err != nil {
		return a
	}
	if a.Members, a.Err = c.MemberList(ctx, clientv3.WithSerializable()); a.Err != nil {
		return a
	}
	w.isMember(n)
	if a.Status.Leader == a.Status.Header.MemberId || n == w.first() {
		a.Fresh, _ = c.MemberList(ctx)
	}
	return a
}

// first is the first machine that is there: besides the leader, one follower
// is asked for a list read with quorum, since a leader that was cut off takes a
// while to know.
func (w *World) first() *node {
	if nodes := w.present(); len(nodes) > 0 {
		return nodes[0]
	}
	return nil // the last machine was lost while it was asked
}

func (w *World) looker(n *node) (*clientv3.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.looks[n.name]; l != nil {
		return l.client, nil
	}
	c, err := client.Dial(w.url(n), w.secure)
	if err != nil {
		return nil, err
	}
	w.looks[n.name] = &looker{client: c}
	return c, nil
}

func (w *World) isMember(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks[n.name].member = true
}
