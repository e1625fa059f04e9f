// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package local is the world of real processes: real etcd binaries and the
// subject's real processes on this host, each machine a network namespace with
// its own address and its own data filesystem (package machines). It is the
// truth about etcd, in real time.
package local

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/kubectl"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/observe"
	"github.com/ringproof/ringproof/internal/trial"
)

// World is a ring of real processes.
type World struct {
	Releases map[string]etcdbin.Release // by version: at least those of the plan
	Subject  trial.Subject
	Version  string // of ringproof
	// Labs makes its machines; nil: [OnThisHost].
	Labs func(context.Context, machines.Options) (Lab, error)
	As   string // what the world is called; "": local
	// Virtual says that time is, so that no host keeps any of it from the run.
	Virtual bool

	began    time.Time
	lab      Lab
	dir      string
	plan     ringproof.Plan
	recorder ringproof.Recorder
	tasks    sync.WaitGroup

	mu      sync.Mutex
	nodes   []*node
	secure  *tls.Config
	probers map[string]*prober
	logs    []ringproof.MemberLog // of disks that are gone
	ran     observe.Lives         // what etcds ran on
	passed  passed                // what of the ring's log was read while it ran
	steps   map[string]ringproof.FaultKind
	down    time.Duration   // of an agent that was made to crash
	twins   map[string]Host // of machines, by name and step
	stopped pod             // of the subject's controller, that was signalled last
	ending  bool
	tools   int // commands that operators ran on machines
	pace    pace
	pressed ringproof.Pressure // when the run began
	over    chan struct{}      // closed when the world is
	swaps   map[string]bool    // steps that have disks in other machines
	passing map[string]bool    // steps that have clocks go on
	alarms  client.Alarms
	backups []ringproof.Backup
	told    []ringproof.Status // what the subject said of its ring
	beside  []kubectl.Beside   // objects of the ring that a fault hit, until they are amended
	said    map[string][]byte  // the logs of its processes, once it is closed
}

// node is one machine with what the harness did to it.
type node struct {
	name     string
	machine  Host
	run      string
	disk     int
	had      int           // of disks; at least as many as the number of the one that it has
	home     *node         // whose disk it has, moved there by a fault; nil: its own
	numbers  map[*node]int // of the disks that it had, by whose they are
	wal      os.FileInfo   // of the log on the disk; nil: none was seen
	swap     bool          // its volume is being swapped
	lost     bool
	paused   bool
	etcd     int // pid of its etcd, as last seen
	open     int // the disk whose files that has open and no name leads to any more; 0: there is none
	agentPID int
	heard    int64           // how much of its output was looked through
	held     map[string]bool // steps that keep the agent from being started
	down     time.Duration   // of an agent that was told to end

	noted  [2]int          // the etcd and the disk whose log was noted last
	dry    map[string]bool // by the steps that have its agent change nothing
	mute   map[string]int  // of 100 replies, how many are lost, by step
	lossy  map[string]int  // of 100 packets, how many are lost, by step
	broken broken          // by the steps that keep its etcd from starting
	copied string          // the state of the log that was copied to it; "": none was
	taken  bool            // an etcd of another ring answers at its address
	stale  string          // the step that has its name resolve to something else; "": none
}

var _ ringproof.World = (*World)(nil)

// Name is what the world is called.
func (w *World) Name() string { return cmp.Or(w.As, "local") }

// Now is the time since the world started.
func (w *World) Now() ringproof.Instant {
	if w.began.IsZero() {
		return 0
	}
	return ringproof.Instant(time.Since(w.began))
}

// Sleep sleeps.
func (w *World) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Timeout is context.WithTimeout.
func (w *World) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// Go runs a task.
func (w *World) Go(ctx context.Context, _ string, f func(context.Context)) {
	w.tasks.Go(func() { f(ctx) })
}

// Supports reports whether this host can do the step with the subject.
func (w *World) Supports(s ringproof.Step) error {
	if err := Supports(w.Name(), s, w.limits()); err != nil {
		return err
	}
	return w.Subject.Supports(s)
}

// Supports reports whether a world of this name with these limits (nil: namespaces) can
// do the step.
func Supports(world string, s ringproof.Step, limits error) error {
	if s.Fault == nil {
		return nil
	}
	if e, known := faults.Lookup(s.Fault.Kind); known && !slices.Contains(e.Worlds, world) {
		return fmt.Errorf("%s: only %s can do it: %w", s.Fault.Kind, strings.Join(e.Worlds, " or "), errors.ErrUnsupported)
	}
	if s.Fault.At == ringproof.EndsUnread {
		return fmt.Errorf("%s at %s: only sim can do it: %w", s.Fault.Kind, s.Fault.At, errors.ErrUnsupported)
	}
	if limits == nil {
		return nil
	}
	switch s.Fault.Kind {
	case ringproof.FaultPartition, ringproof.FaultPacketLoss, ringproof.FaultDiskFull, ringproof.FaultWrongRing, ringproof.FaultVolumeUnmounted:
		return fmt.Errorf("%s: %w", s.Fault.Kind, limits)
	}
	return nil
}

// Runs tells why a local world with these limits (nil: namespaces) can't have the
// plan's ring; nil: it can. Names are resolved by a file that is mounted on machines.
func Runs(p ringproof.Plan, limits error) error {
	if p.Ring.On != "" {
		return fmt.Errorf("a ring on %s: only virtual and kind have one (%w)", p.Ring.On, errors.ErrUnsupported)
	}
	if p.Ring.Domain != "" && limits != nil {
		return fmt.Errorf("machines in %s: %w", p.Ring.Domain, limits)
	}
	return nil
}

// limits are those of namespaces, which a lab of another sort has no use for.
func (w *World) limits() error {
	if w.As == "kind" {
		return nil
	}
	return limits()
}

func limits() error {
	if machines.Inside() {
		return nil
	}
	return fmt.Errorf("%w: ringproof runs without namespaces of its own (%w); see ringproof doctor", ringproof.ErrHost, errors.ErrUnsupported)
}

// Tools tells what the run was made with.
func (w *World) Tools() ringproof.Tools {
	t := ringproof.Tools{Ringproof: w.Version, Go: runtime.Version(), Etcd: map[string]string{}}
	for version, r := range w.Releases {
		t.Etcd[version] = r.Digests["etcd"]
	}
	return t
}

// Start brings up the machines, seeds the subject and starts its agents.
func (w *World) Start(ctx context.Context, plan ringproof.Plan, recorder ringproof.Recorder) (err error) {
	w.plan, w.recorder = plan, recorder
	w.probers, w.steps, w.twins = map[string]*prober{}, map[string]ringproof.FaultKind{}, map[string]Host{}
	w.swaps, w.passing = map[string]bool{}, map[string]bool{}
	labs := w.Labs
	if labs == nil {
		labs = OnThisHost
	}
	if w.lab, err = labs(ctx, machines.Options{VolumeBytes: plan.Ring.Volume, Domain: plan.Ring.Domain, OnExit: w.exited}); err != nil {
		return err
	}
	w.dir = w.lab.Shared()
	if nodes, ok := w.lab.(Nodes); ok {
		nodes.Listen(w.listen)
	}
	for _, s := range plan.Steps {
		if faults.AtSeam(s) && s.Early() { // it may land before it is carried out: a subject is told early
			w.steps[s.Name] = s.Fault.Kind
		}
	}
	for i := range plan.Ring.Machines {
		if err := w.add(ctx, fmt.Sprintf("m%d", i+1)); err != nil {
			return err
		}
	}
	w.began, w.over = time.Now(), make(chan struct{})
	if !w.Virtual {
		w.pressed = pressed()
		if apart, ok := w.lab.(Apart); ok {
			apart.Waits(w.pace.hear)
		}
		w.tasks.Go(func() { w.pace.keep(w.over, w.Now, w.processes) })
	}
	if err := w.Subject.Seed(ctx, w.site(), w.runner(ctx)); err != nil {
		return fmt.Errorf("seeding the subject: %w", err)
	}
	if w.secure, err = w.Subject.Credentials(ctx); err != nil {
		return fmt.Errorf("the subject's credentials: %w", err)
	}
	for _, n := range w.nodes {
		if err := w.agent(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) add(ctx context.Context, name string) error {
	m, err := w.lab.Add(ctx, name)
	if err != nil {
		return err
	}
	n := &node{name: name, machine: m, disk: 1, run: filepath.Join(w.dir, name), dry: map[string]bool{}, mute: map[string]int{}, lossy: map[string]int{}}
	w.nodes = append(w.nodes, n)
	if err := os.MkdirAll(n.run, 0o700); err != nil {
		return err
	}
	return w.linkEtcd(n, true)
}

// agent starts the subject's process on the machine, unless a step holds it.
func (w *World) agent(ctx context.Context, n *node) error {
	w.mu.Lock()
	held := len(n.held) > 0
	w.mu.Unlock()
	if held {
		return nil
	}
	w.mu.Lock()
	dry := len(n.dry) > 0
	w.mu.Unlock()
	place := w.place(n)
	place.DryRun = dry
	p := w.Subject.Agent(place)
	if len(p.Args) == 0 { // it is kept running there
		return nil
	}
	return w.start(ctx, n.machine, n, p, w.hear)
}

// start starts an agent of the node on the machine, and has its events heard.
func (w *World) start(ctx context.Context, on Host, n *node, p trial.Program, hear func(*node, string)) error {
	return on.Start(ctx, machines.Command{Tag: AgentTag, Args: p.Args, Env: p.Environment(),
		Stdout: func(line string) { n.keep(line); hear(n, line) },
		Stderr: n.keep})
}

// AgentTag marks an agent, and all that it starts. Where a lab keeps agents running, it
// marks them so.
const AgentTag = "agent"

// isAgent reports whether the process is an agent itself: of all that bears its tag
// the one that was started as such, unless it has made itself its etcd.
func (w *World) isAgent(p machines.Process) bool {
	return p.Tag == AgentTag && p.Leads && !w.isEtcd(p)
}

// isEtcd reports whether the process is the subject's etcd.
func (w *World) isEtcd(p machines.Process) bool {
	program := w.Subject.Etcd().Program
	return p.Exe == program || len(p.Args) > 0 && filepath.Base(p.Args[0]) == program
}

// signalEtcd signals the etcd of a machine.
func (w *World) signalEtcd(n *node, signal syscall.Signal) (machines.Evidence, error) {
	return n.machine.SignalExe(w.Subject.Etcd().Program, signal)
}

// site is what the subject is told before it is started.
func (w *World) site() trial.Site {
	s := trial.Site{Plan: w.plan, Dir: w.dir}
	if nodes, ok := w.lab.(Nodes); ok {
		s.Kubeconfig, s.Volume = nodes.Kubeconfig(), w.volume
	}
	for _, n := range w.nodes {
		s.Machines = append(s.Machines, w.place(n))
	}
	return s
}

// volume is where the run has what is at a path of a volume on a node.
func (w *World) volume(node, path string) (string, error) {
	for _, n := range w.present() {
		if k, ok := n.machine.(Kept); ok && k.Node() == node {
			return k.Volume(path), nil
		}
	}
	return "", fmt.Errorf("no machine is node %s", node)
}

// place is the machine as its subject is told of it.
func (w *World) place(n *node) trial.Machine {
	return trial.Machine{Name: w.plan.Ring.Host(n.name), Address: w.address(n), DataDir: n.machine.DataDir(), Plain: limits() != nil, Run: n.run,
		Etcd: w.binaries(n), Etcdctl: w.etcdctls()}
}

// address is what the other machines reach it by.
func (w *World) address(n *node) string {
	if w.plan.Ring.Domain != "" {
		return w.plan.Ring.Host(n.name)
	}
	if s, ok := n.machine.(Slotted); ok {
		if name, host, _ := s.Slot(); host != "" && w.slot(name) == n {
			return host
		}
	}
	return n.machine.Addr().String()
}

// slot is the node on which the pod of this name is, or else was last; nil: none. One that is
// off has it still, and has not heard that another has it by now.
func (w *World) slot(name string) (found *node) {
	w.mu.Lock()
	nodes := slices.Clone(w.nodes)
	w.mu.Unlock()
	for _, n := range nodes {
		s, ok := n.machine.(Slotted)
		if !ok {
			continue
		}
		of, _, here := s.Slot()
		if of != name {
			continue
		}
		if here && !n.lost && n.machine.On() {
			return n
		}
		found = n
	}
	return found
}

// named reports whether machines are reached by names, which the run doesn't resolve.
func (w *World) named() bool {
	_, on := w.lab.(Nodes)
	return on || w.plan.Ring.Domain != ""
}

// keep keeps what an agent prints, for whoever looks into a run that is still there.
func (n *node) keep(line string) {
	file, err := os.OpenFile(filepath.Join(n.run, trial.AgentOutput), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer file.Close()
	fmt.Fprintln(file, line)
}

func (w *World) hear(n *node, line string) {
	e, ok := w.Subject.Hear(line)
	if !ok {
		return
	}
	e.Machine, e.By = w.home(e.Machine, n), w.home(e.By, n)
	if e.Kind == ringproof.EventFaultLanded {
		w.mu.Lock()
		e.Fault = w.steps[e.Step]
		w.mu.Unlock()
	}
	e.At = w.Now()
	w.recorder.Record(e)
}

// home is the machine of whom the subject calls by this name: that on which the pod of the
// name is, or was last. Who has no name, or one that is no machine's, is told of where it was heard.
func (w *World) home(name string, heard *node) string {
	if _, on := w.lab.(Nodes); !on && name != "" {
		return name
	}
	if n := w.slot(name); n != nil && name != "" {
		return n.name
	}
	return heard.name
}

// listen is told of a line that was printed on a node.
func (w *World) listen(machine, line string) {
	if n := w.node(machine); n != nil {
		n.keep(line)
		w.hear(n, line)
	}
}

// restartAfter is how long an init system waits before it starts an agent again.
const restartAfter = 300 * time.Millisecond

// exited starts an agent again that died while its machine is on, as an init
// system would.
func (w *World) exited(e machines.Exit) {
	if e.Tag != AgentTag {
		return
	}
	w.tasks.Go(func() {
		n := w.node(e.Machine)
		w.mu.Lock()
		pause := restartAfter
		if e.Signal == syscall.SIGKILL {
			pause = max(pause, w.down)
		} else if n != nil {
			pause, n.down = max(pause, n.down), 0
		}
		w.mu.Unlock()
		time.Sleep(pause)
		w.mu.Lock()
		gone := w.ending || n == nil || n.lost || n.taken
		w.mu.Unlock()
		if !gone && n.machine.On() {
			_ = w.agent(context.Background(), n)
		}
	})
}

func (w *World) node(name string) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.name == name })
	if i < 0 {
		return nil
	}
	return w.nodes[i]
}

// Client opens client i on machine i, counted over the machines that are not
// lost.
func (w *World) Client(_ context.Context, i int) (ringproof.Client, error) {
	w.mu.Lock()
	var alive []*node
	for _, n := range w.nodes {
		if l := w.probers[n.name]; !n.lost && !n.taken && l != nil && l.member {
			alive = append(alive, n)
		}
	}
	w.mu.Unlock()
	if len(alive) == 0 {
		return nil, errors.New("no machine runs a member")
	}
	n := alive[i%len(alive)]
	url := w.url(n)
	c, err := w.dial(n, url)
	if err != nil {
		return nil, err
	}
	return &client.Client{Etcd: c, Upkeep: c, Leases: etcdserverpb.NewLeaseClient(c.ActiveConnection()), Streams: client.Watcher{Watcher: c},
		Machine: n.name, URL: url, Shut: c.Close}, nil
}

// dial opens a client of the machine's etcd. The run resolves no names: it goes to the
// IP address, and expects there who has the name.
func (w *World) dial(n *node, url string) (*clientv3.Client, error) {
	if !w.named() {
		return client.Dial(url, w.secure)
	}
	return client.Dial(url, w.secure, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return n.reach(ctx, "tcp", n.at(w.Subject.Etcd().Client))
	}))
}

func (w *World) url(n *node) string {
	scheme := "http"
	if w.secure != nil {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s:%d", scheme, w.address(n), w.Subject.Etcd().Client)
}

// dialer is what has this name in package net.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// reach dials an address of the machine's.
func (n *node) reach(ctx context.Context, network, address string) (net.Conn, error) {
	if by, ok := n.machine.(Reached); ok {
		return by.Reach(ctx, address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// at is a port of the machine, by its IP address.
func (n *node) at(port int) string {
	return net.JoinHostPort(n.machine.Addr().String(), strconv.Itoa(port))
}

// Close ends every process and removes every volume. An error names what was
// left behind.
func (w *World) Close() error {
	w.mu.Lock()
	if w.over != nil && !w.ending {
		close(w.over)
	}
	w.ending = true
	looks := w.probers
	w.mu.Unlock()
	var errs []error
	if w.lab != nil {
		w.said = w.readLogs()
		errs = append(errs, w.lab.Close())
	}
	w.tasks.Wait()
	for _, l := range looks {
		l.close()
	}
	if w.lab != nil {
		errs = append(errs, w.leftovers())
	}
	return errors.Join(errs...)
}

// leftovers looks for a process of ours that lives on: one that was started on
// a volume of this world, or with its store.
func (w *World) leftovers() error {
	ours := []string{w.dir + "/"}
	for _, n := range w.nodes {
		ours = append(ours, n.machine.DataDir()+"/")
	}
	left := w.lab.Left(ours)
	if len(left) > 0 {
		return fmt.Errorf("processes left behind: %s", strings.Join(left, ", "))
	}
	return nil
}

// life is the pid of the agent; 0 when none runs.
func (w *World) life(n *node) int { return n.pid(w.isAgent) }

// etcd is the pid of the etcd; 0 when none runs.
func (w *World) etcd(n *node) int { return n.pid(w.isEtcd) }

func (n *node) pid(is func(machines.Process) bool) int {
	all, _ := n.machine.Processes()
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i].PID
	}
	return 0
}
