// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
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

// answer is what one etcd said of itself.
type answer struct {
	node    *node
	status  *clientv3.StatusResponse
	members *clientv3.MemberListResponse // as it knows them itself
	fresh   *clientv3.MemberListResponse // read with a quorum
	err     error
}

// Observe asks every machine at once.
func (w *World) Observe(ctx context.Context) (ringproof.Observation, error) {
	return w.observe(ctx, glance)
}

func (w *World) observe(ctx context.Context, within time.Duration) (ringproof.Observation, error) {
	o := ringproof.Observation{At: w.Now()}
	o.Machines = w.machineViews()
	answers := w.ask(ctx, within)
	o.Until = w.Now()
	o.Members, o.Fresh = membership(answers)
	for i := range o.Members {
		w.describe(&o.Members[i], answers)
	}
	for _, a := range answers {
		if a.err != nil {
			o.Unknown = append(o.Unknown, fmt.Sprintf("%s: %v", a.node.name, a.err))
		}
	}
	return o, ctx.Err()
}

// machineViews looks at the machines, and tells of the etcd processes that
// came and went.
func (w *World) machineViews() []ringproof.MachineView {
	var views []ringproof.MachineView
	w.mu.Lock()
	nodes := slices.Clone(w.nodes)
	w.mu.Unlock()
	for _, n := range nodes {
		w.noticeWipe(n)
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
// whoever clears a member's data has taken its disk as surely as a fault.
func (w *World) noticeWipe(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
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
func (w *World) ask(ctx context.Context, within time.Duration) []answer {
	nodes := w.present()
	answers := make([]answer, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { answers[i] = w.askOne(ctx, n, within) })
	}
	all.Wait()
	return answers
}

func (w *World) askOne(ctx context.Context, n *node, within time.Duration) answer {
	a := answer{node: n}
	if !n.machine.On() || n.paused {
		a.err = fmt.Errorf("the machine is off or paused")
		return a
	}
	c, err := w.looker(n)
	if err != nil {
		a.err = err
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if a.status, a.err = c.Status(ctx, w.url(n)); a.err != nil {
		return a
	}
	if a.members, a.err = c.MemberList(ctx, clientv3.WithSerializable()); a.err != nil {
		return a
	}
	w.isMember(n)
	if a.status.Leader == a.status.Header.MemberId || n == w.first() {
		a.fresh, _ = c.MemberList(ctx)
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

// membership takes the list of the one that knows most: a list read with a
// quorum before any other, and the highest revision of those.
func membership(answers []answer) ([]ringproof.MemberView, bool) {
	var best *clientv3.MemberListResponse
	var applied uint64
	fresh := false
	for _, a := range answers {
		list := a.fresh
		if list == nil {
			list = a.members
		}
		if list == nil || fresh && a.fresh == nil {
			continue
		}
		if best == nil || a.fresh != nil && !fresh || a.status.RaftAppliedIndex >= applied {
			best, applied, fresh = list, a.status.RaftAppliedIndex, a.fresh != nil
		}
	}
	if best == nil {
		return nil, false
	}
	var views []ringproof.MemberView
	for _, m := range best.Members {
		views = append(views, ringproof.MemberView{ID: ringproof.MemberID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, Learner: m.IsLearner})
	}
	slices.SortFunc(views, func(a, b ringproof.MemberView) int { return cmp.Compare(a.ID, b.ID) })
	return views, fresh
}

// describe adds what the member said of itself, and whose machine it is on.
func (w *World) describe(m *ringproof.MemberView, answers []answer) {
	for _, peer := range m.PeerURLs {
		if n := w.at(peer); n != nil {
			m.Machine = n.name
		}
	}
	for _, a := range answers {
		if a.status == nil || ringproof.MemberID(a.status.Header.MemberId) != m.ID {
			continue
		}
		s := a.status
		m.Serving = a.err == nil && s.Leader != 0
		m.Leader = s.Leader == s.Header.MemberId
		m.ClusterID, m.Version, m.Term = s.Header.ClusterId, s.Version, s.RaftTerm
		m.Index, m.Applied, m.Revision, m.DBSize = s.RaftIndex, s.RaftAppliedIndex, s.Header.Revision, s.DbSize
		for _, e := range s.Errors {
			if e != "etcdserver: no leader" {
				m.Alarms = append(m.Alarms, e)
			}
		}
		if a.members != nil {
			for _, p := range a.members.Members {
				m.Peers = append(m.Peers, ringproof.MemberID(p.ID))
			}
			slices.Sort(m.Peers)
		}
	}
}

// at is the machine of a peer URL.
func (w *World) at(peer string) *node {
	parsed, err := url.Parse(peer)
	if err != nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		if n.machine.Addr().String() == parsed.Hostname() {
			return n
		}
	}
	return nil
}
