// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/internal/raftlog"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/sim/etcd"
)

// Subject is the automation on trial. Its code runs on simulated machines: it
// may block in the calls of a [Machine], of the store and of the clients that
// they open, and nowhere else.
type Subject interface {
	// Seed prepares what the machines meet in.
	Seed(ctx context.Context, plan ringproof.Plan, w *World) error
	// Agent returns one life of the subject's process on the machine, from its
	// start until ctx ends. It is asked anew for each life; what a life knew dies
	// with it.
	Agent(m *Machine) func(ctx context.Context) error
	// Harm sets the faults at the subject's own seams on a machine.
	Harm(s Seams, machine string) error
	// Ask carries out an operation. An error that wraps ringproof.ErrRefused says
	// that the subject refused it.
	Ask(ctx context.Context, op ringproof.Op, targets []string) (string, error)
	// Hear turns a line of an agent's log into an event.
	Hear(l host.Line) (ringproof.Event, bool)
	// Credentials are those of a client of the ring; nil: plain.
	Credentials(ctx context.Context) (*tls.Config, error)
}

// Seams are the faults at the subject's seams on one machine.
type Seams struct {
	Step        string
	StoreOutage bool
	StoreStale  bool
	Fault       *ringproof.Fault // one that the subject's decorators carry out; nil: none
}

// World is a simulated ring of machines. One is used once, for one plan.
type World struct {
	Subject Subject
	Version string // of ringproof
	Trace   Trace  // of the run, once it is over; Told, From and To are read before

	engine     *engine
	network    *network
	requests   etcd.Requests
	bucket     bucket
	plan       ringproof.Plan
	recorder   ringproof.Recorder
	machines   []*Machine
	places     map[string]*place
	dialers    map[*tls.Config]*identity
	identities map[string]*identity // of listeners, by their files: an etcd that starts again shows the same
	secure     *tls.Config
	members    map[*Machine]bool     // whose etcd has answered as a member
	logs       []ringproof.MemberLog // of disks that faults took
	cleared    []raftlog.Log         // that are on no disk any more: what the ring became is known from them too
	steps      map[string]ringproof.FaultKind
	swaps      map[string]bool // of disks, by step
	confirmed  confirmed
	pids       int
	numbers    uint64
	closing    bool
}

var _ ringproof.World = (*World)(nil)

// New returns the world of one plan, with the subject in it.
func New(seed uint64, s Subject) *World {
	w := &World{Subject: s, engine: newEngine(seed), bucket: bucket{map[string][]byte{}}, places: map[string]*place{},
		dialers: map[*tls.Config]*identity{}, identities: map[string]*identity{}, members: map[*Machine]bool{}, steps: map[string]ringproof.FaultKind{}, swaps: map[string]bool{}}
	w.network = newNetwork(w)
	return w
}

// patience is how many events a run may take: hours of a ring's life. A subject
// that never waits would take for ever.
const patience = 60_000_000

// Drive runs f, and everything that it starts, in virtual time; only code that
// runs in Drive may use the world. It returns when f does. An error says that
// ctx, which lives in real time, ended, or that the world broke.
func (w *World) Drive(ctx context.Context, f func(context.Context)) error {
	defer w.engine.possess()()
	w.engine.budget = patience
	w.engine.trace.Told, w.engine.trace.From, w.engine.trace.To = w.Trace.Told, w.Trace.From, w.Trace.To
	over := false
	w.engine.spawn(nil, "run", func() {
		defer func() { over = true }()
		f(ctx)
	})
	err := w.engine.drive(ctx, func() bool { return over })
	w.Trace = w.engine.trace
	w.bury()
	return err
}

// Traced names the trace of the run, once it is over: the hash in hex, and how
// many events it is of.
func (w *World) Traced() string { return fmt.Sprintf("%016x, %d events", w.Trace.Hash, w.Trace.Events) }

// bury ends every task that still waits, so that its coroutine goes too.
func (w *World) bury() {
	w.closing = true
	for _, m := range w.machines {
		m.killAgent()
	}
	for _, t := range w.engine.own {
		t.kill()
	}
}

// Name returns sim.
func (w *World) Name() string { return "sim" }

// Now is the virtual time since the world began.
func (w *World) Now() ringproof.Instant { return w.engine.now }

// Sleep waits in virtual time.
func (w *World) Sleep(ctx context.Context, d time.Duration) error { return w.engine.sleep(ctx, d) }

// Timeout is context.WithTimeout in virtual time.
func (w *World) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return w.engine.timeout(ctx, d)
}

// Go runs a task.
func (w *World) Go(ctx context.Context, name string, f func(context.Context)) {
	w.engine.spawn(nil, name, func() { f(ctx) })
}

// Supports: there is nothing that can't be simulated but what isn't modelled.
func (w *World) Supports(s ringproof.Step) error { return Supports(s) }

// Tools tells what the run was made with. Every etcd is the model.
func (w *World) Tools() ringproof.Tools {
	return ringproof.Tools{Ringproof: w.Version, Go: runtime.Version(), Etcd: map[string]string{w.plan.Ring.Version: "simulated"}}
}

func (w *World) versions() []string { return []string{w.plan.Ring.Version} }

// process makes a process of a machine.
func (w *World) process(name string, m *Machine) *process {
	w.numbers++
	return &process{name: name, number: w.numbers, machine: m, engine: w.engine}
}

// Start brings up the machines, seeds the subject and starts its agents.
func (w *World) Start(ctx context.Context, plan ringproof.Plan, recorder ringproof.Recorder) (err error) {
	w.plan, w.recorder = plan, recorder
	for i := range plan.Ring.Machines {
		w.add(fmt.Sprintf("m%d", i+1), fmt.Sprintf("10.0.0.%d", i+1))
	}
	if err := w.Subject.Seed(ctx, plan, w); err != nil {
		return fmt.Errorf("seeding the subject: %w", err)
	}
	if w.secure, err = w.Subject.Credentials(ctx); err != nil {
		return fmt.Errorf("the subject's credentials: %w", err)
	}
	for _, m := range w.machines {
		m.life = ctx
		m.startAgent()
	}
	return nil
}

func (w *World) add(name, address string) {
	m := &Machine{name: name, address: address, world: w, on: true, number: len(w.machines) + 1,
		nonces: w.engine.chance("nonces of " + name), delays: w.engine.chance("delays of " + name)}
	m.insert(newDisk(w.plan.Ring.Volume))
	w.machines = append(w.machines, m)
}

// Machines lists the machines, lost ones too.
func (w *World) Machines() []*Machine { return slices.Clone(w.machines) }

func (w *World) machine(name string) *Machine {
	i := slices.IndexFunc(w.machines, func(m *Machine) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return w.machines[i]
}

func (w *World) present() []*Machine {
	return slices.DeleteFunc(slices.Clone(w.machines), func(m *Machine) bool { return m.lost })
}

// tell records an event, and lets the trace know.
func (w *World) tell(e ringproof.Event) {
	w.engine.trace.note(string(e.Kind) + " " + e.Machine + " " + e.Action)
	w.recorder.Record(e)
}

func (w *World) hear(m *Machine, l host.Line) {
	e, ok := w.Subject.Hear(l)
	if !ok {
		return
	}
	if e.Machine == "" {
		e.Machine = m.name
	}
	if e.Kind == ringproof.EventFaultLanded {
		e.Fault = w.steps[e.Step]
	}
	e.At = w.Now()
	w.tell(e)
}

// Dial opens a client of one endpoint for the harness or an operator, whom no
// partition cuts off.
func (w *World) Dial(endpoint string, secure *tls.Config) (host.Etcd, error) {
	return w.dial(nil, endpoint, secure)
}

// Client opens client i on machine i, counted over the machines whose etcd has
// answered as a member.
func (w *World) Client(_ context.Context, i int) (ringproof.Client, error) {
	var alive []*Machine
	for _, m := range w.machines {
		if !m.lost && w.members[m] {
			alive = append(alive, m)
		}
	}
	if len(alive) == 0 {
		return nil, errors.New("no machine runs a member")
	}
	m := alive[i%len(alive)]
	c, err := w.dial(nil, w.url(m), w.secure)
	if err != nil {
		return nil, err
	}
	return &client.Client{Etcd: c, Streams: &streams{connection: c.connection}, Machine: m.name, Shut: c.Close}, nil
}

func (w *World) url(m *Machine) string {
	if w.secure == nil {
		return "http://" + m.address + ":2379"
	}
	return "https://" + m.address + ":2379"
}

// Close ends the machines. Nothing of a simulated world can be left behind.
func (w *World) Close() error {
	w.closing = true
	for _, m := range w.machines {
		m.on = false
		m.killAgent()
		if m.etcd != nil {
			m.etcd.vanish()
		}
	}
	return nil
}
