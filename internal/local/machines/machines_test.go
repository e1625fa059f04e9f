// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func notify() chan os.Signal {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGINT, syscall.SIGTERM)
	return told
}

// sandboxed runs the test again inside a sandbox, and reports whether this is that run.
func sandboxed(t *testing.T) bool {
	t.Helper()
	if Inside() {
		return true
	}
	var out bytes.Buffer
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=10m"}
	code, err := sandbox{args: args, env: os.Environ(), stdout: &out, stderr: &out}.run(t.Context())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("no namespaces here: %v", err)
	}
	require.NoError(t, err)
	t.Log(out.String())
	require.Zero(t, code, "the test failed in its sandbox")
	return false
}

func newLab(t *testing.T, names ...string) []*Machine {
	t.Helper()
	l, err := NewLab(t.Context(), Options{VolumeBytes: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	var ms []*Machine
	for _, name := range names {
		m, err := l.Add(t.Context(), name)
		require.NoError(t, err)
		ms = append(ms, m)
	}
	return ms
}

// startServing starts a program that waits until it accepts connections at port 7000.
func startServing(t *testing.T, m *Machine, tag, play string) {
	t.Helper()
	said := make(chan string, 8)
	require.NoError(t, m.Start(t.Context(), program(tag, play, m.Addr().String()+":7000", func(s string) { said <- s })))
	select {
	case s := <-said:
		require.Equal(t, "serving", s)
	case <-time.After(time.Minute):
		t.Fatal("it does not serve")
	}
}

// How long a connection may take: one that must come, and one that must not.
const surely, soon = time.Minute, 300 * time.Millisecond

func dial(from, to *Machine, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	c, err := from.DialContext(ctx, "tcp", to.Addr().String()+":7000")
	if err == nil {
		c.Close()
	}
	return err
}

func dialFromRun(to *Machine, within time.Duration) error {
	c, err := net.DialTimeout("tcp", to.Addr().String()+":7000", within)
	if err == nil {
		c.Close()
	}
	return err
}

func shown(t *testing.T, e Evidence, err error) Evidence {
	t.Helper()
	require.NoError(t, err)
	t.Log(e)
	return e
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func TestCommandOutputAndExit(t *testing.T) {
	if !sandboxed(t) {
		return
	}
	m := newLab(t, "m1")[0]
	var lines []string
	c := program("hi", "hello", "", func(s string) { lines = append(lines, s) })
	c.Env = append(c.Env, "GREETING=salve")
	require.NoError(t, m.Start(t.Context(), c))
	e, err := m.Wait(t.Context(), "hi")
	require.NoError(t, err)
	require.Equal(t, 7, e.Code)
	require.Equal(t, []string{"m1 1 salve", "to stderr"}, lines)

	c.Stdout, c.Log = nil, filepath.Join(t.TempDir(), "log")
	require.NoError(t, m.Start(t.Context(), c), "a tag is free after its end")
	_, err = m.Wait(t.Context(), "hi")
	require.NoError(t, err)
	log, err := os.ReadFile(c.Log)
	require.NoError(t, err)
	require.Equal(t, "m1 1 salve\nto stderr\n", string(log))

	c.Args = []string{"/no/such/program"}
	require.ErrorContains(t, m.Start(t.Context(), c), "no such file")
	require.ErrorContains(t, m.Start(t.Context(), Command{Tag: "x"}), "needs a tag and arguments")
}

func TestMachinesReachEachOther(t *testing.T) {
	if !sandboxed(t) {
		return
	}
	ms := newLab(t, "m1", "m2")
	startServing(t, ms[0], "server", "serve")
	startServing(t, ms[1], "server", "serve")
	require.NoError(t, dial(ms[0], ms[1], surely))
	require.NoError(t, dial(ms[1], ms[0], surely))
	require.NoError(t, dialFromRun(ms[0], surely))
	require.Equal(t, "10.77.0.11", ms[0].Addr().String())
	require.Equal(t, "10.77.0.1", ms[0].lab.Gateway().String())
}

func TestBlocks(t *testing.T) {
	if !sandboxed(t) {
		return
	}
	ms := newLab(t, "m1", "m2", "m3")
	for _, m := range ms {
		startServing(t, m, "server", "serve")
	}
	a, b, c := ms[0], ms[1], ms[2]

	e, err := a.Block(Traffic{}, b.Addr(), a.lab.Gateway())
	shown(t, e, err)
	require.True(t, isTimeout(dial(b, a, soon)))
	require.True(t, isTimeout(dialFromRun(a, soon)))
	require.NoError(t, dial(c, a, surely), "others are not blocked")
	n, err := a.Drops()
	require.NoError(t, err)
	require.Greater(t, n, uint64(1))

	// One-way: what the run sends to a is dropped; what a sends to the run arrives.
	l, err := net.ListenPacket("udp4", a.lab.Gateway().String()+":7001")
	require.NoError(t, err)
	defer l.Close()
	u, err := a.DialContext(t.Context(), "udp4", l.LocalAddr().String())
	require.NoError(t, err)
	_, err = u.Write([]byte("x"))
	require.NoError(t, err)
	_ = l.SetReadDeadline(time.Now().Add(time.Minute))
	_, from, err := l.ReadFrom(make([]byte, 8))
	require.NoError(t, err)
	require.Equal(t, u.LocalAddr().String(), from.String())

	e, err = a.PowerOff()
	shown(t, e, err)
	e, err = a.PowerOn(t.Context())
	shown(t, e, err)
	startServing(t, a, "server", "serve")
	require.True(t, isTimeout(dial(b, a, soon)), "a block stays over a power cycle")

	e, err = a.Unblock(t.Context())
	require.Contains(t, shown(t, e, err).Detail, b.Addr().String()+" answers")
	require.NoError(t, dial(b, a, surely))
	require.NoError(t, dialFromRun(a, surely))
	kept, err := a.Drops()
	require.NoError(t, err)
	require.GreaterOrEqual(t, kept, n)

	all, port := a.Addr(), Traffic{Port: 7000}
	e, err = a.Block(port, b.Addr())
	shown(t, e, err)
	require.True(t, isTimeout(dial(b, a, soon)), "what is dialled at the port")
	require.True(t, isTimeout(dial(a, b, soon)), "nor comes an answer of who was dialled there")
	require.NoError(t, b.dialsNobody(t.Context(), all, surely), "another port")
	_, err = a.Unblock(t.Context())
	require.NoError(t, err)
	port.But = true
	e, err = a.Block(port, b.Addr())
	shown(t, e, err)
	require.NoError(t, dial(b, a, surely), "the port that is spared")
	require.NoError(t, dial(a, b, surely))
	require.Error(t, b.dialsNobody(t.Context(), all, soon), "another port")
	_, err = a.Unblock(t.Context())
	require.NoError(t, err)

	e, err = b.BlockTo(c.Addr())
	shown(t, e, err)
	require.Error(t, dial(b, c, soon))
	require.NoError(t, dial(b, a, surely))
	e, err = c.Block(Traffic{}, b.Addr())
	require.Contains(t, shown(t, e, err).Detail, "no packet can come from there")
	e, err = c.Block(Traffic{}, a.Addr(), b.Addr())
	shown(t, e, err)
	e, err = c.Block(Traffic{}, a.Addr())
	require.Contains(t, shown(t, e, err).Detail, "already in force")
	_, err = b.Block(Traffic{}, b.Addr())
	require.ErrorContains(t, err, "refused to block")
}

// TestLostPackets: some of what goes to and from other machines is, over a power cycle too, until it ends; nothing of
// what comes from the run.
func TestLostPackets(t *testing.T) {
	if !sandboxed(t) {
		return
	}
	ms := newLab(t, "m1", "m2", "m3")
	a, b, c := ms[0], ms[1], ms[2]
	const sent = 200
	some := func(n int) bool { return 0 < n && n < sent }
	e, err := a.Lose(50)
	require.Contains(t, shown(t, e, err).Detail, "dropped")
	assert.True(t, some(arrive(t, a, b, sent)), "what it sends")
	assert.True(t, some(arrive(t, c, a, sent)), "what is sent to it")
	assert.Equal(t, sent, arrive(t, b, c, sent), "what others say to each other")
	assert.Equal(t, sent, arrive(t, a, a, sent), "what it says to itself")
	assert.Equal(t, sent, arrive(t, nil, a, sent), "what the run says")

	_, err = a.PowerOff()
	require.NoError(t, err)
	_, err = a.PowerOn(t.Context())
	require.NoError(t, err)
	assert.True(t, some(arrive(t, a, b, sent)), "after a power cycle")
	e, err = a.Lose(20)
	shown(t, e, err)
	assert.True(t, some(arrive(t, a, b, sent)), "less")
	e, err = a.Lose(0)
	shown(t, e, err)
	assert.Equal(t, sent, arrive(t, a, b, sent))
	assert.Equal(t, sent, arrive(t, c, a, sent))
}

// arrive sends so many datagrams from one machine, or from the run, to another and counts what arrives.
func arrive(t *testing.T, from, to *Machine, sent int) (n int) {
	t.Helper()
	var l net.PacketConn
	in(t, to, func() (err error) { l, err = net.ListenPacket("udp4", to.Addr().String()+":7001"); return err })
	defer l.Close()
	in(t, from, func() error {
		c, err := net.Dial("udp4", l.LocalAddr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		for range sent {
			_, _ = c.Write([]byte("x")) // what is lost on its way out is told
		}
		return nil
	})
	for buffer := make([]byte, 8); ; n++ {
		_ = l.SetReadDeadline(time.Now().Add(soon))
		if _, _, err := l.ReadFrom(buffer); err != nil {
			return n
		}
	}
}

// in does something on a machine's network; nil: on the run's.
func in(t *testing.T, m *Machine, f func() error) {
	t.Helper()
	if m == nil {
		require.NoError(t, f())
		return
	}
	host, err := m.powered()
	require.NoError(t, err)
	require.NoError(t, inNetworkOf(host.pid(), f))
}

func TestPowerLossKeepsTheVolumeAndSwapEmptiesIt(t *testing.T) {
	if !sandboxed(t) {
		return
	}
	exits := make(chan Exit, 8)
	l, err := NewLab(t.Context(), Options{WorkDir: t.TempDir(), VolumeBytes: 1 << 20, OnExit: func(e Exit) { exits <- e }})
	require.NoError(t, err)
	m, err := l.Add(t.Context(), "m1")
	require.NoError(t, err)
	other, err := l.Add(t.Context(), "m2")
	require.NoError(t, err)
	startServing(t, m, "agent", "agent")
	require.NoError(t, os.WriteFile(filepath.Join(m.DataRoot(), "kept"), []byte("x"), 0o600))

	e, err := m.PowerOff()
	require.Len(t, shown(t, e, err).Processes, 2)
	require.Equal(t, Exit{Machine: "m1", Tag: "agent", Code: -1, Signal: syscall.SIGKILL}, <-exits)
	require.ErrorContains(t, m.Start(t.Context(), program("x", "hello", "", nil)), "machine is off")
	_, err = m.PowerOff()
	require.ErrorIs(t, err, errOff)
	e, err = m.PowerOn(t.Context())
	shown(t, e, err)

	// As the machine sees it: read through its own mount, and by no other machine.
	require.Equal(t, []string{"kept"}, seenBy(t, m, m.DataDir()))
	require.Empty(t, seenBy(t, other, m.DataDir()))
	require.NotContains(t, seenBy(t, other, private), filepath.Base(l.volumes))

	file := filepath.Join(m.DataDir(), "mapped")
	said := make(chan string, 1)
	require.NoError(t, m.Start(t.Context(), program("holder", "hold", file, func(s string) { said <- s })))
	require.Equal(t, "holding <nil>", <-said)
	startServing(t, m, "bystander", "serve")
	e, err = m.SwapVolume(t.Context())
	require.Len(t, shown(t, e, err).Processes, 1)
	require.Equal(t, "holder", e.Processes[0].Tag)
	require.Empty(t, seenBy(t, m, m.DataDir()))
	require.NoError(t, dialFromRun(m, surely), "what does not hold the volume lives on")

	require.NoError(t, os.WriteFile(filepath.Join(m.DataRoot(), "new"), nil, 0o600))
	require.Equal(t, []string{"new"}, seenBy(t, m, m.DataDir()))
	e, err = m.Destroy()
	shown(t, e, err)
	again, err := l.Add(t.Context(), "m1")
	require.NoError(t, err)
	require.Equal(t, "10.77.0.13", again.Addr().String())
	require.NoError(t, l.Close())
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), "ringproof-m")
}

// seenBy lists a directory through the machine's own mounts.
func seenBy(t *testing.T, m *Machine, dir string) (names []string) {
	t.Helper()
	h, err := m.powered()
	require.NoError(t, err)
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(h.pid()), "root", dir))
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestFullVolume(t *testing.T) {
	if !sandboxed(t) {
		return
	}
	m := newLab(t, "m1")[0]
	file := filepath.Join(m.DataDir(), "file")
	require.NoError(t, m.Start(t.Context(), program("writer", "write", file, nil)))
	e, err := m.FillVolume()
	require.Contains(t, shown(t, e, err).Detail, "no space left on device")
	x, err := m.Wait(t.Context(), "writer")
	require.NoError(t, err)
	require.Equal(t, 28, x.Code, "a program on the machine was told ENOSPC")

	e, err = m.FreeVolume()
	shown(t, e, err)
	require.NoError(t, m.Start(t.Context(), program("writer", "write", file, nil)))
	before := available(m.DataRoot())
	require.True(t, within(time.Minute, func() bool { return available(m.DataRoot()) < before }), "it writes again")
}

func TestSignalsReachDescendants(t *testing.T) {
	if !sandboxed(t) {
		return
	}
	m := newLab(t, "m1")[0]
	startServing(t, m, "agent", "agent")
	ps, err := m.Processes()
	require.NoError(t, err)
	require.Len(t, ps, 2)
	require.Equal(t, "agent", ps[1].Tag, "found by its parent: its environment is clear")
	require.WithinDuration(t, time.Now(), ps[1].Started, time.Minute)

	e, err := m.SignalExe("etcd", syscall.SIGKILL)
	require.Len(t, shown(t, e, err).Processes, 1)
	require.Error(t, dialFromRun(m, soon))
	_, err = m.SignalExe("etcd", syscall.SIGKILL)
	require.ErrorContains(t, err, "did not land")
	e, err = m.Signal("agent", syscall.SIGTERM)
	shown(t, e, err)
	x, err := m.Wait(t.Context(), "agent")
	require.NoError(t, err)
	require.Equal(t, syscall.SIGTERM, x.Signal)
}

func TestFreezeAndThaw(t *testing.T) {
	if !sandboxed(t) {
		return
	}
	m := newLab(t, "m1")[0]
	startServing(t, m, "agent", "agent")
	e, err := m.Freeze()
	require.Len(t, shown(t, e, err).Processes, 2)
	c, err := net.DialTimeout("tcp", m.Addr().String()+":7000", surely)
	require.NoError(t, err, "the kernel still answers")
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	_, err = c.Read(make([]byte, 1))
	require.True(t, isTimeout(err), "the program does not")
	e, err = m.Thaw()
	shown(t, e, err)
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	_, err = c.Read(make([]byte, 1))
	require.NoError(t, err)
}

func TestTwoLabsInOneSandbox(t *testing.T) {
	if !sandboxed(t) {
		return
	}
	a, b := newLab(t, "m1")[0], newLab(t, "m1")[0]
	require.Equal(t, "10.77.0.11", a.Addr().String())
	require.Equal(t, "10.77.1.11", b.Addr().String())
	_, err := a.lab.Add(t.Context(), "m1")
	require.ErrorContains(t, err, "there is one")
	_, err = a.lab.Add(t.Context(), "../m2")
	require.ErrorContains(t, err, "use lower case letters")
}

// TestNames: two labs have machines of one name, and on each its own lab's are found. The
// host's file is left as it was.
func TestNames(t *testing.T) {
	if !sandboxed(t) {
		return
	}
	before, err := os.ReadFile("/etc/hosts")
	require.NoError(t, err)
	for _, want := range []string{"[10.77.0.12] <nil>", "[10.77.1.12] <nil>"} {
		l, err := NewLab(t.Context(), Options{VolumeBytes: 1 << 20, Domain: "ring.example.internal"})
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		m, err := l.Add(t.Context(), "m1")
		require.NoError(t, err)
		_, err = l.Add(t.Context(), "m2") // added after the other has its file
		require.NoError(t, err)
		var said []string
		require.NoError(t, m.Start(t.Context(), program("lookup", "lookup", "m2.ring.example.internal", func(s string) { said = append(said, s) })))
		_, err = m.Wait(t.Context(), "lookup")
		require.NoError(t, err)
		require.Equal(t, []string{want}, said)
	}
	after, err := os.ReadFile("/etc/hosts")
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

func TestDoctor(t *testing.T) {
	found := Doctor()
	var names []string
	for _, c := range found {
		t.Log(c)
		names = append(names, c.Name)
		require.True(t, c.OK || c.Fix != "")
	}
	require.Equal(t, "namespaces,machine network,packet drops,full volumes,fuse,docker,memory,disk,go", strings.Join(names, ","))
}
