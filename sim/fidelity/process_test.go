// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package fidelity_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/internal/raftlog"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/sim/fidelity"
)

// TestReleases plays every script on released etcd: on the first release, or on those
// that RINGPROOF_RELEASES names, between commas; make fidelity names all. With RINGPROOF_GOLDEN=1 it
// writes what the first release prints instead, and what the others print where
// a script has a command for them only; read the difference, twice.
func TestReleases(t *testing.T) {
	onReleases(t, func(t *testing.T, system fidelity.System) {
		if os.Getenv("RINGPROOF_GOLDEN") != "" {
			record(t, system)
		} else {
			compare(t, system, chosen(t))
		}
	})
}

// onReleases calls play for each release that is to be played on and is there.
func onReleases(t *testing.T, play func(*testing.T, fidelity.System)) {
	for _, release := range chosenReleases(t) {
		t.Run(release, func(t *testing.T) {
			system, ok := newReleased(t, release)
			switch {
			case ok:
				play(t, system)
			case os.Getenv("CI") == "true":
				t.Fatalf("no etcd %s: make etcd builds it", release)
			default:
				t.Logf("fidelity: no etcd %s: make etcd builds it", release)
			}
		})
	}
}

// released is a released etcd, run as processes on loopback addresses.
type released struct {
	t        *testing.T
	release  string
	dir      string
	binaries map[string]string // release → path
	lockstep bool              // in virtual time
}

// newReleased wants the binaries of a release, and of those that mixed rings
// have beside it.
func newReleased(t *testing.T, release string) (*released, bool) {
	t.Helper()
	cache, err := etcdbin.DefaultCache()
	require.NoError(t, err)
	all, err := cache.List()
	require.NoError(t, err)
	r := &released{t: t, release: release, dir: t.TempDir(), binaries: map[string]string{}}
	for _, each := range all {
		r.binaries[each.Version] = each.Etcd
	}
	return r, r.binaries[release] != ""
}

func (r *released) Name() string    { return r.release }
func (r *released) Release() string { return r.release }

func (r *released) Lacks(need fidelity.Need) string {
	if need == fidelity.NeedMixed {
		for _, release := range releases {
			if r.binaries[release] == "" {
				return "no etcd " + release
			}
		}
	}
	return ""
}

// scripts counts the scripts of this test process, so that each has addresses
// of its own.
var scripts atomic.Uint32

func (r *released) Play(script fidelity.Script, play func(context.Context, fidelity.Machines)) error {
	authority, err := pki.NewAuthority(time.Now(), "fidelity")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(r.dir, "script")
	if err != nil {
		return err
	}
	m := &processes{wall: wall{r.lockstep}, system: r, dir: dir, authority: authority, net: scripts.Add(1), cuts: slices.Contains(script.Needs, fidelity.NeedPartition), hosts: map[string]*process{}}
	defer m.close()
	play(r.t.Context(), m)
	return nil
}

// processes are the machines of one script.
type processes struct {
	wall
	system    *released
	dir       string
	authority pki.Authority
	net       uint32
	cuts      bool       // relays stand between the peers
	mu        sync.Mutex // of hosts, and of what runs on them: relays look too
	hosts     map[string]*process
	clients   []*clientv3.Client
	taken     []io.Closer
}

// wall is time as this program has it.
type wall struct{ virtual bool }

func (wall) Elapse(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (wall) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

func (wall) Now() time.Time  { return time.Now() }
func (w wall) Virtual() bool { return w.virtual }

// process is a machine, and what runs on it.
type process struct {
	ip    string
	front string // where its peers dial it
	env   []string
	dir   string
	relay *relay // what peers dial; nil until a process has started

	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when cmd has ended
	mine bool          // this test ended it
}

// terminate tells it to end: that is no end of its own.
func (p *process) terminate() error {
	p.mine = true
	return p.cmd.Process.Signal(syscall.SIGTERM)
}

func (p *process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// host gives every machine its own address, of which loopback has 16 million:
// so ports need no search, and two test processes rarely meet. Its last number is the
// machine's alone: etcd sorts URLs, and every play is to have them in one order.
func (m *processes) host(name string) *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok := m.hosts[name]; ok {
		return p
	}
	n := len(m.hosts) + 1
	p := &process{dir: filepath.Join(m.dir, name), ip: fmt.Sprintf("127.%d.%d.%d", 1+(7*os.Getpid()+int(m.net/250))%250, m.net%250, n)}
	if m.system.lockstep {
		p.ip, p.env = numbered(1 + n)
	}
	p.front = net.JoinHostPort(p.ip, "2380")
	if m.system.lockstep && m.cuts { // a machine's ports are its own processes', so the relay is here
		here, _ := numbered(1)
		p.front = net.JoinHostPort(here, strconv.Itoa(24000+n))
	}
	m.hosts[name] = p
	return p
}

func (m *processes) URL(machine string, port fidelity.Port, secure bool) string {
	scheme, p := "http", m.host(machine)
	if secure {
		scheme = "https"
	}
	at := net.JoinHostPort(p.ip, "2379")
	switch port {
	case fidelity.PeerPort:
		at = p.front
	case fidelity.SecondPort:
		at = net.JoinHostPort(p.ip, "2381")
	}
	return scheme + "://" + at
}

func (m *processes) DataDir(machine string) string { return filepath.Join(m.host(machine).dir, "etcd") }

func (m *processes) PeerTLS(machine string) []string {
	p := m.host(machine)
	pair, err := m.authority.IssuePeer(time.Now(), pki.Subject{CommonName: machine, Hosts: []string{p.ip, strings.Split(p.front, ":")[0], "127.0.0.1"}}, time.Hour)
	require.NoError(m.system.t, err)
	file := func(name string, content []byte) string {
		path := filepath.Join(m.dir, machine+"."+name)
		require.NoError(m.system.t, os.WriteFile(path, content, 0o600))
		return path
	}
	return []string{
		"--peer-client-cert-auth=true", "--peer-trusted-ca-file=" + file("ca.crt", m.authority.CertPEM()),
		"--peer-cert-file=" + file("peer.crt", pair.CertPEM), "--peer-key-file=" + file("peer.key", pair.KeyPEM),
	}
}

// Start has etcd listen for its peers behind a relay if it may be cut off.
func (m *processes) Start(_ context.Context, machine, release string, flags []string) error {
	p := m.host(machine)
	if p.running() {
		return fmt.Errorf("etcd runs on %s: stop it first", machine)
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	own := append([]string{"--unsafe-no-fsync", "--log-outputs=stderr", "--log-level=info"}, flags...)
	if m.cuts {
		own = append(own, "--listen-peer-urls="+p.behind(flags))
	}
	if m.cuts && p.relay == nil {
		relay, err := newRelay(m, p)
		if err != nil {
			return err
		}
		p.relay = relay
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return p.start(m.system.binaries[release], own)
}

// behind is the address behind the relay.
func (p *process) behind(flags []string) string {
	for _, flag := range slices.Backward(flags) {
		if url, ok := strings.CutPrefix(flag, "--listen-peer-urls="); ok {
			return strings.Replace(url, p.front, net.JoinHostPort(p.ip, "2382"), 1)
		}
	}
	return ""
}

func (p *process) start(binary string, flags []string) (err error) {
	if p.log != nil {
		p.log.Close()
	}
	if p.log, err = os.Create(p.dir + ".log"); err != nil {
		return err
	}
	p.cmd = exec.Command(binary, flags...)
	p.cmd.Stderr, p.cmd.Env = p.log, p.env
	needs.EndsWithTest(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return err
	}
	done, cmd := make(chan struct{}), p.cmd
	p.done, p.mine = done, false
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	return nil
}

func (m *processes) Ended(machine string) (fidelity.End, bool) {
	p := m.host(machine)
	if p.cmd == nil || p.mine || p.running() {
		return fidelity.End{}, false
	}
	log, err := os.ReadFile(p.dir + ".log")
	require.NoError(m.system.t, err)
	code := p.cmd.ProcessState.ExitCode()
	return fidelity.End{Code: code, Why: lastError(log, code)}, true
}

// lastError is what etcd logged of its end: its panic or fatal error, else the
// error that its server ended with, else its last error. Flags that it refuses it
// only warns of, and of those that it doesn't understand it has no log yet.
func lastError(log []byte, code int) string {
	why, rank := "", 0
	for lines := bufio.NewScanner(bytes.NewReader(log)); lines.Scan(); {
		var line struct{ Level, Msg, Error string }
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			if why == "" && code == 2 {
				why = lines.Text()
			}
			continue
		}
		r := map[string]int{"fatal": 3, "panic": 3, "error": 1}[line.Level]
		switch line.Msg {
		case "server error":
			r = 2
		case "failed to verify flags":
			r = 1
		}
		if r == 0 || r < rank {
			continue
		}
		why, rank = line.Msg, r
		if line.Error != "" {
			why = line.Error
		}
	}
	return why
}

func (m *processes) Stop(ctx context.Context, machine string) error {
	p := m.host(machine)
	if !p.running() {
		return nil
	}
	if err := p.terminate(); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(15 * time.Second):
		return fmt.Errorf("etcd on %s doesn't stop", machine)
	}
}

func (m *processes) Tell(ctx context.Context, machine string) error {
	p := m.host(machine)
	if !p.running() {
		return fmt.Errorf("no etcd runs on %s to be told to end", machine)
	}
	if err := p.terminate(); err != nil {
		return err
	}
	u, err := url.Parse(m.URL(machine, fidelity.ClientPort, false))
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		if err == nil {
			conn.Close()
		}
		if err := m.Elapse(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (m *processes) Kill(machine string) error { return m.PowerOff(machine) }

// PowerOff loses nothing that was written: the page cache is the computer's.
func (m *processes) PowerOff(machines ...string) error {
	for _, name := range machines {
		if p := m.host(name); p.running() {
			p.mine = true
			_ = p.cmd.Process.Kill()
		}
	}
	for _, name := range machines {
		if p := m.host(name); p.cmd != nil {
			<-p.done
		}
	}
	return nil
}

func (m *processes) Wipe(machine string) error {
	if m.host(machine).running() {
		return fmt.Errorf("etcd runs on %s: stop it first", machine)
	}
	return os.RemoveAll(m.host(machine).dir)
}

func (m *processes) Unlink(machine string) error { return os.RemoveAll(m.DataDir(machine)) }

func (m *processes) Lose(machine, part string) error {
	return m.part(machine, part, os.RemoveAll)
}

// Damage writes over the middle of the files, as a bad disk does. Of a block of the log it loses
// what was there.
func (m *processes) Damage(machine, part string) error {
	if part == "wal-block" {
		return m.part(machine, "wal", func(string) error { return raftlog.Hole(m.DataDir(machine)) })
	}
	return m.part(machine, part, func(path string) error {
		return filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, ".tmp") {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt(bytes.Repeat([]byte("x"), 16<<10), 0)
			return err
		})
	})
}

func (m *processes) part(machine, part string, do func(string) error) error {
	if m.host(machine).running() {
		return fmt.Errorf("etcd runs on %s: stop it first", machine)
	}
	paths := map[string]string{"wal": "member/wal", "snap": "member/snap", "db": "member/snap/db"}
	path, ok := paths[part]
	if !ok {
		return fmt.Errorf("a data directory has no %s", part)
	}
	return do(filepath.Join(m.DataDir(machine), path))
}

func (m *processes) Occupy(machine string, port fidelity.Port) error {
	at := strings.TrimPrefix(m.URL(machine, port, false), "http://")
	if m.system.lockstep {
		return m.squat(m.host(machine), at)
	}
	l, err := net.Listen("tcp", at)
	m.taken = append(m.taken, l)
	return err
}

// squat has this program listen there, as a process of the machine.
func (m *processes) squat(p *process, at string) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(slices.Clone(p.env), squatEnv+"="+at)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	m.taken = append(m.taken, closer(func() error { return errors.Join(cmd.Process.Kill(), cmd.Wait()) }))
	_, err = out.Read(make([]byte, 1)) // it listens
	return err
}

// squatEnv names the environment variable with the address at which this program is to
// listen, and do nothing else.
const squatEnv = "RINGPROOF_SQUAT"

func TestMain(m *testing.M) {
	if at := os.Getenv(squatEnv); at != "" {
		if _, err := net.Listen("tcp", at); err != nil {
			panic(err)
		}
		fmt.Println("listens")
		select {}
	}
	os.Exit(m.Run())
}

type closer func() error

func (c closer) Close() error { return c() }

func (m *processes) Cut(machine string) error { return m.cut(machine, nil) }

func (m *processes) Part(machine, other string) error { return m.cut(machine, m.host(other)) }

func (m *processes) cut(machine string, other *process) error {
	r := m.host(machine).relay
	if r == nil {
		return fmt.Errorf("no etcd has run on %s yet", machine)
	}
	return r.cut(other)
}

func (m *processes) Join(machine string) error {
	if r := m.host(machine).relay; r != nil {
		r.join()
	}
	return nil
}

func (m *processes) Client(machine string) (fidelity.Client, error) {
	return m.dial(m.URL(machine, fidelity.ClientPort, false))
}

func (m *processes) dial(endpoint string) (*real, error) {
	c, err := client.Dial(endpoint, nil)
	if err != nil {
		return nil, err
	}
	m.clients = append(m.clients, c)
	return &real{c, func() (*clientv3.Client, error) {
		r, err := m.dial(endpoint)
		if err != nil {
			return nil, err
		}
		return r.Client, nil
	}}, nil
}

func (m *processes) ClusterVersion(ctx context.Context, machine string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.URL(machine, fidelity.ClientPort, false)+"/version", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var versions struct{ EtcdCluster string }
	body, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(body, &versions)
	}
	return versions.EtcdCluster, err
}

func (m *processes) close() {
	var names []string
	for name, p := range m.hosts {
		names = append(names, name)
		if p.relay != nil {
			p.relay.close()
		}
	}
	_ = m.PowerOff(names...)
	for _, l := range m.taken {
		l.Close()
	}
	for _, c := range m.clients {
		c.Close()
	}
	for _, p := range m.hosts {
		if p.log != nil {
			p.log.Close()
		}
	}
	// At once: a log of nothing takes 128 MB.
	os.RemoveAll(m.dir)
}

// real is a client of real etcd, of one endpoint.
type real struct {
	*clientv3.Client
	again func() (*clientv3.Client, error)
}

// Watch takes a connection of its own: all watches of a connection may share a
// stream, and then share its progress notifications.
func (r *real) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) (fidelity.Stream, error) {
	c, err := r.again()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{ctx: ctx, cancel: cancel, client: c}
	// clientv3 asks again and again when a member refuses the stream.
	late := time.AfterFunc(5*time.Second, cancel)
	s.responses = c.Watch(ctx, key, append(opts, clientv3.WithCreatedNotify())...)
	created, err := s.Next(ctx)
	if !late.Stop() {
		return nil, context.DeadlineExceeded
	}
	if err == nil && !created.Created {
		s.early, err = &created, created.Err()
	}
	if created.CompactRevision > 0 { // the stream says it
		err = nil
	}
	return s, err
}

type stream struct {
	ctx       context.Context
	cancel    context.CancelFunc
	client    *clientv3.Client
	responses clientv3.WatchChan
	early     *clientv3.WatchResponse // came where the watch should have been created
	once      sync.Once
}

func (s *stream) Next(ctx context.Context) (clientv3.WatchResponse, error) {
	if s.early != nil {
		early := *s.early
		s.early = nil
		return early, nil
	}
	select {
	case response, ok := <-s.responses:
		if !ok {
			return response, fmt.Errorf("the stream has ended")
		}
		return response, nil
	case <-ctx.Done():
		return clientv3.WatchResponse{}, ctx.Err()
	}
}

// Progress goes by the context of the watch: it names the stream.
func (s *stream) Progress(context.Context) error { return s.client.RequestProgress(s.ctx) }

func (s *stream) Close() {
	s.once.Do(func() {
		s.cancel()
		s.client.Close()
	})
}
