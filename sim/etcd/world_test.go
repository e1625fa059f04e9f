// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd_test

import (
	"container/heap"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/ringproof/ringproof/sim/etcd"
)

// world is the smallest deterministic host: one thread, a heap of timers,
// machines with an address and a data directory each, and links that can be cut.
type world struct {
	now      time.Duration
	seq      int
	pending  timers
	machines map[string]*machine
	names    []string
	cut      map[[2]string]bool
	random   uint64
	trace    uint64
	version  string
	flags    []string
	requests etcd.Requests
	work     etcd.Work
	syncTime time.Duration
	removal  time.Duration // when churn asked last to have a voter removed
}

type timer struct {
	at   time.Duration
	seq  int
	f    func()
	dead bool
}

type timers []*timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].seq < t[j].seq
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)   { *t = append(*t, x.(*timer)) }
func (t *timers) Pop() any {
	old := *t
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	return x
}

// machine is one etcd's host. Each start of a process is a new one.
type machine struct {
	*world
	name   string
	data   *etcd.Dir
	server *etcd.Server
	life   int
	exited string
	paused []func() // nil while it runs
	frozen bool
	full   bool
	logs   []string
}

// process is a machine during one life of its etcd.
type process struct {
	*machine
	life int
}

var _ etcd.Host = process{}

func newWorld(t testing.TB, seed uint64, names ...string) *world {
	w := &world{machines: map[string]*machine{}, cut: map[[2]string]bool{}, random: seed, version: "v3.6.16", syncTime: time.Millisecond}
	for _, name := range names {
		w.add(name)
	}
	reader := rand.Reader
	rand.Reader = w
	t.Cleanup(func() { rand.Reader = reader })
	return w
}

func (w *world) add(name string) *machine {
	m := &machine{world: w, name: name, data: etcd.NewDir()}
	w.machines[name] = m
	w.names = append(w.names, name)
	return m
}

// Read is crypto/rand's: raft's election jitter.
func (w *world) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(w.draw())
	}
	return len(p), nil
}

func (w *world) draw() uint64 {
	w.random += 0x9e3779b97f4a7c15
	z := w.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (w *world) after(d time.Duration, f func()) *timer {
	w.seq++
	t := &timer{at: w.now + d, seq: w.seq, f: f}
	heap.Push(&w.pending, t)
	return t
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	end := w.now + d
	for len(w.pending) > 0 && w.pending[0].at <= end {
		t := heap.Pop(&w.pending).(*timer)
		w.now = t.at
		if !t.dead {
			t.f()
		}
	}
	w.now = end
}

// until runs until it is so, or fails after a time.
func (w *world) until(t testing.TB, within time.Duration, is func() bool) {
	t.Helper()
	for end := w.now + within; !is(); {
		if w.now >= end {
			t.Fatalf("not so within %s, at %s: %s", within, w.now, w.describe())
		}
		w.run(10 * time.Millisecond)
	}
}

func (w *world) describe() string {
	var all []string
	for _, name := range w.names {
		m := w.machines[name]
		all = append(all, fmt.Sprintf("%s exited=%q %v", name, m.exited, m.data))
	}
	return strings.Join(all, "\n")
}

func (w *world) note(format string, args ...any) {
	h := fnv.New64a()
	fmt.Fprintf(h, format, args...)
	w.trace = w.trace*31 + h.Sum64()
}

func url(name string) string { return "http://10.0.0." + strings.TrimPrefix(name, "m") + ":2380" }

func clientURL(name string) string {
	return "http://10.0.0." + strings.TrimPrefix(name, "m") + ":2379"
}

func (w *world) at(url string) *machine {
	name := "m" + strings.TrimSuffix(strings.TrimPrefix(url, "http://10.0.0."), ":2380")
	return w.machines[name]
}

// start starts a machine's etcd with a cluster and a state.
func (m *machine) start(state string, cluster ...string) {
	m.boot(m.flagsFor(state, cluster...)...)
}

func (m *machine) flagsFor(state string, cluster ...string) []string {
	var all []string
	for _, name := range cluster {
		all = append(all, name+"="+url(name))
	}
	return append([]string{"--name=" + m.name, "--data-dir=/data", "--listen-peer-urls=" + url(m.name), "--initial-advertise-peer-urls=" + url(m.name),
		"--listen-client-urls=" + clientURL(m.name), "--advertise-client-urls=" + clientURL(m.name),
		"--initial-cluster=" + strings.Join(all, ","), "--initial-cluster-state=" + state}, m.flags...)
}

func (m *machine) boot(args ...string) {
	m.life++
	m.exited, m.server, m.logs = "", nil, nil
	s := etcd.Start(process{m, m.life}, m.version, args)
	if m.exited == "" {
		m.server = s
	}
}

func (m *machine) kill() {
	m.life++
	m.server = nil
}

func (p process) alive() bool { return p.life == p.machine.life }

func (p process) guard(f func()) func() {
	return func() {
		switch {
		case !p.alive():
		case p.frozen:
			p.paused = append(p.paused, p.guard(f))
		default:
			f()
		}
	}
}

func (m *machine) resume() {
	m.frozen = false
	waiting := m.paused
	m.paused = nil
	for _, f := range waiting {
		f()
	}
}

func (p process) Now() time.Time         { return time.Unix(1_700_000_000, 0).Add(p.world.now) }
func (p process) Elapsed() time.Duration { return p.world.now }
func (p process) Draw(string) uint64     { return p.world.draw() }

func (p process) After(d time.Duration, f func()) (stop func()) {
	t := p.world.after(d, p.guard(f))
	return func() { t.dead = true }
}

func (p process) Open(string) (*etcd.Dir, error) { return p.data, nil }

func (p process) Requests() *etcd.Requests { return &p.world.requests }

func (p process) Work() etcd.Work { return p.world.work }

func (p process) Sync(_ *etcd.Dir, done func(error)) {
	var err error
	if p.full {
		err = errors.New("no space left on device")
	}
	p.world.after(p.syncTime+time.Duration(p.world.draw()%uint64(p.syncTime)), p.guard(func() { done(err) }))
}

func (p process) reach(url string, f func(*machine), failed func(error)) {
	to := p.world.at(url)
	if to == nil {
		p.world.after(0, p.guard(func() { failed(errors.New("no route to host")) }))
		return
	}
	p.world.after(time.Millisecond+time.Duration(p.world.draw()%1e6), func() {
		switch {
		case p.cut[[2]string{p.name, to.name}]:
			p.world.after(5*time.Second, p.guard(func() { failed(errors.New("i/o timeout")) }))
		case to.server == nil:
			p.world.after(time.Millisecond, p.guard(func() { failed(errors.New("connection refused")) }))
		default:
			process{to, to.life}.guard(func() { f(to) })()
		}
	})
}

func (p process) Send(url string, packet etcd.Packet, failed func(error)) {
	p.reach(url, func(to *machine) {
		p.trace = p.trace*31 + uint64(p.world.now) + packet.From*7 + uint64(packet.Message.GetType())*5 + packet.Message.GetIndex()
		if err := to.server.Receive(packet); err != nil && !p.cut[[2]string{to.name, p.name}] {
			p.world.after(time.Millisecond, p.guard(func() { failed(err) }))
		}
	}, failed)
}

func (p process) Ask(url string, question any, answer func(any, error)) {
	over := false
	once := p.guard
	reply := func(a any, err error) {
		if !over {
			over = true
			answer(a, err)
		}
	}
	p.reach(url, func(to *machine) {
		to.server.Answer(question, func(a any, err error) {
			if !p.cut[[2]string{to.name, p.name}] {
				p.world.after(time.Millisecond, once(func() { reply(a, err) }))
			}
		})
	}, func(err error) { reply(nil, err) })
	p.world.after(6*time.Second, once(func() { reply(nil, errors.New("i/o timeout")) }))
}

func (p process) Exit(code int, why string) {
	p.exited = fmt.Sprintf("%d %s", code, why)
	p.note("%s exits %s", p.name, p.exited)
	p.kill()
}

func (p process) Ready() {}

func (p process) ForceNew(d *etcd.Dir) {
	d.ForceNew(func(*raftpb.ConfState, []*raftpb.Entry, uint64, uint64, uint64) []*raftpb.Entry { return nil })
}

func (p process) Rejected(kind string, member uint64, why error) {
	p.logs = append(p.logs, fmt.Sprintf("rejected %s of %x: %v", kind, member, why))
}

func (p process) Log(line string) { p.logs = append(p.logs, line) }

// partition cuts the machines off from all others, both ways.
func (w *world) partition(side ...string) {
	for _, a := range side {
		for _, b := range w.names {
			if !slices.Contains(side, b) {
				w.cut[[2]string{a, b}], w.cut[[2]string{b, a}] = true, true
			}
		}
	}
}

func (w *world) heal() { clear(w.cut) }
