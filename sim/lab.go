// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"crypto/tls"
	"maps"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/sim/etcd"
)

// NewLab returns a world without a subject: machines on which whoever drives
// it starts etcd by hand. An exact one takes no shortcut.
func NewLab(seed uint64, exact bool) *World {
	w := New(seed, nil)
	w.exact(exact)
	w.recorder = nobody{}
	w.network.reset = true
	return w
}

type nobody struct{}

func (nobody) Record(ringproof.Event) {}

// Add adds a machine to a lab.
func (w *World) Add(name, address string) *Machine {
	w.add(name, address)
	return w.machine(name)
}

// Exit is how the machine's last etcd ended by itself: its exit status, and
// why. ok is false while it runs, or when it was made to end.
func (m *Machine) Exit() (code int, why string, ok bool) {
	return m.exit.code, m.exit.why, m.exit.ok && m.etcd == nil
}

type exit struct {
	code  int
	why   string
	ok    bool
	usage bool // of a flag that it doesn't take, which is no panic for all its code
}

// said is the last that an etcd prints which ends by itself: Go's line of a panic, after which
// the code is 2, or etcd's own of what it took for fatal.
func (e exit) said() string {
	if e.code == 2 && !e.usage {
		return "panic: " + strings.TrimPrefix(e.why, "panic: ")
	}
	return "fatal: " + e.why
}

// TellEtcd sends SIGTERM to the machine's etcd, if one runs, and doesn't wait for its end.
func (m *Machine) TellEtcd() {
	if m.etcd != nil {
		m.world.terminate(m.etcd)
	}
}

// KillEtcd sends SIGKILL to the machine's etcd, if one runs.
func (m *Machine) KillEtcd() {
	if m.etcd != nil {
		m.etcd.end()
	}
}

// PowerCut takes the machine's power for a moment: what was not synced is lost.
func (m *Machine) PowerCut() {
	m.powerOff()
	m.on = true
}

// Wipe puts an empty disk in.
func (m *Machine) Wipe() { m.insert(newDisk(m.disk.capacity)) }

// Cut cuts the machine off all others until it is joined again, as a relay does
// that closes its connections: the others notice at once. In a world a cut
// drops packets, which etcd notices after five seconds.
func (m *Machine) Cut() {
	w := m.world
	w.block(m.name, []*Machine{m}, w.machines, "")
	w.block(m.name, w.machines, []*Machine{m}, "")
}

// Part cuts two machines off one another.
func (m *Machine) Part(other *Machine) {
	m.world.block(m.name, []*Machine{m}, []*Machine{other}, "")
	m.world.block(m.name, []*Machine{other}, []*Machine{m}, "")
}

// Occupy has another program take one of the machine's ports, "peer" or "client".
func (m *Machine) Occupy(port string) { m.occupied = port }

// Unlink removes the data of the machine's etcd, which runs on.
func (m *Machine) Unlink() { m.unlink() }

// LosePart takes a part of the data of the machine's etcd away: "wal", "snap" or "db".
func (m *Machine) LosePart(part string) error { return m.disk.each(part, (*etcd.Dir).Lose) }

// DamagePart makes it unreadable.
func (m *Machine) DamagePart(part string) error { return m.disk.each(part, (*etcd.Dir).DamagePart) }

func (d *disk) each(part string, do func(*etcd.Dir, string) error) error {
	for _, name := range slices.Sorted(maps.Keys(d.data)) {
		if err := do(d.data[name], part); err != nil {
			return err
		}
	}
	return nil
}

// Join mends what Cut and Part cut.
func (m *Machine) Join() { m.world.network.mend(m.name) }

// ClusterVersion is what the machine's member says the ring speaks, "3.6.0";
// "" when none serves.
func (m *Machine) ClusterVersion() string {
	if s := m.etcd; s != nil && s.etcd != nil {
		return s.etcd.ClusterVersion()
	}
	return ""
}

// Connect opens a client for the lab, whom no cut cuts off.
func (w *World) Connect(endpoint string, secure *tls.Config) (host.Etcd, *Watches, error) {
	c, err := w.dial(nil, endpoint, secure)
	if err != nil {
		return nil, nil, err
	}
	return c, &Watches{streams{connection: c.connection}}, nil
}

// Watches opens watches that are pulled from, each on a stream of its own.
type Watches struct{ streams streams }

// Open opens a watch as the request asks, and returns once etcd has created it.
// Like clientv3 it asks again, until ctx ends, where etcd isn't available.
func (w *Watches) Open(ctx context.Context, r *pb.WatchCreateRequest) (*Watching, error) {
	const pause = 100 * time.Millisecond
	for {
		c, err := w.streams.start(r, true)
		if err != nil {
			return nil, err
		}
		if _, err = c.next(ctx, true); err == nil {
			return &Watching{c}, nil
		}
		c.Close()
		if status.Code(c.err) != codes.Unavailable {
			return nil, err
		}
		if err := w.streams.connection.world.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// Watching is one open watch.
type Watching struct{ channel *channel }

var _ client.Stream = (*Watching)(nil)

// Next returns the next response, or ctx's error when there is none before.
func (w *Watching) Next(ctx context.Context) (clientv3.WatchResponse, error) {
	return w.channel.Next(ctx)
}

// Progress asks for a progress notification; Next returns it.
func (w *Watching) Progress(context.Context) error {
	w.channel.askProgress()
	return nil
}

// Close ends the watch.
func (w *Watching) Close() { w.channel.Close() }
