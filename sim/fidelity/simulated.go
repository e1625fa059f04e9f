// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/sim"
)

// Simulated is the model of a release: package sim/etcd, in virtual time.
type Simulated struct {
	Version string // v3.6.16
	Exact   bool   // without what the model leaves out for speed
}

var _ System = Simulated{}

// Name returns sim-3.6, or sim-3.6-exact.
func (s Simulated) Name() string {
	name := "sim-" + minor(s.Version)
	if s.Exact {
		name += "-exact"
	}
	return name
}

// Release returns the release that is modelled.
func (s Simulated) Release() string { return s.Version }

// Lacks nothing.
func (s Simulated) Lacks(Need) string { return "" }

// Play plays in a world of its own, the same for the same script.
func (s Simulated) Play(script Script, play func(context.Context, Machines)) error {
	seed := fnv.New64a()
	seed.Write([]byte(script.Name))
	w := sim.NewLab(seed.Sum64(), s.Exact)
	return w.Drive(context.Background(), func(ctx context.Context) {
		play(ctx, &laboratory{world: w, machines: map[string]*sim.Machine{}})
		_ = w.Close()
	})
}

// laboratory is the machines of one script.
type laboratory struct {
	world     *sim.World
	machines  map[string]*sim.Machine
	authority *pki.Authority
}

func (l *laboratory) machine(name string) *sim.Machine {
	m, ok := l.machines[name]
	if !ok {
		m = l.world.Add(name, fmt.Sprintf("10.0.0.%d", len(l.machines)+1))
		l.machines[name] = m
	}
	return m
}

func (l *laboratory) Elapse(ctx context.Context, d time.Duration) error { return l.world.Sleep(ctx, d) }

func (l *laboratory) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return l.world.Timeout(ctx, d)
}

func (l *laboratory) Now() time.Time { return sim.Epoch.Add(time.Duration(l.world.Now())) }
func (l *laboratory) Virtual() bool  { return true }

func (l *laboratory) URL(machine string, port Port, secure bool) string {
	scheme, number := "http", 2379
	if secure {
		scheme = "https"
	}
	switch port {
	case PeerPort:
		number = 2380
	case SecondPort:
		number = 2381
	}
	return fmt.Sprintf("%s://%s:%d", scheme, l.machine(machine).Address(), number)
}

func (l *laboratory) DataDir(machine string) string { return l.machine(machine).Disk().Path("etcd") }

// PeerTLS puts certificates on the machine's disk. A script can't go on without
// them, so that a failure is a panic.
func (l *laboratory) PeerTLS(machine string) []string {
	m := l.machine(machine)
	if err := l.certify(m); err != nil {
		panic(fmt.Errorf("certificates of %s: %w", machine, err))
	}
	file := func(name string) string { return m.Disk().Path("pki/" + name) }
	return []string{"--peer-client-cert-auth=true", "--peer-trusted-ca-file=" + file("ca.crt"),
		"--peer-cert-file=" + file("peer.crt"), "--peer-key-file=" + file("peer.key")}
}

func (l *laboratory) certify(m *sim.Machine) error {
	if l.authority == nil {
		made, err := pki.NewAuthority(m.Now(), "fidelity")
		if err != nil {
			return err
		}
		l.authority = &made
	}
	pair, err := l.authority.IssuePeer(m.Now(), pki.Subject{CommonName: m.Name(), Hosts: []string{m.Address()}}, 0)
	if err != nil {
		return err
	}
	return errors.Join(m.Disk().Write("pki/ca.crt", l.authority.CertPEM()), m.Disk().Write("pki/peer.crt", pair.CertPEM),
		m.Disk().Write("pki/peer.key", pair.KeyPEM))
}

func (l *laboratory) Start(ctx context.Context, machine, release string, flags []string) error {
	return l.machine(machine).Process().Start(ctx, append([]string{"/opt/etcd/" + release + "/etcd"}, flags...))
}

func (l *laboratory) Ended(machine string) (End, bool) {
	code, why, ok := l.machine(machine).Exit()
	return End{Code: code, Why: why}, ok
}

func (l *laboratory) Stop(ctx context.Context, machine string) error {
	if err := l.machine(machine).Process().Stop(ctx, time.Minute); err != nil {
		return err
	}
	return l.noticed(ctx)
}

func (l *laboratory) Tell(ctx context.Context, machine string) error {
	l.machine(machine).TellEtcd()
	return l.noticed(ctx)
}

// noticed is when all have seen a process end: no client is as fast as the kernel,
// which closes its connections.
func (l *laboratory) noticed(ctx context.Context) error {
	return l.world.Sleep(ctx, 5*time.Millisecond)
}

func (l *laboratory) Kill(machine string) error {
	l.machine(machine).KillEtcd()
	return nil
}

func (l *laboratory) PowerOff(machines ...string) error {
	for _, name := range machines {
		l.machine(name).PowerCut()
	}
	return nil
}

func (l *laboratory) Wipe(machine string) error {
	l.machine(machine).Wipe()
	return nil
}

func (l *laboratory) Cut(machine string) error {
	l.machine(machine).Cut()
	return nil
}

func (l *laboratory) Part(machine, other string) error {
	l.machine(machine).Part(l.machine(other))
	return nil
}

func (l *laboratory) Unlink(machine string) error {
	l.machine(machine).Unlink()
	return nil
}

func (l *laboratory) Lose(machine, part string) error   { return l.machine(machine).LosePart(part) }
func (l *laboratory) Damage(machine, part string) error { return l.machine(machine).DamagePart(part) }

func (l *laboratory) Occupy(machine string, port Port) error {
	l.machine(machine).Occupy(string(port))
	return nil
}

func (l *laboratory) Join(machine string) error {
	l.machine(machine).Join()
	return nil
}

func (l *laboratory) Client(machine string) (Client, error) {
	c, watches, err := l.world.Connect(l.URL(machine, ClientPort, false), nil)
	return connected{c, l.world, watches}, err
}

func (l *laboratory) ClusterVersion(_ context.Context, machine string) (string, error) {
	version := l.machine(machine).ClusterVersion()
	if version == "" {
		return "not_decided", nil // as etcd's own page says
	}
	return version, nil
}

// connected is a client of one machine.
type connected struct {
	host.Etcd
	world   *sim.World
	watches *sim.Watches
}

func (c connected) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) (Stream, error) {
	ctx, cancel := c.world.Timeout(ctx, patience)
	defer cancel()
	w, err := c.watches.Open(ctx, asked(key, opts))
	if err != nil {
		return nil, err
	}
	return w, nil
}

// asked is what clientv3 would ask for. Of a watch its options tell nothing by
// functions, as only clientv3's own watcher reads them.
func asked(key string, opts []clientv3.OpOption) *pb.WatchCreateRequest {
	op := clientv3.OpGet(key, opts...)
	option := func(name string) bool { return reflect.ValueOf(op).FieldByName(name).Bool() }
	r := &pb.WatchCreateRequest{Key: op.KeyBytes(), RangeEnd: op.RangeBytes(), StartRevision: op.Rev(), PrevKv: option("prevKV"), ProgressNotify: option("progressNotify")}
	if option("filterPut") {
		r.Filters = append(r.Filters, pb.WatchCreateRequest_NOPUT)
	}
	if option("filterDelete") {
		r.Filters = append(r.Filters, pb.WatchCreateRequest_NODELETE)
	}
	return r
}
