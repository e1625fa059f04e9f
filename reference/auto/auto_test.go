// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build unix

// These tests run the whole automation, as ringadm auto does, on real etcd
// processes at loopback addresses.
package auto_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

const version = needs.Release

// fleet is machines that meet in one store. Every etcd that they start is
// killed when the test ends, and also when the test's process dies.
type fleet struct {
	t        *testing.T
	etcd     string
	network  string // 127.x.y.
	dir      string
	store    string
	spec     store.Spec
	machines map[string]*machine
}

type machine struct {
	name, address, root, run string
	log                      lines
	life                     *mortal // of the agent that runs; nil: none
	cancel                   context.CancelFunc
	done                     chan struct{}
}

// mortal is a host whose agent can be killed: from then on every call ends its
// goroutine, and nothing of it reaches the outside any more.
type mortal struct {
	*host.Real
	dead atomic.Bool
}

func (m *mortal) live() {
	if m.dead.Load() {
		runtime.Goexit()
	}
}

func (m *mortal) Now() time.Time        { m.live(); return m.Real.Now() }
func (m *mortal) Log(l host.Line)       { m.live(); m.Real.Log(l) }
func (m *mortal) Disk() host.Disk       { m.live(); return m.Real.Disk() }
func (m *mortal) Process() host.Process { m.live(); return m.Real.Process() }
func (m *mortal) Sleep(ctx context.Context, d time.Duration) error {
	m.live()
	defer m.live()
	return m.Real.Sleep(ctx, d)
}

// lines keeps an agent's log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) all() (all []host.Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for text := range bytes.Lines(l.text.Bytes()) {
		var line host.Line
		if json.Unmarshal(text, &line) == nil {
			all = append(all, line)
		}
	}
	return all
}

func newFleet(t *testing.T, spec store.Spec) *fleet {
	needs.RealTime(t)
	f := unseeded(t, spec)
	s := f.open("?create_dir=true")
	require.NoError(t, store.Init(t.Context(), s))
	if spec.Security.Secure() {
		authority, err := launcher.NewAuthority(time.Now(), 1)
		require.NoError(t, err)
		_, err = store.Log[store.Authority]{Store: s, Prefix: auto.AuthorityPrefix}.Append(t.Context(), 0, authority)
		require.NoError(t, err)
	}
	f.want(func(*store.Spec) {})
	return f
}

// unseeded is a fleet without a store.
func unseeded(t *testing.T, spec store.Spec) *fleet {
	spec.Version = version
	f := &fleet{t: t, etcd: needs.Etcd(t).Etcd, dir: t.TempDir(), spec: spec, machines: map[string]*machine{}}
	f.store = filepath.Join(f.dir, "store")
	f.network = freeNetwork(t)
	f.watchdog()
	t.Cleanup(f.end)
	return f
}

// freeNetwork finds 127.x.y.1 to .6 with nobody on etcd's ports.
func freeNetwork(t *testing.T) string {
	for range 50 {
		network := fmt.Sprintf("127.%d.%d.", 64+rand.IntN(128), rand.IntN(256))
		free := true
		for i := range 6 {
			for _, port := range []int{2379, 2380} {
				l, err := net.Listen("tcp", fmt.Sprintf("%s%d:%d", network, i+1, port))
				if err != nil {
					free = false
					continue
				}
				l.Close()
			}
		}
		if free {
			return network
		}
	}
	t.Fatal("no free loopback addresses")
	return ""
}

// watchdog kills every etcd of the fleet when this process ends without
// having said goodbye: a test that times out runs no Cleanup.
func (f *fleet) watchdog() {
	const script = `trap '' INT TERM; read line; [ "$line" = bye ] && exit
for file in "$1"/*/run/etcd.pid; do
  pid=$(sed -n 's/.*"pid":\([0-9]*\).*/\1/p' "$file")
  grep -qs -- "--data-dir=$1/" "/proc/$pid/cmdline" && kill -9 "$pid"
done`
	dog := exec.Command("sh", "-c", script, "sh", f.dir)
	leash, err := dog.StdinPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, dog.Start())
	f.t.Cleanup(func() {
		_, _ = io.WriteString(leash, "bye\n")
		_ = dog.Wait()
	})
}

func (f *fleet) open(options string) store.Blob {
	s, err := store.Open(f.t.Context(), "file://"+f.store+options)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = s.Close() })
	return s
}

// want writes the next spec.
func (f *fleet) want(change func(*store.Spec)) {
	log := store.Log[store.Spec]{Store: f.open(""), Prefix: auto.SpecPrefix}
	n, _, err := log.Latest(f.t.Context())
	require.NoError(f.t, err)
	change(&f.spec)
	_, err = log.Append(f.t.Context(), n, f.spec)
	require.NoError(f.t, err)
}

// start runs the agents of the machines, all at once.
func (f *fleet) start(dryRun bool, names ...string) {
	for _, name := range names {
		m := f.machines[name]
		if m == nil {
			m = &machine{name: name, address: f.network + strings.TrimPrefix(name, "m"),
				root: filepath.Join(f.dir, name, "disk"), run: filepath.Join(f.dir, name, "run")}
			require.NoError(f.t, os.MkdirAll(m.root, 0o700))
			f.machines[name] = m
		}
		require.Nil(f.t, m.life, "%s has an agent", name)
		ctx, cancel := context.WithCancel(context.Background())
		m.life, m.cancel, m.done = &mortal{Real: host.NewReal(name, m.root, m.run, &m.log)}, cancel, make(chan struct{})
		m.life.Plain = true
		agent := auto.New(m.life, f.open(""), auto.Config{Machine: name, Address: m.address,
			Binaries: map[ring.Version]string{version: f.etcd}, DryRun: dryRun, Brain: auto.Reference()})
		go func(done chan struct{}) {
			defer close(done)
			_ = agent.Run(ctx, 15*time.Second)
		}(m.done)
	}
}

// kill ends the agents as SIGKILL would; their etcd goes on.
func (f *fleet) kill(names ...string) {
	for _, name := range names {
		if m := f.machines[name]; m.life != nil {
			m.life.dead.Store(true)
		}
	}
	for _, name := range names {
		if m := f.machines[name]; m.life != nil {
			<-m.done
			m.cancel()
			m.life = nil
		}
	}
}

// interrupt ends one agent as Ctrl-C would.
func (f *fleet) interrupt(name string) {
	m := f.machines[name]
	m.cancel()
	<-m.done
	m.life = nil
}

func (f *fleet) names() []string { return slices.Sorted(maps.Keys(f.machines)) }

func (f *fleet) end() {
	f.kill(f.names()...)
	for _, name := range f.names() {
		m := f.machines[name]
		if pid := m.pid(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		h := host.NewReal(name, m.root, m.run, nil)
		h.Plain = true
		if err := h.Process().Stop(context.Background(), 5*time.Second); err != nil {
			f.t.Errorf("%s: %v", name, err)
		}
		if args, _ := h.Process().Running(); args != nil {
			f.t.Errorf("%s: an etcd survives the test: %v", name, args)
		}
		if f.t.Failed() {
			all := m.log.all()
			for _, line := range all[max(0, len(all)-25):] {
				f.t.Logf("%s %s %s %s %s %s %s", line.Time.Format("05.000"), line.Machine, line.Event, line.Action, line.Member, line.Command, line.Text)
			}
			f.t.Logf("%s's etcd: %s", name, h.Process().LastWords())
		}
	}
}

// pid returns the etcd's, 0 when none was started.
func (m *machine) pid() int {
	var claim struct{ PID int }
	text, _ := os.ReadFile(filepath.Join(m.run, "etcd.pid"))
	_ = json.Unmarshal(text, &claim)
	return claim.PID
}

// wipe takes everything from the machine's disk, and its etcd with it.
func (f *fleet) wipe(name string) {
	m := f.machines[name]
	pid := m.pid()
	entries, err := os.ReadDir(m.root)
	require.NoError(f.t, err)
	require.NoError(f.t, syscall.Kill(pid, syscall.SIGKILL))
	for _, entry := range entries {
		require.NoError(f.t, os.RemoveAll(filepath.Join(m.root, entry.Name())))
	}
}

// view reads the ring as an operator would, with the credentials of a machine.
func (f *fleet) view(ctx context.Context) (admin.View, error) {
	r := &admin.Ring{Host: host.NewReal("", f.dir, f.dir, nil)}
	defer r.Close()
	var urls []string
	for _, name := range f.names() {
		m := f.machines[name]
		if f.spec.Security.Secure() {
			secure, err := launcher.Credentials(func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(m.root, name)) })
			if err == nil {
				r.Secure = secure
			}
		}
		urls = append(urls, f.spec.Security.URL(m.address, 2379))
	}
	r.Use(urls...)
	return r.View(ctx)
}

// until waits for the ring to satisfy want, which tells what is missing.
func (f *fleet) until(within time.Duration, want func(admin.View) string) admin.View {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), within)
	defer cancel()
	missing := "nothing was seen"
	for begun := time.Now(); ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		v, err := f.view(ctx)
		if err != nil {
			missing = err.Error()
			continue
		}
		if missing = want(v); missing == "" {
			f.t.Logf("after %s: %s", time.Since(begun).Round(time.Millisecond), members(v))
			return v
		}
	}
	f.t.Fatalf("not within %s: %s", within, missing)
	return admin.View{}
}

// voters wants just these machines to vote, each bound to the disk that is in
// it now.
func (f *fleet) voters(names ...string) func(admin.View) string {
	return func(v admin.View) string {
		var have []string
		for _, m := range v.RingMembers() {
			if m.Learner || m.Disk == "" || v.Presences[m.Machine].Disk != m.Disk {
				return members(v)
			}
			have = append(have, m.Machine)
		}
		if slices.Sort(have); !slices.Equal(have, names) {
			return members(v)
		}
		return ""
	}
}

func members(v admin.View) string {
	var all []string
	for _, m := range v.RingMembers() {
		text := fmt.Sprintf("%s on disk %.4s", m, m.Disk)
		if m.Learner {
			text += " learns"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func (f *fleet) id(v admin.View, machine string) uint64 {
	for _, m := range v.RingMembers() {
		if m.Machine == machine {
			return uint64(m.ID)
		}
	}
	f.t.Fatalf("no member on %s: %s", machine, members(v))
	return 0
}

func (f *fleet) pids(names ...string) map[string]int {
	all := map[string]int{}
	for _, name := range names {
		all[name] = f.machines[name].pid()
	}
	return all
}

// said reports whether an agent logged a line with the text in it.
func (f *fleet) said(text string, names ...string) bool {
	for _, name := range names {
		for _, line := range f.machines[name].log.all() {
			if strings.Contains(line.Text+" "+line.Command, text) {
				return true
			}
		}
	}
	return false
}

// hide makes the store an empty place, as an unmounted volume is. The
// directory stays: agents hold it open.
func (f *fleet) hide() { f.moveStore(f.store, f.store+".away") }

func (f *fleet) unhide() { f.moveStore(f.store+".away", f.store) }

func (f *fleet) moveStore(from, to string) {
	require.NoError(f.t, os.MkdirAll(to, 0o700))
	entries, err := os.ReadDir(from)
	require.NoError(f.t, err)
	for _, entry := range entries {
		require.NoError(f.t, os.Rename(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())))
	}
}

// TestLifeOfARing bootstraps a ring and takes it through what happens to rings.
func TestLifeOfARing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.Spec{Nodes: 3, Security: "tls", ReplaceAfterMillis: 60_000})
	step := func(name string, run func(t *testing.T)) {
		if !t.Failed() {
			t.Run(name, func(t *testing.T) {
				outer := f.t
				f.t = t
				defer func() { f.t = outer }()
				run(t)
			})
		}
	}
	three := []string{"m1", "m2", "m3"}
	begun := time.Now()
	f.start(false, "m1", "m2", "m3", "m4", "m5")
	var ring admin.View
	step("five agents at once bootstrap one ring of three", func(t *testing.T) {
		ring = f.until(30*time.Second, func(v admin.View) string {
			if len(v.Members) != 3 || len(v.Presences) != 5 {
				return fmt.Sprintf("%d members, %d machines", len(v.Members), len(v.Presences))
			}
			for _, m := range v.RingMembers() {
				if m.Disk == "" {
					return members(v)
				}
			}
			return ""
		})
		t.Logf("from nothing: %s", time.Since(begun).Round(time.Millisecond))
		s := f.open("")
		var identities []store.Identity
		require.Eventually(t, func() bool {
			formed, err := store.Log[store.Formed]{Store: s, Prefix: auto.FormedPrefix}.All(t.Context())
			return err == nil && len(formed) == 1 && formed[0].ClusterID == fmt.Sprintf("%x", ring.ClusterID)
		}, 10*time.Second, 50*time.Millisecond)
		identities, err := store.Log[store.Identity]{Store: s, Prefix: auto.IdentityPrefix}.All(t.Context())
		require.NoError(t, err)
		require.Len(t, identities, 1)
		started := func() (n int) {
			for _, name := range f.names() {
				if f.machines[name].pid() != 0 {
					n++
				}
			}
			return n
		}
		// Two initial members are a quorum: the third may be on its way still.
		require.Eventually(t, func() bool { return started() >= 3 }, 10*time.Second, 50*time.Millisecond, "an initial member never starts")
		require.Equal(t, 3, started(), "an etcd runs on a machine without a member")
	})
	initialMembers := func(v admin.View) []string {
		var all []string
		for _, m := range v.RingMembers() {
			all = append(all, m.Machine)
		}
		slices.Sort(all)
		return all
	}
	step("kill -9 of an etcd: it comes back as who it was", func(t *testing.T) {
		three = initialMembers(ring)
		was := f.id(ring, three[1])
		others := f.pids(three[0], three[2])
		pid := f.machines[three[1]].pid()
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		require.Eventually(t, func() bool { return f.machines[three[1]].pid() != pid }, 15*time.Second, 50*time.Millisecond)
		v := f.until(20*time.Second, f.voters(three...))
		require.Equal(t, was, f.id(v, three[1]))
		require.Equal(t, ring.ClusterID, v.ClusterID)
		require.Equal(t, others, f.pids(three[0], three[2]), "another etcd was restarted")
	})
	step("a disk is wiped: its member is replaced, and no other restarted", func(t *testing.T) {
		was := f.id(ring, three[2])
		others := f.pids(three[0], three[1])
		f.wipe(three[2])
		v := f.until(40*time.Second, func(v admin.View) string {
			for _, m := range v.RingMembers() {
				if uint64(m.ID) == was {
					return members(v)
				}
			}
			return f.someThree(v)
		})
		require.Equal(t, ring.ClusterID, v.ClusterID)
		require.Equal(t, others, f.pids(three[0], three[1]), "another etcd was restarted")
		three = initialMembers(v)
		ring = v
	})
	step("an agent is killed and comes back: its etcd never noticed", func(t *testing.T) {
		before := f.pids(three...)
		f.kill(three[0])
		time.Sleep(300 * time.Millisecond)
		require.NoError(t, syscall.Kill(before[three[0]], 0), "etcd died with its agent")
		f.start(false, three[0])
		time.Sleep(time.Second)
		require.Equal(t, before, f.pids(three...))
		f.until(20*time.Second, f.voters(three...))
	})
	step("the store is away while a disk is lost: the ring needs it no more", func(t *testing.T) {
		f.hide()
		was := f.id(ring, three[1])
		f.wipe(three[1])
		v := f.until(40*time.Second, func(v admin.View) string {
			for _, m := range v.RingMembers() {
				if uint64(m.ID) == was {
					return members(v)
				}
			}
			return f.someThree(v)
		})
		left, err := os.ReadDir(f.store)
		require.NoError(t, err)
		require.Empty(t, left, "something was written where the store had been")
		f.unhide()
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, ring.ClusterID, v.ClusterID)
		ring = f.until(10*time.Second, f.someThree)
		three = initialMembers(ring)
	})
	step("an interrupted agent stops its etcd, and the ring goes on", func(t *testing.T) {
		pid := f.machines[three[0]].pid()
		f.interrupt(three[0])
		// One that has ended can be signalled until whoever started it has waited for it.
		require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, 5*time.Second, 10*time.Millisecond, "its etcd runs on")
		f.until(10*time.Second, func(v admin.View) string {
			if len(v.Members) != 3 {
				return members(v)
			}
			return ""
		})
	})
}

// someThree wants three voters, each bound to the disk that is in its machine.
func (f *fleet) someThree(v admin.View) string {
	var names []string
	for _, m := range v.RingMembers() {
		names = append(names, m.Machine)
	}
	if slices.Sort(names); len(names) != 3 {
		return members(v)
	}
	return f.voters(names...)(v)
}

// TestAnEtcdThatOutlivesItsDisk: the disk of an etcd that runs on is taken away, and
// an empty one is there instead. Nothing ran on that one: marked as used, it would
// cost the next member that is put there.
func TestAnEtcdThatOutlivesItsDisk(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.Spec{Nodes: 1, Security: "plain"})
	f.start(false, "m1")
	f.until(20*time.Second, f.voters("m1"))
	root := f.machines["m1"].root
	f.takeDisk("m1")
	var text []byte
	var err error
	require.Eventually(t, func() bool {
		text, _ = os.ReadFile(filepath.Join(root, "disk.json"))
		return len(text) > 0
	}, 10*time.Second, 20*time.Millisecond, "the new disk gets no identity")
	require.Never(t, func() bool {
		text, err = os.ReadFile(filepath.Join(root, "disk.json"))
		return err != nil || bytes.Contains(text, []byte(`"launched":true`))
	}, 2*time.Second, 50*time.Millisecond, "the new disk is marked for an etcd that runs on the old one")
}

// TestANewDiskAfterStartsInVain: no etcd could start on m3, and then its disk is
// replaced. What was so of the old disk says nothing of the new one, and no other
// machine is free.
func TestANewDiskAfterStartsInVain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.Spec{Nodes: 3, Security: "plain"})
	f.start(false, "m1", "m2", "m3")
	before := f.id(f.until(30*time.Second, f.voters("m1", "m2", "m3")), "m3")
	m3 := f.machines["m3"]
	var taken net.Listener
	require.Eventually(t, func() (ok bool) {
		_ = syscall.Kill(m3.pid(), syscall.SIGKILL)
		l, err := net.Listen("tcp", m3.address+":2380")
		if err == nil {
			taken = l
		}
		return err == nil
	}, 10*time.Second, time.Millisecond, "its port is never free")
	require.Eventually(t, func() bool { return f.said("etcd ends whenever it is started", "m3") }, 30*time.Second, 50*time.Millisecond)
	f.takeDisk("m3")
	require.NoError(t, taken.Close())
	f.until(40*time.Second, func(v admin.View) string {
		if what := f.voters("m1", "m2", "m3")(v); what != "" {
			return what
		}
		if f.id(v, "m3") == before {
			return "m3 has its old member"
		}
		return ""
	})
}

// takeDisk leaves an empty disk in the machine.
func (f *fleet) takeDisk(machine string) {
	root := f.machines[machine].root
	entries, err := os.ReadDir(root)
	require.NoError(f.t, err)
	require.NoError(f.t, os.Mkdir(root+".lost", 0o700))
	for _, entry := range entries {
		require.NoError(f.t, os.Rename(filepath.Join(root, entry.Name()), filepath.Join(root+".lost", entry.Name())))
	}
}

// TestGrowFromOne grows a ring of one, then looks at a dry run.
func TestGrowFromOne(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.Spec{Nodes: 1, Security: "plain"})
	f.start(false, "m1")
	one := f.until(20*time.Second, f.voters("m1"))
	pid := f.machines["m1"].pid()
	f.start(false, "m2", "m3")
	f.until(20*time.Second, func(v admin.View) string {
		if len(v.Presences) != 3 {
			return "only " + fmt.Sprint(slices.Sorted(maps.Keys(v.Presences)))
		}
		return ""
	})
	f.want(func(s *store.Spec) { s.Nodes = 3 })
	three := f.until(40*time.Second, f.voters("m1", "m2", "m3"))
	require.Equal(t, one.ClusterID, three.ClusterID)
	require.Equal(t, f.id(one, "m1"), f.id(three, "m1"))
	require.Equal(t, pid, f.machines["m1"].pid(), "the first was restarted")

	// Every agent is killed and comes back in a dry run: it says what it would
	// do, leaves the ring as it is, and leaves etcd running when it ends.
	f.kill("m1", "m2", "m3")
	f.want(func(s *store.Spec) { s.Nodes = 1 })
	before := f.pids("m1", "m2", "m3")
	f.start(true, "m1", "m2", "m3")
	require.Eventually(t, func() bool { return f.said("dry run: ringadm member", "m1", "m2", "m3") }, 20*time.Second, 50*time.Millisecond)
	time.Sleep(time.Second)
	for _, name := range f.names() {
		f.interrupt(name)
	}
	require.Equal(t, before, f.pids("m1", "m2", "m3"))
	for name, pid := range before {
		require.NoError(t, syscall.Kill(pid, 0), "the dry run stopped the etcd of %s", name)
	}
	after, err := f.view(t.Context())
	require.NoError(t, err)
	require.Equal(t, ids(three.Members), ids(after.Members))
}

// TestDryRunFoundsNothing leaves a store that waits for its ring as it is.
func TestDryRunFoundsNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.Spec{Nodes: 1, Security: "plain"})
	f.start(true, "m1")
	require.Eventually(t, func() bool { return f.said("dry run: bootstrap with 1 initial members", "m1") }, 10*time.Second, 20*time.Millisecond)
	time.Sleep(500 * time.Millisecond)
	keys, err := f.open("").List(t.Context(), "")
	require.NoError(t, err)
	for _, key := range keys {
		for _, prefix := range []string{auto.IdentityPrefix, auto.EpochPrefix, auto.FormedPrefix} {
			require.False(t, strings.HasPrefix(key, prefix+"/"), "a dry run wrote %s", key)
		}
	}
	require.Zero(t, f.machines["m1"].pid(), "a dry run started an etcd")
}

// TestOneLookBesideAnAgent ends by itself, and says what there is to do.
func TestOneLookBesideAnAgent(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.Spec{Nodes: 1, Security: "plain"})
	f.start(false, "m1")
	m := f.machines["m1"]
	require.Eventually(t, func() bool { return m.pid() != 0 }, time.Minute, 20*time.Millisecond)
	look := func() string {
		var out lines
		h := host.NewReal("m1", m.root, m.run, &out)
		h.Plain = true
		agent := auto.New(h, f.open(""), auto.Config{Machine: "m1", Address: m.address, Binaries: map[ring.Version]string{version: f.etcd}, DryRun: true, Brain: auto.Reference()})
		require.NoError(t, agent.Once(t.Context()))
		return fmt.Sprint(out.all())
	}
	require.Eventually(t, func() bool { return strings.Contains(look(), "steady") }, time.Minute, 20*time.Millisecond)
	before := m.pid()
	f.want(func(s *store.Spec) { s.Nodes = 3 })
	require.Eventually(t, func() bool {
		text := look()
		return text != "" && !strings.Contains(text, "steady")
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, before, m.pid(), "a look restarted an etcd")
}

func ids(members []*etcdserverpb.Member) []uint64 {
	var all []uint64
	for _, m := range members {
		all = append(all, m.ID)
	}
	slices.Sort(all)
	return all
}
