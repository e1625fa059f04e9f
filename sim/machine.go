// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/observe"
	"github.com/ringproof/ringproof/reference/host"
)

// Epoch is what every machine's clock shows when a world begins.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Machine is one simulated machine: a clock, a disk, an address on the network,
// the subject's agent and the etcd that the agent starts. To the agent it is a
// [host.Host].
type Machine struct {
	name     string
	called   string // by what runs on it: another machine may have the same name
	ip       string
	address  string // what the others reach it by: its IP address, or its name
	world    *World
	disk     *disk
	away     *disk // the data filesystem that isn't mounted; then disk is what lies below
	below    *disk // the directory of the root filesystem on which the other is mounted; nil: nobody has looked into it yet
	disks    int   // it has had
	on       bool  // it has power
	lost     bool  // for good
	skew     time.Duration
	sleep    sleep
	agent    *process
	etcd     *server
	nonces   *stream
	delays   *stream
	down     time.Duration      // before an agent that was made to crash comes back
	held     map[string]bool    // steps that keep the agent from being started
	quit     context.CancelFunc // SIGTERM to the agent; nil: it can't be had
	tools    []*process         // what an operator runs here
	failing  map[string]string  // by step: when an etcd that is started ends
	words    string             // the last output of etcd
	printed  ringproof.Output   // by its agents
	exit     exit               // of the last etcd that ended by itself
	life     context.Context
	number   int
	arrives  []ringproof.Instant // by machine: when what was sent to it last gets there
	occupied string              // a port that another program has: "peer" or "client"

	dry     map[string]bool // by the steps that have its agent change nothing
	standIn *Machine        // who answers at its address meanwhile
	strange bool            // no machine of the plan's: nobody counts it
	lookup  *lookup         // what others are told of its name; nil: its address
}

var _ host.Host = (*Machine)(nil)

// Name returns m1, m2, …
func (m *Machine) Name() string { return m.name }

// Hostname is what the machine is called by what runs on it. Name tells it from
// another that was given the same one.
func (m *Machine) Hostname() string { return m.called }

// DryRun reports whether the agent is to change nothing.
func (m *Machine) DryRun() bool { return len(m.dry) > 0 }

// Address is what peers and clients reach the machine by: an IP address, or in a
// ring that is in a domain its Hostname, which every machine resolves.
func (m *Machine) Address() string { return m.address }

// Binaries are the etcd releases on the machine, with their paths.
func (m *Machine) Binaries() map[string]string {
	all := map[string]string{}
	if m.strange {
		return map[string]string{"v3.0.0": binaryPath("v3.0.0")} // which no ring runs
	}
	for _, version := range m.world.plan.VersionsOn(m.name) {
		all[version] = binaryPath(version)
	}
	return all
}

// binaryPath is where a release of etcd is on every machine.
func binaryPath(version string) string { return "/opt/etcd/" + version + "/etcd" }

// Now is the machine's clock.
func (m *Machine) Now() time.Time { return Epoch.Add(m.clock()) }

// Monotonic is the time since the Epoch in which the machine wasn't suspended, whatever Now was set to.
func (m *Machine) Monotonic() time.Duration { return m.ran() + m.world.passed }

// clock is what it shows, since the Epoch.
func (m *Machine) clock() time.Duration { return m.world.clock() + m.skew }

// Sleep waits in virtual time; it returns early with ctx's error.
func (m *Machine) Sleep(ctx context.Context, d time.Duration) error {
	return m.world.engine.sleep(ctx, d)
}

// Timeout is context.WithTimeout in virtual time.
func (m *Machine) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	l := m.world.engine.limit(ctx, d)
	l.machine, l.ends = m, m.ran()+d
	return l, l.stop
}

// Nonce returns 16 hex digits, the same in every run of the plan.
func (m *Machine) Nonce() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], m.nonces.draw())
	return hex.EncodeToString(b[:])
}

// Log tells the harness a line of the agent's log.
func (m *Machine) Log(l host.Line) {
	m.world.engine.alive()
	l.Time, l.Machine = m.Now(), m.name
	observe.Hear(&m.printed, strings.Join([]string{l.Text, l.Command, l.Target, l.Action}, " "))
	m.world.engine.trace.note(string(l.Event))
	m.world.hear(m, l)
}

// Disk returns the data filesystem.
func (m *Machine) Disk() host.Disk { return mount{m} }

// Process returns the machine's etcd.
func (m *Machine) Process() host.Process { return supervisor{m} }

// Dial opens a client of one endpoint. Nothing is sent before the first request.
func (m *Machine) Dial(endpoint string, secure *tls.Config) (host.Etcd, error) {
	return m.world.dial(m, endpoint, secure)
}

// Kill ends the running agent's process in the middle of what it does, as a
// loss of power would: for decorators of the seams that carry out a crash.
func (m *Machine) Kill() {
	m.killAgent()
	m.world.engine.alive() // unwinds the caller, if it was the agent
}

func (m *Machine) killAgent() {
	if m.agent != nil {
		m.agent.end()
	}
}

// sent is when what was sent last to another machine, or to the harness (nil),
// gets there.
func (m *Machine) sent(to *Machine) *ringproof.Instant {
	i := 0
	if to != nil {
		i = to.number
	}
	for len(m.arrives) <= i {
		m.arrives = append(m.arrives, 0)
	}
	return &m.arrives[i]
}

// startAgent runs the subject's agent. One that ends is started again, as an init
// system would, while the machine has power.
func (m *Machine) startAgent() {
	if m.world.Subject == nil || len(m.held) > 0 {
		return // a lab has none
	}
	e := m.world.engine
	p := m.world.process("agent@"+m.name, m)
	m.agent = p
	life := m.live()
	p.panicked = func(what any) {
		m.world.hear(m, host.Line{Event: host.EventTrouble, Text: fmt.Sprintf("the agent panicked: %v", what)})
		p.end()
	}
	p.gone = append(p.gone, func() { m.comeBack(p) })
	e.spawn(p, p.name, func() {
		_ = m.world.Subject.Agent(m)(life)
		p.end()
	})
}

// live is the context of one life of the agent. Only what may end gets an end of
// its own: the engine looks after each of them at every turn of a task.
func (m *Machine) live() context.Context {
	if !m.world.stops {
		return m.life
	}
	life, quit := context.WithCancel(m.life)
	m.quit = quit
	return life
}

// restartAfter is how long an init system waits before it starts an agent again.
const restartAfter = 300 * time.Millisecond

func (m *Machine) comeBack(was *process) {
	pause := max(restartAfter, m.down)
	m.world.engine.after(pause, prioTimer, kindMachine, nil, func() {
		if m.agent == was && m.on && !m.lost && !m.world.closing && !m.world.leaving {
			m.startAgent()
		}
	})
}

// powerOff ends everything on the machine at once. What was not synced is lost.
func (m *Machine) powerOff() {
	m.on = false
	if m.asleep() {
		m.wakeUp()
	}
	m.killAgent()
	for _, p := range m.tools {
		p.end()
	}
	m.tools = nil
	if m.etcd != nil {
		m.etcd.vanish()
	}
	m.disk.powerLoss(m.delays)
}
