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
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/observe"
)

// How long one machine may take to answer: the observer, who comes again soon,
// and the last look, which decides. Both ask again, as long as that takes, while
// the host starves the run.
const (
	observeTimeout = 500 * time.Millisecond
	finalTimeout   = 5 * time.Second
)

// mostTimes is how often one machine is asked in a look, each time twice as long.
const mostTimes = 3

// prober asks the etcd of one machine.
type prober struct {
	client *clientv3.Client
	url    string
	member bool // it has answered as a member
}

func (l *prober) close() {
	if l.client != nil {
		l.client.Close()
	}
}

// Observe asks every machine at once, and now and then the subject, what it says of its ring.
func (w *World) Observe(ctx context.Context) (ringproof.Observation, error) {
	o, err := w.observe(ctx, observeTimeout)
	w.readStatus(ctx)
	return o, err
}

func (w *World) observe(ctx context.Context, within time.Duration) (ringproof.Observation, error) {
	o := ringproof.Observation{At: w.Now()}
	before := w.disks()
	o.Machines = w.machineViews()
	answers := w.ask(ctx, within)
	settled(answers, before, w.disks())
	o.Amiss = w.amiss(ctx, within)
	o.Until = w.Now()
	observe.Ring(&o, answers)
	w.follow(o)
	return o, ctx.Err()
}

var errUnsettled = errors.New("its disk was being changed while it was asked")

// settled withdraws what a machine said whose disk was not one and the same the
// whole time. m2's volume is taken: until its etcd is dead it serves member a on
// disk 1 when disk 2 is counted already, and a would have lived on both.
func settled(answers []observe.Answer, before, after map[string]int) {
	for i, a := range answers {
		if disk, known := before[a.Machine]; !known || disk != after[a.Machine] {
			answers[i] = observe.Answer{Machine: a.Machine, Err: errUnsettled}
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
		w.noticeWipe(n)
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
		v := ringproof.MachineView{Name: n.name, Address: w.address(n), Lost: n.lost, Disk: n.disk}
		v.Up = !n.lost && n.machine.On() && !n.paused && !n.taken
		etcd, agent := 0, 0
		if !n.lost && !n.taken && n.machine.On() {
			etcd, agent = w.etcd(n), w.life(n)
		}
		if w.plan.Ring.Peers == "plain" && etcd != 0 {
			v.Clear = inClear(w.peerURLs(n))
		}
		v.Etcd, v.Agent = etcd != 0, agent != 0 || w.vacant(n) || w.leads(n, etcd)
		w.process(n, etcd, agent)
		w.mark(n, func() { v.Open = n.open })
		w.note(n, etcd)
		views = append(views, v)
	}
	return views
}

// vacant reports whether the node has no member's pod, and so nobody to look after one.
func (w *World) vacant(n *node) bool {
	s, ok := n.machine.(Slotted)
	if !ok {
		return false
	}
	_, _, here := s.Slot()
	return !here
}

// leads reports whether the etcd is the first process of a pod's container: the kubelet
// looks after it, and nobody else on the node does.
func (w *World) leads(n *node, etcd int) bool {
	if _, slotted := n.machine.(Slotted); !slotted || etcd == 0 {
		return false
	}
	all, _ := n.machine.Processes()
	return slices.ContainsFunc(all, func(p machines.Process) bool { return p.PID == etcd && p.Leads })
}

// noticeWipe counts a disk as a new one when the log on it is gone or another:
// whoever clears a member's data has taken its disk as surely as a fault. Its
// world is locked.
func (w *World) noticeWipe(n *node) {
	if n.lost || n.swap { // a swap is the fault's doing
		return
	}
	if w.vacant(n) { // its pod is away, and may come back to its volume
		return
	}
	var log os.FileInfo
	dir := filepath.Join(w.data(n), "member", "wal")
	stat, err := os.Stat(dir)
	// A directory without a file is no log: etcd puts another in its place.
	if logs, _ := filepath.Glob(filepath.Join(dir, "*.wal")); err == nil && len(logs) > 0 {
		log = stat
	}
	if n.wal != nil && (log == nil || !os.SameFile(n.wal, log)) {
		n.anotherDisk()
	}
	n.wal = log
}

// process tells when the machine's etcd is another than before. One that panics at its start
// may be gone before anybody looks: its output tells of it.
func (w *World) process(n *node, pid, agent int) {
	w.mu.Lock()
	before := n.etcd
	n.etcd, n.agentPID = pid, agent
	if before != pid {
		n.open = 0
	}
	w.mu.Unlock()
	why := ""
	if pid == 0 || before != pid {
		why = w.lastWord(n)
	}
	exited := func(text string) {
		w.recorder.Record(ringproof.Event{Kind: ringproof.EventProcessExited, Machine: n.name, Text: text})
	}
	switch {
	case before != 0 && before != pid && why != "":
		exited(fmt.Sprintf("etcd, pid %d, %s", before, why))
	case before != 0 && before != pid:
		exited(fmt.Sprintf("etcd, pid %d", before))
	case strings.HasPrefix(why, "panic: "):
		exited("etcd, seen by no look, " + why)
	}
	if pid != 0 && before != pid {
		w.recorder.Record(ringproof.Event{Kind: ringproof.EventProcessStarted, Machine: n.name, Text: fmt.Sprintf("etcd, pid %d", pid)})
	}
}

// ask asks each machine's etcd for its status and its own list of members, and
// one of them for a list read with a quorum.
func (w *World) ask(ctx context.Context, within time.Duration) []observe.Answer {
	nodes := w.present()
	answers := make([]observe.Answer, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { answers[i] = w.askOne(ctx, n, within) })
	}
	all.Wait()
	return answers
}

func (w *World) askOne(ctx context.Context, n *node, within time.Duration) observe.Answer {
	a := observe.Answer{Machine: n.name}
	if !n.machine.On() || n.paused || n.taken {
		a.Err = fmt.Errorf("the machine is off or paused")
		return a
	}
	c, err := w.prober(n)
	if err != nil {
		a.Err = err
		return a
	}
	for times := 1; ; times++ {
		a = w.question(ctx, n, c, within<<(times-1))
		if times > 1 && a.Err != nil {
			a.Err = fmt.Errorf("%w; asked %d times, as the host was busy", a.Err, times)
		}
		if !a.Silent || times == mostTimes || ctx.Err() != nil || !w.hurried() {
			return a
		}
	}
}

// hurried reports whether the host keeps processors from the run just now: half of
// the last beats at least.
func (w *World) hurried() bool {
	now := w.Now()
	return w.Starved(ringproof.Span{From: now.Add(-4 * beat), To: now}) >= beat
}

// unanswered reports whether err is of somebody who took the question and said nothing
// in time. One that refuses the connection isn't there.
func unanswered(err error) bool {
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Canceled, codes.Unavailable:
		return !strings.Contains(err.Error(), "connection refused")
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// question asks once.
func (w *World) question(ctx context.Context, n *node, c *clientv3.Client, within time.Duration) (a observe.Answer) {
	a.Machine = n.name
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if a.Status, a.Err = c.Status(ctx, w.url(n)); a.Err == nil {
		a.Members, a.Err = c.MemberList(ctx, clientv3.WithSerializable())
	}
	if a.Err != nil {
		a.Silent = unanswered(a.Err)
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

func (w *World) prober(n *node) (*clientv3.Client, error) {
	url := w.url(n)
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.probers[n.name]
	if l != nil && l.url == url {
		return l.client, nil
	}
	c, err := w.dial(n, url)
	if err != nil {
		return nil, err
	}
	if l != nil { // another member is there
		l.close()
	}
	w.probers[n.name] = &prober{client: c, url: url}
	return c, nil
}

func (w *World) isMember(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.probers[n.name].member = true
}
