// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/store"
)

// keeper is a subject that keeps an etcd running on each of the first machines,
// or whatever else a test has its agents do.
type keeper struct {
	size, machines int
	volume         int64
	state          string                                      // of the cluster, as etcd starts; "": new
	agent          func(ctx context.Context, m *Machine) error // instead of keeping etcd
	secure         *security                                   // nil: plain
	spared         map[string]bool                             // machines on which etcd is not started any more

	world *World
	lives int // of all agents
	lines []host.Line
	set   []string // of faults at its seams
}

var _ Subject = (*keeper)(nil)

func (k *keeper) Seed(ctx context.Context, _ ringproof.Plan, w *World) error {
	k.world, k.spared = w, map[string]bool{}
	return store.Init(ctx, w.Store(nil))
}

func (k *keeper) Agent(m *Machine) func(context.Context) error {
	k.lives++
	if k.agent != nil {
		return func(ctx context.Context) error { return k.agent(ctx, m) }
	}
	return func(ctx context.Context) error {
		for ctx.Err() == nil {
			if running, err := m.Process().Running(); err != nil || running == nil && k.initialMember(m) {
				_ = k.start(ctx, m)
			}
			if err := m.Sleep(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
}

func (k *keeper) initialMember(m *Machine) bool {
	for _, other := range k.initialMembers() {
		if other == m {
			return !k.spared[m.Name()]
		}
	}
	return false
}

func (k *keeper) initialMembers() []*Machine { return k.world.Machines()[:k.size] }

func (k *keeper) start(ctx context.Context, m *Machine) error {
	if err := k.secure.write(m); err != nil {
		return err
	}
	return m.Process().Start(ctx, k.flags(m))
}

func (k *keeper) flags(m *Machine) []string {
	var ring []string
	for _, other := range k.initialMembers() {
		ring = append(ring, other.Name()+"="+k.url(other, 2380))
	}
	state := k.state
	if state == "" {
		state = "new"
	}
	return append([]string{binaryPath(k.world.plan.Ring.Version), "--name=" + m.Name(), "--data-dir=" + m.Disk().Path("etcd"),
		"--listen-peer-urls=" + k.url(m, 2380), "--initial-advertise-peer-urls=" + k.url(m, 2380),
		"--listen-client-urls=" + k.url(m, 2379), "--advertise-client-urls=" + k.url(m, 2379),
		"--initial-cluster=" + strings.Join(ring, ","), "--initial-cluster-state=" + state}, k.secure.flags(m)...)
}

func (k *keeper) url(m *Machine, port int) string {
	return fmt.Sprintf("%s://%s:%d", k.secure.scheme(), m.Address(), port)
}

func (k *keeper) Inject(s ringproof.Seams, machine string) error {
	k.set = append(k.set, s.Step+" "+machine)
	return nil
}

func (k *keeper) Ask(context.Context, ringproof.Op, []string) (string, error) {
	return "", ringproof.ErrRefused
}

func (k *keeper) Hear(l host.Line) (ringproof.Event, bool) {
	k.lines = append(k.lines, l)
	return ringproof.Event{}, false
}

func (k *keeper) Credentials(context.Context) (*tls.Config, error) { return k.secure.client(), nil }

// tape is a recorder that a test reads.
type tape struct {
	world  *World
	events []ringproof.Event
}

func (x *tape) Record(e ringproof.Event) {
	e.At = x.world.Now()
	x.events = append(x.events, e)
}

// of lists the machines of the events of one kind, in their order.
func (x *tape) of(kind ringproof.EventKind) (machines []string) {
	for _, e := range x.events {
		if e.Kind == kind {
			machines = append(machines, e.Machine)
		}
	}
	return machines
}

// stage is a world that a test plays in.
type stage struct {
	*testing.T
	*World
	*tape
	ctx  context.Context
	keep *keeper
}

// Name is the test's, where the world has one too.
func (s *stage) Name() string { return s.T.Name() }

// play runs f in a world with the keeper in it. The seed is of all its chance.
func play(t *testing.T, seed uint64, k *keeper, f func(*stage)) {
	t.Helper()
	w := New(seed, k)
	x := &tape{world: w}
	plan := ringproof.Plan{Seed: seed, Ring: ringproof.RingSpec{Size: k.size, Machines: max(k.size, k.machines), Version: "v3.6.16", Volume: k.volume}}
	require.NoError(t, w.Drive(t.Context(), func(ctx context.Context) {
		defer w.Close()
		require.NoError(t, w.Start(ctx, plan, x))
		f(&stage{t, w, x, ctx, k})
	}))
}

// ring is play with a ring of so many that has formed.
func ring(t *testing.T, size int, f func(*stage)) {
	t.Helper()
	play(t, 7, &keeper{size: size}, func(s *stage) {
		s.formed()
		f(s)
	})
}

// formed waits until every initial member serves.
func (s *stage) formed() {
	s.Helper()
	s.until(20*time.Second, "the ring forms", func() bool { return len(s.serving()) == s.keep.size })
}

// serving lists the machines that serve, by a list read with a quorum.
func (s *stage) serving() (machines []string) {
	o := s.look()
	for _, m := range o.Members {
		if o.Fresh && m.Serving {
			machines = append(machines, m.Machine)
		}
	}
	return machines
}

func (s *stage) look() ringproof.Observation {
	s.Helper()
	o, err := s.Observe(s.ctx)
	require.NoError(s, err)
	return o
}

func (s *stage) until(within time.Duration, what string, ready func() bool) {
	s.Helper()
	for end := s.Now().Add(within); !ready(); {
		require.Less(s, s.Now(), end, "waited %v until %s", within, what)
		s.sleep(10 * time.Millisecond)
	}
}

func (s *stage) sleep(d time.Duration) {
	s.Helper()
	require.NoError(s, s.Sleep(s.ctx, d))
}

func (s *stage) leader() *Machine {
	s.Helper()
	l, ok := s.look().Leader()
	require.True(s, ok)
	return s.machine(l.Machine)
}

// follower returns a machine that doesn't lead.
func (s *stage) follower() *Machine {
	s.Helper()
	leader := s.leader()
	for _, m := range s.keep.initialMembers() {
		if m != leader {
			return m
		}
	}
	return nil
}

// do applies the fault under the name.
func (s *stage) do(name string, f ringproof.Fault, targets ...string) string {
	s.Helper()
	said, err := s.Do(s.ctx, ringproof.Step{Name: name, Fault: &f}, targets)
	require.NoError(s, err)
	return said
}

func (s *stage) heal(name string, f ringproof.Fault, targets ...string) {
	s.Helper()
	require.NoError(s, s.Heal(s.ctx, ringproof.Step{Name: name, Fault: &f}, targets))
}

// dial opens the harness's client of the machine's etcd, or that of an agent.
func (s *stage) dial(from, to *Machine) host.Etcd {
	s.Helper()
	secure := s.keep.secure.client()
	open := s.Dial
	if from != nil {
		open = from.Dial
	}
	c, err := open(s.keep.url(to, 2379), secure)
	require.NoError(s, err)
	return c
}

// put writes within a time, and returns how long it took.
func (s *stage) put(c host.Etcd, key, value string, within time.Duration) (time.Duration, error) {
	asking, cancel := s.Timeout(s.ctx, within)
	defer cancel()
	began := s.Now()
	_, err := c.Put(asking, key, value)
	return s.Now().Sub(began), err
}

// get reads within a second; "" is nothing.
func (s *stage) get(c host.Etcd, key string, o ...clientv3.OpOption) (string, error) {
	asking, cancel := s.Timeout(s.ctx, time.Second)
	defer cancel()
	r, err := c.Get(asking, key, o...)
	if err != nil || len(r.Kvs) == 0 {
		return "", err
	}
	return string(r.Kvs[0].Value), nil
}
