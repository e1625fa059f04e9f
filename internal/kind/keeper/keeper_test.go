// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"

	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/internal/sched"
)

// TestAfter: a line of a log is told once, when it is whole, and a file that was begun anew is
// told from its beginning.
func TestAfter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rings_r-0_uid", "etcd", "0.log")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o644)) }
	const one, two = "2026-11-27T10:00:00Z stdout F {\"event\": \"boot\"}\n", "2026-11-27T10:00:01Z stderr F it said F and more\n"
	write(one + two[:20])
	lines, seen := after(file, 0)
	assert.Equal(t, []Line{{"rings", `{"event": "boot"}`, file, int64(len(one))}}, lines)
	write(one + two)
	lines, seen = after(file, seen)
	assert.Equal(t, []Line{{"rings", "it said F and more", file, int64(len(one + two))}}, lines)
	lines, seen = after(file, seen)
	assert.Empty(t, lines)
	write(one)
	lines, _ = after(file, seen)
	assert.Len(t, lines, 1, "it is another file")
	lines, seen = after(file+".none", 7)
	assert.Empty(t, lines)
	assert.Equal(t, int64(7), seen)
}

// TestParts: what a pod logs to a volume of its own is told as it comes, and anew where it was
// begun anew.
func TestParts(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "uid", "volumes", "kubernetes.io~empty-dir", "run", "etcd", "etcd.log")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o644)) }
	seen := map[string]int64{}
	write("one\n")
	assert.Equal(t, []Part{{"uid", "run/etcd/etcd.log", 0, []byte("one\n")}}, parts(root, seen))
	assert.Empty(t, parts(root, seen))
	write("one\ntwo\n")
	assert.Equal(t, []Part{{"uid", "run/etcd/etcd.log", 4, []byte("two\n")}}, parts(root, seen))
	write("new\n")
	assert.Equal(t, []Part{{"uid", "run/etcd/etcd.log", 0, []byte("new\n")}}, parts(root, seen))
}

// TestWire: how a connection speaks is told by its first words; what comes later in it says
// nothing, and neither does an answer.
func TestWire(t *testing.T) {
	var w wire
	at := time.Unix(100, 0)
	say := func(port int, text string) {
		packet := append([]byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2},
			0x80, 1, byte(port>>8), byte(port), 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0)
		at = at.Add(time.Second)
		w.hear(append(packet, text...), at)
	}
	say(2380, "GET /raft/stream/msgappv2/1 HTTP/1.1\r\n")
	say(2380, "\x00\x00binary")
	say(2381, "\x16\x03\x01\x02\x00")
	say(2381, "\x17\x03\x03GET ")
	say(2380, "")
	from, to := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	assert.ElementsMatch(t, []Heard{{From: from, To: netip.AddrPortFrom(to, 2380), Plain: time.Unix(101, 0)}, {From: from, To: netip.AddrPortFrom(to, 2381), TLS: time.Unix(103, 0)}}, w.all())
	w.hear([]byte{0x60}, at)
	w.hear(nil, at)
	_, err := bpf.Assemble(onlyPorts)
	assert.NoError(t, err)
}

// TestList: a process is listed with its own program as soon as it has that, and is gone when it
// has ended.
func TestList(t *testing.T) {
	k := &Keeper{known: map[life]Process{}}
	c := exec.Command("sleep", "100")
	c.Env = []string{"MARK=here"}
	require.NoError(t, c.Start())
	find := func() *Process {
		all := k.list()
		i := slices.IndexFunc(all, func(p Process) bool { return p.PID == c.Process.Pid })
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	p := find()
	require.NotNil(t, p)
	assert.Equal(t, []string{"sleep", "100"}, p.Args)
	assert.False(t, p.First, "it is in no pod")
	said := k.obey(t.Context(), Order{ID: 3, Do: DoEnviron, Pids: []int{p.PID}})
	assert.Equal(t, Said{ID: 3, Texts: []string{"MARK=here"}}, said)
	said = k.obey(t.Context(), Order{Do: DoSignal, Pids: []int{p.PID}, Signal: syscall.SIGKILL})
	assert.Empty(t, said.Err)
	assert.Error(t, c.Wait())
	assert.Nil(t, find())
	said = k.obey(t.Context(), Order{Do: DoSignal, Pids: []int{p.PID}, Signal: syscall.SIGKILL})
	assert.Empty(t, said.Err, "who has ended is not there to be killed")
	assert.Contains(t, k.obey(t.Context(), Order{Do: "dance"}).Err, "can't")
}

// TestServing: what runs in a pod with an etcd, and who speaks to it for Kubernetes.
func TestServing(t *testing.T) {
	all := []Process{
		{PID: 1, Exe: "/usr/lib/systemd/systemd"},
		{PID: 2, Exe: "/opt/ringadm/ringadm", Pod: "a", First: true}, {PID: 3, Exe: "/usr/local/bin/etcd", Pod: "a"}, {PID: 4, Exe: "/bin/sleep", Pod: "a"},
		{PID: 5, Exe: "/coredns", Pod: "b", First: true},
		{PID: 6, Exe: "/manager", Pod: "c", First: true}, {PID: 7, Exe: "/usr/local/bin/etcd", Pod: "c", First: true},
	}
	assert.Equal(t, []string{"2", "3", "6", "7"}, serving(all))
}

// TestAccount: a process that is kept waiting is told of, as one that serves a ring.
func TestAccount(t *testing.T) {
	needs.RealTime(t)
	if _, ok := sched.RunDelay("/proc/self/schedstat"); !ok {
		t.Skip("SKIPPED: this kernel keeps no account of waiting (CONFIG_SCHED_INFO)")
	}
	var told bytes.Buffer
	k := &Keeper{known: map[life]Process{}, out: json.NewEncoder(&told)}
	spin := strconv.Itoa(needs.Busy(t))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	k.account(ctx, func(int) []string { return []string{spin} })
	var s Said
	require.NoError(t, json.NewDecoder(&told).Decode(&s))
	assert.Greater(t, s.Lost, sched.Little)
}

// A control group names the pod, as each of the ways to write it.
func TestInPod(t *testing.T) {
	for group, want := range map[string]string{
		"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod0a1b2c3d_0a1b_0a1b_0a1b_0a1b2c3d4e5f.slice/cri-containerd-ff.scope": "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
		"0::/../../kubelet/kubepods/besteffort/pod0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f/ff":                                                                                           "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
		"0::/system.slice/kubelet.service": "",
	} {
		found := inPod.FindStringSubmatch(group)
		if want == "" {
			assert.Nil(t, found)
			continue
		}
		require.Len(t, found, 2)
		assert.Equal(t, want, strings.ReplaceAll(found[1], "_", "-"))
	}
}

// TestPass: a connection is passed on to whom its first line names, and each half ends by itself.
func TestPass(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer echo.Close()
	go func() {
		c, err := echo.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go pass(t.Context(), l)
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, echo.Addr().String()+"\nthere and back")
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	back, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Equal(t, "there and back", string(back))
}

// TestWipe: a directory is emptied, and stays.
func TestWipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "etcd", "member"), 0o700))
	k := &Keeper{known: map[life]Process{}}
	said := k.obey(t.Context(), Order{Do: DoWipe, Pod: "none", Path: dir})
	assert.Empty(t, said.Err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}
