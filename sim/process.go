// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/raftlog"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/sim/etcd"
)

// server is one etcd process on a machine, and what the machine knows of it.
type server struct {
	*process
	etcd     *etcd.Server
	args     []string
	pid      int
	home     *disk // its data are on this disk, whatever is in the machine now
	unlinked int   // which that was, by number, before its files were removed; 0: they were not
	client   *credentials
	peer     *credentials
	ports    map[string]bool // on which it listens for peers, and whether with TLS
	calls    []*call
	streams  []*channel
	held     []func() // what came to the client port before it was served
	draws    map[string]*stream
	routes   []*route
	flush    flush
	dials    time.Duration // how long it waits for a peer to take a connection

	vanished bool // with its machine
}

var _ etcd.Host = (*server)(nil)

// launch starts etcd. It outlives the agent that started it.
func (m *Machine) launch(args []string) error {
	version := path.Base(path.Dir(args[0]))
	if m.world.Subject != nil && !slices.Contains(m.world.plan.VersionsOn(m.name), version) {
		return fmt.Errorf("starting etcd: %s: %w", args[0], fs.ErrNotExist)
	}
	m.world.pids++
	s := &server{process: m.world.process(fmt.Sprintf("etcd@%s", m.name), m), args: args, pid: m.world.pids, home: m.disk, draws: map[string]*stream{}}
	m.etcd, m.words, m.exit = s, "", exit{}
	s.gone = append(s.gone, s.hangUp)
	m.tell(ringproof.Event{Kind: ringproof.EventProcessStarted, Machine: m.name, Text: fmt.Sprintf("etcd, pid %d", s.pid)})
	m.world.engine.after(startup, prioTimer, kindMachine, s.process, func() { s.boot(version) })
	return nil
}

// release is the one whose program it is, "v3.6.16".
func (s *server) release() string { return path.Base(path.Dir(s.args[0])) }

// startup is how long a process takes from its start to its first question.
const startup = 40 * time.Millisecond

func (s *server) boot(version string) {
	when := s.machine.fails()
	if config, err := etcd.Parse(version, s.args[1:]); err == nil { // what it doesn't understand, etcd says itself
		s.dials = config.PeerDialTimeout()
		err = cmp.Or(s.credentials(config), s.bind(config))
		switch {
		case err != nil:
		case s.machine.unreadable() && s.machine.logged():
			err = ioError(config.DataDir)
		case when == "before-log", when == ringproof.EndsUnread:
			err = fmt.Errorf("listen tcp %s:2380: bind: address already in use", s.machine.ip)
		}
		if err != nil {
			s.Exit(1, err.Error())
			return
		}
	}
	if port := s.machine.occupied; port != "" {
		s.Exit(1, fmt.Sprintf("listen tcp %s:%s: bind: address already in use", s.machine.ip, map[string]string{"peer": "2380", "client": "2379"}[port]))
		return
	}
	s.etcd = etcd.Start(s, version, s.args[1:])
	if when == "after-log" {
		s.failOnceLogged()
	}
}

// bind notes where the process listens for its peers.
func (s *server) bind(c etcd.Config) error {
	s.ports = map[string]bool{}
	for _, address := range c.ListenPeer {
		u, err := url.Parse(address)
		if err != nil {
			return err
		}
		if s.ports[u.Port()] = u.Scheme == "https"; s.ports[u.Port()] && s.peer == nil {
			return fmt.Errorf("cannot listen on TLS for %s: KeyFile and CertFile are not presented", u.Host)
		}
	}
	return nil
}

// fails tells when an etcd that is started now ends; "": it doesn't.
func (m *Machine) fails() string {
	for _, step := range slices.Sorted(maps.Keys(m.failing)) {
		return m.failing[step]
	}
	return ""
}

// unreadable reports whether the machine's disk answers whoever reads a log with an error.
func (m *Machine) unreadable() bool {
	return slices.Contains(slices.Collect(maps.Values(m.failing)), ringproof.EndsUnread)
}

// ioError is what who reads the log in a data directory is told by a disk that can't.
func ioError(dir string) error {
	return &fs.PathError{Op: "read", Path: path.Join(dir, "member", "wal", "0000000000000000-0000000000000000.wal"), Err: syscall.EIO}
}

// failOnceLogged ends the process when it has a log.
func (s *server) failOnceLogged() {
	s.After(20*time.Millisecond, func() {
		if s.home != s.machine.disk || s.machine.logged() {
			s.Exit(1, "failed to open the database: operation not permitted")
			return
		}
		s.failOnceLogged()
	})
}

// hangUp ends what others had open with the process.
func (s *server) hangUp() {
	m := s.machine
	if m.world.closing {
		return
	}
	m.world.outlived(s)
	text := fmt.Sprintf("etcd, pid %d", s.pid)
	if m.etcd == s && m.exit.ok && m.exit.code != 0 {
		text += ", " + m.exit.said()
	}
	m.tell(ringproof.Event{Kind: ringproof.EventProcessExited, Machine: m.name, Text: text})
	if m.etcd == s {
		m.etcd = nil
	}
	m.world.breakOff(s)
}

// vanish ends the process with its machine: nobody is told.
func (s *server) vanish() {
	s.calls, s.streams, s.vanished = nil, nil, true
	s.end()
}

// Now is the machine's clock.
func (s *server) Now() time.Time { return s.machine.Now() }

// Elapsed is the time in which the machine wasn't suspended.
func (s *server) Elapsed() time.Duration { return s.machine.ran() }

// After calls f after d, while the process lives.
func (s *server) After(d time.Duration, f func()) (stop func()) {
	t := s.engine.after(d, prioTimer, kindTimer, s.process, f)
	return func() { t.dead = true }
}

// Draw is keyed by the machine and the stream.
func (s *server) Draw(name string) uint64 {
	source, ok := s.draws[name]
	if !ok {
		source = s.engine.chance(name + " of " + s.name)
		s.draws[name] = source
	}
	return source.draw()
}

// Open opens a data directory on the machine's disk.
func (s *server) Open(dir string) (*etcd.Dir, error) {
	name, ok := strings.CutPrefix(path.Clean(dir), root+"/")
	if !ok {
		return nil, fmt.Errorf("data directory %s is not on the data filesystem %s", dir, root)
	}
	return s.home.open(name)
}

// ForceNew removes the other members by what the real log's own would be.
func (s *server) ForceNew(d *etcd.Dir) { d.ForceNew(raftlog.Removals) }

// Sync takes the time of an fsync.
func (s *server) Sync(d *etcd.Dir, done func(error)) {
	err := s.home.room("write", root, 0)
	if s.home != s.machine.disk && s.home != s.machine.below {
		err = errors.New("input/output error") // its device was taken away
	}
	f := &s.flush
	if f.done != nil {
		f = &flush{} // a snapshot is written beside the log
	}
	f.done, f.err = done, err
	f.prio, f.kind, f.owner, f.on = prioTimer, kindSync, s.process, f
	takes := s.home.sync(s.machine.delays)
	if err != nil {
		takes = min(takes, slowSync) // it is the write that fails, and nothing is left to sync
	}
	s.engine.schedule(&f.timer, takes)
}

// flush is an fsync under way.
type flush struct {
	timer
	done func(error) // nil: there is none
	err  error
}

func (f *flush) happen() {
	done := f.done
	f.done = nil
	done(f.err)
}

// Requests is the world's.
func (s *server) Requests() *etcd.Requests { return &s.machine.world.requests }

// Work is the world's.
func (s *server) Work() etcd.Work { return s.machine.world.work }

// tell records what happens on a machine of the plan's.
func (m *Machine) tell(e ringproof.Event) {
	if !m.strange {
		m.world.tell(e)
	}
}

// Exit ends the process.
func (s *server) Exit(code int, why string) {
	said, usage := strings.CutSuffix(why, etcd.Usage)
	s.machine.words = fmt.Sprintf("exit status %d: %s", code, why)
	if usage {
		s.machine.words = why
	}
	s.machine.exit = exit{code: code, why: said, ok: true, usage: usage}
	s.engine.trace.aside(func() string { return s.name + ": " + s.machine.words })
	s.end()
}

// Log keeps the end of the output.
func (s *server) Log(line string) {
	s.engine.trace.aside(func() string { return s.name + ": " + line })
	words := s.machine.words + line + "\n"
	s.machine.words = words[max(0, len(words)-2048):]
}

// Rejected keeps what nobody would know of once it is refused.
func (s *server) Rejected(kind string, member uint64, why error) {
	w := s.machine.world
	w.rejected = append(w.rejected, ringproof.Rejection{At: w.Now(), Machine: s.machine.name, Kind: kind, Member: ringproof.MemberID(member), Why: why.Error()})
}

// supervisor is the machine's etcd as its agent handles it.
type supervisor struct{ machine *Machine }

var _ host.Process = supervisor{}

func (v supervisor) Running() ([]string, error) {
	v.machine.world.engine.alive()
	if v.machine.etcd == nil {
		return nil, nil
	}
	return slices.Clone(v.machine.etcd.args), nil
}

func (v supervisor) Start(ctx context.Context, args []string) error {
	v.machine.world.engine.trace.note("start " + strings.Join(args, " "))
	if err := v.machine.world.engine.sleep(ctx, time.Millisecond); err != nil {
		return err
	}
	if v.machine.etcd != nil {
		return errors.New("starting etcd: one runs already")
	}
	return v.machine.launch(slices.Clone(args))
}

func (v supervisor) Stop(ctx context.Context, grace time.Duration) error {
	s := v.machine.etcd
	if s == nil {
		return nil
	}
	v.machine.world.terminate(s)
	for end := v.machine.Now().Add(grace); !s.ended && v.machine.Now().Before(end); {
		if err := v.machine.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	s.end()
	return nil
}

func (v supervisor) LastWords() string { return v.machine.words }
