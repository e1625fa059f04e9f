// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package local is the world of real processes: real etcd binaries and the
// subject's real processes on this host, each machine a network namespace with
// its own address and its own data filesystem (package machines). It is the
// truth about etcd, in real time.
package local

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/look"
)

// Subject is the automation on trial, as processes.
type Subject interface {
	// Seed prepares what the machines meet in, below dir.
	Seed(ctx context.Context, plan ringproof.Plan, dir string) error
	// Agent is the command line to keep running on a machine.
	Agent(Machine) []string
	// Harm sets what one step does at the subject's own seams on a machine, in
	// the place of what that step set before. A step that sets nothing takes its
	// harm away.
	Harm(f Seams, machine string) error
	// Ask carries out an operation. An error that wraps ErrRefused says that
	// the subject refused it.
	Ask(ctx context.Context, op ringproof.Op, targets []string) (string, error)
	// Hear turns a line of an agent's output into an event.
	Hear(line string) (ringproof.Event, bool)
	// Credentials are those of a client of the ring; nil: plain.
	Credentials(context.Context) (*tls.Config, error)
}

// ErrRefused says that the subject refused an operation.
var ErrRefused = fmt.Errorf("%w by the subject", ringproof.ErrRefused)

// Machine is where an agent runs.
type Machine struct {
	Name    string
	Address string
	DataDir string // its data filesystem, as it sees it
	Run     string // a directory that outlives its volume
	Etcd    map[string]string
}

// Seams is what one step does at the subject's seams on one machine.
type Seams struct {
	Step        string
	StoreOutage bool
	StoreStale  bool
	Fault       *ringproof.Fault // at an action, effect or decision of the subject
}

// World is a ring of real processes.
type World struct {
	Releases map[string]etcdbin.Release // by version: at least those of the plan
	Subject  Subject
	Version  string // of ringproof

	began    time.Time
	lab      *machines.Lab
	dir      string
	plan     ringproof.Plan
	recorder ringproof.Recorder
	tasks    sync.WaitGroup

	mu     sync.Mutex
	nodes  []*node
	secure *tls.Config
	looks  map[string]*looker
	logs   []ringproof.MemberLog // of disks that are gone
	steps  map[string]ringproof.FaultKind
	down   time.Duration // of an agent that was made to crash
	ending bool
}

// node is one machine with what the harness did to it.
type node struct {
	name    string
	machine *machines.Machine
	run     string
	disk    int
	wal     uint64 // inode of the log on the disk; 0: none was seen
	swap    bool   // its volume is being swapped
	lost    bool
	paused  bool
	etcd    int // pid of its etcd, as last seen
}

var _ ringproof.World = (*World)(nil)

// Name returns local.
func (w *World) Name() string { return "local" }

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

// Supports tells whether this host can do the step.
func (w *World) Supports(s ringproof.Step) error { return Supports(s, limits()) }

// Supports tells whether a local world with these limits (nil: namespaces) can
// do the step.
func Supports(s ringproof.Step, limits error) error {
	if s.Fault == nil {
		return nil
	}
	if e, known := faults.Lookup(s.Fault.Kind); known && !slices.Contains(e.Worlds, "local") {
		return fmt.Errorf("%s: only %s can do it: %w", s.Fault.Kind, strings.Join(e.Worlds, " or "), errors.ErrUnsupported)
	}
	if limits == nil {
		return nil
	}
	if s.Fault.Kind == ringproof.FaultPartition || s.Fault.Kind == ringproof.FaultDiskFull {
		return fmt.Errorf("%s: %w", s.Fault.Kind, limits)
	}
	return nil
}

func limits() error {
	if machines.Inside() {
		return nil
	}
	return fmt.Errorf("this process runs without namespaces of its own: %w; see ringproof doctor", errors.ErrUnsupported)
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
	w.looks, w.steps = map[string]*looker{}, map[string]ringproof.FaultKind{}
	if w.lab, err = machines.NewLab(ctx, machines.Options{VolumeBytes: plan.Ring.Volume, OnExit: w.exited}); err != nil {
		return err
	}
	w.dir = w.lab.Shared()
	for i := range plan.Ring.Machines {
		if err := w.add(ctx, fmt.Sprintf("m%d", i+1)); err != nil {
			return err
		}
	}
	w.began = time.Now()
	if err := w.Subject.Seed(ctx, plan, w.dir); err != nil {
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
	n := &node{name: name, machine: m, disk: 1, run: filepath.Join(w.dir, name)}
	w.nodes = append(w.nodes, n)
	return os.MkdirAll(n.run, 0o700)
}

// agent starts the subject's process on the machine.
func (w *World) agent(ctx context.Context, n *node) error {
	binaries := map[string]string{}
	for version, r := range w.Releases {
		binaries[version] = r.Etcd
	}
	args := w.Subject.Agent(Machine{Name: n.name, Address: n.machine.Addr().String(), DataDir: n.machine.DataDir(), Run: n.run, Etcd: binaries})
	return n.machine.Start(ctx, machines.Command{Tag: "agent", Args: args,
		Stdout: func(line string) { w.hear(n, line) },
		Stderr: func(line string) { n.complain(line) }})
}

// complain keeps what an agent says on its standard error, for whoever looks
// into a run that is still there.
func (n *node) complain(line string) {
	file, err := os.OpenFile(filepath.Join(n.run, "agent.err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
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
	if e.Machine == "" {
		e.Machine = n.name
	}
	if e.Kind == ringproof.EventFaultLanded {
		w.mu.Lock()
		e.Fault = w.steps[e.Step]
		w.mu.Unlock()
	}
	e.At = w.Now()
	w.recorder.Record(e)
}

// restartAfter is how long an init system waits before it starts an agent again.
const restartAfter = 300 * time.Millisecond

// exited starts an agent again that died while its machine is on, as an init
// system would.
func (w *World) exited(e machines.Exit) {
	if e.Tag != "agent" {
		return
	}
	w.tasks.Go(func() {
		n := w.node(e.Machine)
		w.mu.Lock()
		pause := restartAfter
		if e.Signal == syscall.SIGKILL {
			pause = max(pause, w.down)
		}
		w.mu.Unlock()
		time.Sleep(pause)
		w.mu.Lock()
		gone := w.ending || n == nil || n.lost
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
		if l := w.looks[n.name]; !n.lost && l != nil && l.member {
			alive = append(alive, n)
		}
	}
	w.mu.Unlock()
	if len(alive) == 0 {
		return nil, errors.New("no machine runs a member")
	}
	n := alive[i%len(alive)]
	c, err := client.Dial(w.url(n), w.secure)
	if err != nil {
		return nil, err
	}
	return &client.Client{Etcd: c, Streams: client.Watcher{Watcher: c}, Machine: n.name, Shut: c.Close}, nil
}

func (w *World) url(n *node) string {
	scheme := "http"
	if w.secure != nil {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s:2379", scheme, n.machine.Addr())
}

// Close ends every process and removes every volume. An error names what was
// left behind.
func (w *World) Close() error {
	w.mu.Lock()
	w.ending = true
	looks := w.looks
	w.mu.Unlock()
	var errs []error
	if w.lab != nil {
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
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var left []string
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err == nil && slices.ContainsFunc(ours, func(path string) bool { return strings.Contains(string(text), path) }) {
			name, _, _ := strings.Cut(string(text), "\x00")
			left = append(left, filepath.Base(name)+" "+filepath.Base(filepath.Dir(file)))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("processes left behind: %s", strings.Join(left, ", "))
	}
	return nil
}

// Do carries out an operation or applies a fault.
func (w *World) Do(ctx context.Context, s ringproof.Step, targets []string) (string, error) {
	if s.Op != nil {
		return w.operate(ctx, *s.Op, targets)
	}
	w.mu.Lock()
	w.steps[s.Name] = s.Fault.Kind
	w.mu.Unlock()
	if evidence, seam, err := w.seam(s, targets); seam {
		return evidence, err
	}
	if s.Fault.Kind == ringproof.FaultPartition {
		return w.partition(*s.Fault, targets)
	}
	return w.each(targets, func(n *node) (machines.Evidence, error) { return w.harm(ctx, n, *s.Fault) })
}

// each does the same to every target at once, as a power cut does.
func (w *World) each(targets []string, do func(*node) (machines.Evidence, error)) (string, error) {
	evidence := make([]string, len(targets))
	failures := make([]error, len(targets))
	var all sync.WaitGroup
	for i, name := range targets {
		all.Go(func() {
			n := w.node(name)
			if n == nil {
				failures[i] = fmt.Errorf("there is no machine %s", name)
				return
			}
			e, err := do(n)
			evidence[i], failures[i] = e.String(), err
		})
	}
	all.Wait()
	return strings.Join(evidence, "; "), errors.Join(failures...)
}

// harm does to one machine what the fault says.
func (w *World) harm(ctx context.Context, n *node, f ringproof.Fault) (machines.Evidence, error) {
	switch f.Kind {
	case ringproof.FaultKill:
		return w.kill(n, f.Scope)
	case ringproof.FaultPause:
		return w.pause(n, f.Scope)
	case ringproof.FaultMachineLoss:
		w.keepLog(n)
		w.mark(n, func() { n.lost = true })
		return n.machine.Destroy()
	case ringproof.FaultVolumeLoss:
		return w.loseVolume(ctx, n, f.Leave)
	case ringproof.FaultDiskFull:
		return n.machine.FillVolume()
	}
	return machines.Evidence{}, fmt.Errorf("%s is no fault of this world", f.Kind)
}

func (w *World) mark(n *node, change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *World) kill(n *node, scope string) (machines.Evidence, error) {
	switch scope {
	case "machine":
		return n.machine.PowerOff()
	case "agent":
		return w.signalAgent(n, syscall.SIGKILL)
	}
	return n.machine.SignalExe("etcd", syscall.SIGKILL)
}

func (w *World) pause(n *node, scope string) (machines.Evidence, error) {
	if scope == "agent" {
		return w.signalAgent(n, syscall.SIGSTOP)
	}
	stop := func() (machines.Evidence, error) { return n.machine.SignalExe("etcd", syscall.SIGSTOP) }
	if scope == "machine" {
		stop = n.machine.Freeze
	}
	before := n.paused
	w.mark(n, func() { n.paused = true }) // first: the observer must not wait for it
	e, err := stop()
	if err != nil {
		w.mark(n, func() { n.paused = before })
	}
	return e, err
}

// signalAgent signals the agent and leaves the etcd that it started alone.
func (w *World) signalAgent(n *node, signal syscall.Signal) (machines.Evidence, error) {
	all, err := n.machine.Processes()
	if err != nil {
		return machines.Evidence{}, err
	}
	for _, p := range all {
		if p.Tag == "agent" && filepath.Base(p.Args[0]) != "etcd" {
			return n.machine.SignalExe(filepath.Base(p.Args[0]), signal)
		}
	}
	return machines.Evidence{}, fmt.Errorf("no agent runs on %s", n.name)
}

// loseVolume puts an empty disk in. etcd dies with the old one, as a process
// does whose device is gone.
func (w *World) loseVolume(ctx context.Context, n *node, leave string) (machines.Evidence, error) {
	w.keepLog(n)
	var directories []string
	if leave == "directories" {
		directories = []string{"etcd/member/snap", "etcd/member/wal"}
	}
	w.mark(n, func() { n.disk, n.wal, n.swap = n.disk+1, 0, true }) // first: what starts next is on it
	defer w.mark(n, func() { n.swap = false })
	e, err := n.machine.SwapVolume(ctx, directories...)
	if err != nil {
		return e, err
	}
	if n.machine.On() {
		err = w.revive(ctx, n)
	}
	return e, err
}

// revive starts the agent if the harm has ended it.
func (w *World) revive(ctx context.Context, n *node) error {
	all, err := n.machine.Processes()
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Tag == "agent" && filepath.Base(p.Args[0]) != "etcd" {
			return nil
		}
	}
	return w.agent(ctx, n)
}

// partition cuts the targets off from the other machines, both ways; isolate
// from each other too; one-way drops only what the others would hear of them.
// Clients reach everyone.
func (w *World) partition(f ringproof.Fault, targets []string) (string, error) {
	var inside, outside []*node
	for _, n := range w.present() {
		if slices.Contains(targets, n.name) {
			inside = append(inside, n)
		} else {
			outside = append(outside, n)
		}
	}
	evidence, err := block(outside, inside)
	if err != nil || f.Shape == "one-way" {
		return evidence, err
	}
	if f.Shape == "isolate" {
		outside = append(outside, inside...)
	}
	back, err := block(inside, outside)
	return evidence + "; " + back, err
}

func block(at, from []*node) (string, error) {
	var said []string
	for _, n := range at {
		for _, other := range from {
			if other == n {
				continue
			}
			e, err := n.machine.Block(other.machine.Addr())
			if err != nil {
				return "", err
			}
			said = append(said, e.String())
		}
	}
	return strings.Join(said, "; "), nil
}

func (w *World) present() []*node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return n.lost })
}

// seam sets a fault at the subject's own seams. It has landed when the subject
// says that it met it.
func (w *World) seam(s ringproof.Step, targets []string) (string, bool, error) {
	harm := Seams{Step: s.Name}
	switch s.Fault.Kind {
	case ringproof.FaultStoreOutage:
		harm.StoreOutage = true
	case ringproof.FaultStoreStale:
		harm.StoreStale = true
	case ringproof.FaultStaleView, ringproof.FaultSkippedView:
		harm.Fault = s.Fault
	case ringproof.FaultAgentCrash:
		harm.Fault = s.Fault
		w.mu.Lock()
		w.down = s.Fault.For.Std()
		w.mu.Unlock()
	default:
		return "", false, nil
	}
	if len(targets) == 0 {
		for _, n := range w.present() {
			targets = append(targets, n.name)
		}
	}
	var errs []error
	for _, name := range targets {
		errs = append(errs, w.Subject.Harm(harm, name))
	}
	return "", true, errors.Join(errs...)
}

// Heal takes a fault away.
func (w *World) Heal(ctx context.Context, s ringproof.Step, targets []string) error {
	switch s.Fault.Kind {
	case ringproof.FaultStoreOutage, ringproof.FaultStoreStale, ringproof.FaultAgentCrash, ringproof.FaultStaleView, ringproof.FaultSkippedView:
		var errs []error
		for _, n := range w.present() {
			errs = append(errs, w.Subject.Harm(Seams{Step: s.Name}, n.name))
		}
		return errors.Join(errs...)
	case ringproof.FaultPartition:
		for _, n := range w.present() {
			if _, err := n.machine.Unblock(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := w.each(targets, func(n *node) (machines.Evidence, error) { return machines.Evidence{}, w.healOne(ctx, n, *s.Fault) })
	return err
}

func (w *World) healOne(ctx context.Context, n *node, f ringproof.Fault) error {
	switch {
	case n.lost:
		return nil
	case f.Kind == ringproof.FaultDiskFull:
		_, err := n.machine.FreeVolume()
		return err
	case f.Kind == ringproof.FaultPause:
		w.mark(n, func() { n.paused = false })
		_, err := n.machine.Thaw()
		return err
	case f.Kind == ringproof.FaultKill && f.Scope == "machine" && !n.machine.On():
		if _, err := n.machine.PowerOn(ctx); err != nil {
			return err
		}
		return w.agent(ctx, n)
	}
	return nil // the subject starts what was killed
}

// operate carries out what an operator asks.
func (w *World) operate(ctx context.Context, op ringproof.Op, targets []string) (string, error) {
	switch op.Kind {
	case ringproof.OpRestart:
		return w.restart(ctx, w.node(targets[0]))
	case ringproof.OpRoll:
		return w.roll(ctx)
	}
	return w.Subject.Ask(ctx, op, targets)
}

// roll restarts one member after another, the leader last.
func (w *World) roll(ctx context.Context) (string, error) {
	o, err := w.Observe(ctx)
	if err != nil {
		return "", err
	}
	members := look.Rolled(o)
	for _, m := range members {
		if _, err := w.restart(ctx, w.node(m.Machine)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d members", len(members)), nil
}

// restart stops an etcd in order and waits until the subject has it serving
// again.
func (w *World) restart(ctx context.Context, n *node) (string, error) {
	if n == nil {
		return "", errors.New("there is no such machine")
	}
	e, err := n.machine.SignalExe("etcd", syscall.SIGTERM)
	if err != nil {
		return "", err
	}
	before := e.Processes[0].PID
	for ctx.Err() == nil {
		if err := w.Sleep(ctx, 100*time.Millisecond); err != nil {
			break
		}
		o, err := w.Observe(ctx)
		if m, on := o.On(n.name); err == nil && on && m.Serving && w.pid(n) != before {
			return e.String(), nil
		}
	}
	return "", fmt.Errorf("restarting etcd on %s: it does not serve again: %w", n.name, ctx.Err())
}

func (w *World) pid(n *node) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return n.etcd
}
