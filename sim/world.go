// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/internal/observe"
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
	// Inject sets the faults at the subject's own seams on a machine.
	Inject(s ringproof.Seams, machine string) error
	// Ask carries out an operation. An error that wraps ringproof.ErrRefused says
	// that the subject refused it.
	Ask(ctx context.Context, op ringproof.Op, targets []string) (string, error)
	// Hear turns a line of an agent's log into an event.
	Hear(l host.Line) (ringproof.Event, bool)
	// Credentials are those of a client of the ring; nil: plain.
	Credentials(ctx context.Context) (*tls.Config, error)
}

// Saver is a subject that can make a backup of the ring.
type Saver interface {
	Subject
	// Snapshot returns what would be in the file.
	Snapshot(ctx context.Context) ([]byte, error)
}

// World is a simulated ring of machines. One is used once, for one plan.
type World struct {
	Subject Subject
	Version string // of ringproof
	Trace   Trace  // of the run, once it is over; OnLine, From and To are read before

	engine     *engine
	network    *network
	requests   etcd.Requests
	work       etcd.Work
	bucket     bucket
	plan       ringproof.Plan
	recorder   ringproof.Recorder
	machines   []*Machine
	twins      []*Machine // of the machines, that faults brought up
	places     map[string]*place
	dialers    map[*tls.Config]*identity
	identities map[string]*identity // of listeners, by their files: an etcd that starts again shows the same
	secure     *tls.Config
	members    map[*Machine]bool     // whose etcd has answered as a member
	logs       []ringproof.MemberLog // of disks that faults took
	ran        observe.Lives         // what etcds ran on
	rejected   []ringproof.Rejection
	alarms     client.Alarms
	backups    []ringproof.Backup
	cleared    []raftlog.Log // that are on no disk any more: what the ring became is known from them too
	steps      map[string]ringproof.FaultKind
	swaps      map[string]bool // of disks, by step
	passed     time.Duration   // that all clocks went on by, beside the run's own time
	passing    map[string]bool // the steps in which they do
	confirmed  confirmed
	pids       int
	built      int // machines
	numbers    uint64
	closing    bool
	leaving    bool // agents that end are not started again
	stops      bool // the plan ends agents in good order
}

var _ ringproof.World = (*World)(nil)

// New returns the world of one plan, with the subject in it.
func New(seed uint64, s Subject) *World {
	w := &World{Subject: s, engine: newEngine(seed), bucket: newBucket(), places: map[string]*place{},
		dialers: map[*tls.Config]*identity{}, identities: map[string]*identity{}, members: map[*Machine]bool{}, steps: map[string]ringproof.FaultKind{}, swaps: map[string]bool{}, passing: map[string]bool{}}
	w.network = newNetwork(w)
	return w
}

// exact has the world take no shortcut: the members do all of their work, each
// handshake is made, and each list that is to be fresh is read with a quorum.
func (w *World) exact(on bool) { w.work = etcd.Work{Own: on, Ask: on} }

// patience is how many events a run may take: hours of a ring's life. A subject
// that never waits would take for ever.
const patience = 60_000_000

// Drive runs f, and everything that it starts, in virtual time; only code that
// runs in Drive may use the world. It returns when f does. An error says that
// ctx, which lives in real time, ended, or that the world broke.
func (w *World) Drive(ctx context.Context, f func(context.Context)) error {
	defer w.engine.possess()()
	w.engine.budget = patience
	w.engine.trace.OnLine, w.engine.trace.From, w.engine.trace.To = w.Trace.OnLine, w.Trace.From, w.Trace.To
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
	for _, m := range slices.Concat(w.machines, w.twins) {
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
	etcd := map[string]string{}
	for _, version := range w.versions() {
		etcd[version] = "simulated"
	}
	return ringproof.Tools{Ringproof: w.Version, Go: runtime.Version(), Etcd: etcd, Virtual: true}
}

// Clock is what a clock shows that is right.
func (w *World) Clock() time.Time { return Epoch.Add(w.clock()) }

func (w *World) clock() time.Duration { return time.Duration(w.engine.now) + w.passed }

func (w *World) versions() []string { return w.plan.Versions() }

// process makes a process of a machine.
func (w *World) process(name string, m *Machine) *process {
	w.numbers++
	return &process{name: name, number: w.numbers, machine: m, engine: w.engine}
}

// Start brings up the machines, seeds the subject and starts its agents.
func (w *World) Start(ctx context.Context, plan ringproof.Plan, recorder ringproof.Recorder) (err error) {
	w.plan, w.recorder = plan, recorder
	if plan.Encrypts() {
		w.network.talks = map[link]*ringproof.Talk{}
	}
	w.stops = slices.ContainsFunc(plan.Steps, func(s ringproof.Step) bool { return s.Op != nil && s.Op.Ends() })
	for i := range plan.Ring.Machines {
		m := w.add(fmt.Sprintf("m%d", i+1), fmt.Sprintf("10.0.0.%d", i+1))
		if plan.Ring.Domain != "" {
			m.called = plan.Ring.Host(m.name)
			m.address = m.called
		}
	}
	if err := w.Subject.Seed(ctx, plan, w); err != nil {
		return fmt.Errorf("seeding the subject: %w", err)
	}
	w.bucket.made = maps.Clone(w.bucket.objects)
	if w.secure, err = w.Subject.Credentials(ctx); err != nil {
		return fmt.Errorf("the subject's credentials: %w", err)
	}
	for _, m := range w.machines {
		m.life = ctx
		m.startAgent()
	}
	return nil
}

func (w *World) add(name, ip string) *Machine {
	m := w.build(name, name, ip)
	w.machines = append(w.machines, m)
	return m
}

// build makes a machine that is on, with an empty disk.
func (w *World) build(name, called, ip string) *Machine {
	w.built++
	m := &Machine{name: name, called: called, ip: ip, address: ip, world: w, on: true, number: w.built, dry: map[string]bool{},
		nonces: w.engine.chance("nonces of " + name), delays: w.engine.chance("delays of " + name)}
	m.insert(newDisk(w.plan.Ring.Volume))
	return m
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

// Machine is the machine of that name; nil: there is none.
func (w *World) Machine(name string) *Machine { return w.machine(name) }

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
	return &client.Client{Etcd: c, Upkeep: c, Leases: remoteLease{c.connection}, Streams: &streams{connection: c.connection},
		Machine: m.name, URL: w.url(m), Shut: c.Close}, nil
}

func (w *World) url(m *Machine) string {
	if w.secure == nil {
		return "http://" + m.address + ":2379"
	}
	return "https://" + m.address + ":2379"
}

// Close ends the world. The agents have been told to end by then, as their context
// has ended: what they leave behind that is theirs to end is an error. Then the
// machines are switched off.
func (w *World) Close() error {
	left := w.leave()
	w.closing = true
	for _, m := range slices.Concat(w.machines, w.twins) {
		if m.standIn != nil {
			m.standIn.powerOff()
		}
		m.on = false
		m.killAgent()
		if m.etcd != nil {
			m.etcd.vanish()
		}
	}
	return left
}

// leave waits for the agents that run to end, and tells what is left of them.
func (w *World) leave() error {
	w.leaving = true
	var told []*Machine
	for _, m := range w.present() {
		if m.on && m.agent != nil && !m.agent.ended && !m.agent.stands() && !m.DryRun() && m.life != nil && m.life.Err() != nil {
			told = append(told, m)
		}
	}
	runs := func(m *Machine) bool { return !m.agent.ended }
	for waited := time.Duration(0); slices.ContainsFunc(told, runs) && waited < stopWithin; waited += 100 * time.Millisecond {
		if err := w.Sleep(context.Background(), 100*time.Millisecond); err != nil {
			return nil // the run was broken off: nobody is there to be asked
		}
	}
	var left []error
	for _, m := range told {
		switch {
		case runs(m):
			left = append(left, fmt.Errorf("%s: the agent was told to end %s ago, and runs", m.name, stopWithin))
		case m.etcd != nil:
			left = append(left, fmt.Errorf("%s: the agent was told to end and has ended, and its etcd, pid %d, runs", m.name, m.etcd.pid))
		}
	}
	return errors.Join(left...)
}
