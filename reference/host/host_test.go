// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build unix

package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/reference/host"
)

// TestMain lets the test binary stand in for etcd: with --data-dir it sleeps,
// and deaf to SIGTERM if the directory's name says so.
func TestMain(m *testing.M) {
	for _, arg := range os.Args[1:] {
		if strings.HasPrefix(arg, "--data-dir=") {
			if strings.HasSuffix(arg, "deaf") {
				signal.Ignore(syscall.SIGTERM)
			}
			fmt.Fprintln(os.Stderr, "asleep in "+arg)
			time.Sleep(time.Minute)
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// sleeper starts a stand-in for etcd and returns its pid, read from the pid
// file. It is killed when the test ends, however it ends.
func sleeper(t *testing.T, h *host.Real, dir string) (pid int) {
	t.Helper()
	args := []string{os.Args[0], "--name=m1", "--data-dir=" + h.Disk().Path(dir), "--listen-peer-urls=http://127.0.0.1:2380"}
	require.NoError(t, h.Process().Start(t.Context(), args))
	pid = claimed(t, h)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	require.Eventually(t, func() bool { return strings.Contains(h.Process().LastWords(), "asleep in ") }, time.Minute, 5*time.Millisecond)
	return pid
}

func claimed(t *testing.T, h *host.Real) int {
	var claim struct{ PID int }
	text, err := os.ReadFile(filepath.Join(h.Run, "etcd.pid"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &claim))
	return claim.PID
}

func runs(t *testing.T, h *host.Real) bool {
	t.Helper()
	args, err := h.Process().Running()
	require.NoError(t, err)
	return args != nil
}

// TestTakeOver kills nobody: an agent that comes back is a new value of Real
// that must find what the one before it left running.
func TestTakeOver(t *testing.T) {
	root, run := t.TempDir(), t.TempDir()
	first := host.NewReal("m1", root, run, nil)
	require.False(t, runs(t, first))
	sleeper(t, first, "etcd")

	for _, c := range []struct {
		name string
		next func(t *testing.T) *host.Real
	}{
		{"by the pid file", func(*testing.T) *host.Real { return host.NewReal("m1", root, run, nil) }},
		{"by --data-dir, as the agent was killed before it wrote the pid file", func(t *testing.T) *host.Real {
			return host.NewReal("m1", root, t.TempDir(), nil)
		}},
		{"by --data-dir, with a pid file that is torn", func(t *testing.T) *host.Real {
			other := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(other, "etcd.pid"), []byte(`{"pid":1`), 0o600))
			return host.NewReal("m1", root, other, nil)
		}},
		{"by --data-dir, with the root written otherwise", func(t *testing.T) *host.Real {
			return host.NewReal("m1", root+"/", t.TempDir(), nil)
		}},
		{"by --data-dir, with a relative root", func(t *testing.T) *host.Real {
			t.Chdir(filepath.Dir(root))
			return host.NewReal("m1", filepath.Base(root), t.TempDir(), nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args, err := c.next(t).Process().Running()
			require.NoError(t, err)
			require.Equal(t, []string{os.Args[0], "--name=m1", "--data-dir=" + filepath.Join(root, "etcd"), "--listen-peer-urls=http://127.0.0.1:2380"}, args)
		})
	}
	require.False(t, runs(t, host.NewReal("m2", root+"2", t.TempDir(), nil)), "another machine's, whose root begins alike")

	next := host.NewReal("m1", root, t.TempDir(), nil)
	require.NoError(t, next.Process().Stop(t.Context(), time.Minute))
	require.False(t, runs(t, first), "stopped by the one who took it over")
}

// TestPidReuse writes pid files that name a living process which is not the
// one that was started: after a reboot, or after the pid went round.
func TestPidReuse(t *testing.T) {
	h := host.NewReal("m1", t.TempDir(), t.TempDir(), nil)
	other := exec.Command("sleep", "60")
	require.NoError(t, other.Start())
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	for _, claim := range []string{
		fmt.Sprintf(`{"pid":%d,"started":"1"}`, other.Process.Pid),
		fmt.Sprintf(`{"pid":%d,"started":""}`, other.Process.Pid),
		fmt.Sprintf(`{"pid":%d}`, other.Process.Pid),
		`{"pid":0}`, `{"pid":-1}`, `{}`, ``, `null`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(h.Run, "etcd.pid"), []byte(claim), 0o600))
		require.False(t, runs(t, h), claim)
		require.NoError(t, h.Process().Stop(t.Context(), time.Second), claim)
	}
	require.NoError(t, syscall.Kill(other.Process.Pid, 0), "a process that is not ours was stopped")
}

// TestZombie holds that a child that was killed and not yet waited for by its
// parent is gone: its ports and files are free.
func TestZombie(t *testing.T) {
	h := host.NewReal("m1", t.TempDir(), t.TempDir(), nil)
	pid := sleeper(t, h, "etcd")
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !runs(t, h) }, time.Minute, 5*time.Millisecond)
}

func TestStop(t *testing.T) {
	t.Run("SIGTERM is enough", func(t *testing.T) {
		h := host.NewReal("m1", t.TempDir(), t.TempDir(), nil)
		sleeper(t, h, "etcd")
		begun := time.Now()
		require.NoError(t, h.Process().Stop(t.Context(), 10*time.Minute))
		require.Less(t, time.Since(begun), 5*time.Minute, "it waited for the grace to end")
		require.False(t, runs(t, h))
	})
	t.Run("SIGKILL after the grace", func(t *testing.T) {
		h := host.NewReal("m1", t.TempDir(), t.TempDir(), nil)
		sleeper(t, h, "deaf")
		begun := time.Now()
		require.NoError(t, h.Process().Stop(t.Context(), 200*time.Millisecond))
		require.GreaterOrEqual(t, time.Since(begun), 200*time.Millisecond)
		require.False(t, runs(t, h))
	})
	t.Run("nothing runs", func(t *testing.T) {
		h := host.NewReal("m1", t.TempDir(), t.TempDir(), nil)
		require.NoError(t, h.Process().Stop(t.Context(), time.Second))
	})
}

// TestOutlivesItsAgent looks at the session: Ctrl-C of the agent's process
// group must not reach etcd.
func TestOutlivesItsAgent(t *testing.T) {
	h := host.NewReal("m1", t.TempDir(), t.TempDir(), nil)
	pid := sleeper(t, h, "etcd")
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	require.Equal(t, pid, group, "it is in the agent's process group")
}

func TestDiskWrite(t *testing.T) {
	root := t.TempDir()
	d := host.NewReal("m1", root, t.TempDir(), nil).Disk()
	_, err := d.Read("pki/peer.key")
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, content := range []string{"first", "the second is longer", ""} {
		require.NoError(t, d.Write("pki/peer.key", []byte(content)))
		read, err := d.Read("pki/peer.key")
		require.NoError(t, err)
		require.Equal(t, content, string(read))
	}
	stat, err := os.Stat(d.Path("pki/peer.key"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), stat.Mode().Perm())
	left, err := os.ReadDir(filepath.Join(root, "pki"))
	require.NoError(t, err)
	require.Len(t, left, 1, "a temporary file is left behind")

	require.NoError(t, d.Remove("pki"))
	require.NoError(t, d.Remove("pki"), "nothing there is no error")
	there, err := d.Exists("pki/peer.key")
	require.NoError(t, err)
	require.False(t, there)
}

// TestDiskWriteIsAtomic reads all the while: what is read is one of the two.
func TestDiskWriteIsAtomic(t *testing.T) {
	d := host.NewReal("m1", t.TempDir(), t.TempDir(), nil).Disk()
	contents := []string{strings.Repeat("a", 1<<16), strings.Repeat("b", 1<<15)}
	require.NoError(t, d.Write("disk.json", []byte(contents[0])))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 50 {
			if err := d.Write("disk.json", []byte(contents[i%2])); err != nil {
				t.Error(err)
			}
		}
	}()
	for {
		read, err := d.Read("disk.json")
		require.NoError(t, err)
		require.Contains(t, contents, string(read), "%d bytes are neither the old content nor the new", len(read))
		select {
		case <-done:
			return
		default:
		}
	}
}

// TestDiskWriteKeepsTheOldOnFailure writes into a directory that takes no file.
func TestDiskWriteKeepsTheOldOnFailure(t *testing.T) {
	d := host.NewReal("m1", t.TempDir(), t.TempDir(), nil).Disk()
	require.NoError(t, d.Write("disk.json", []byte("old")))
	require.NoError(t, os.Mkdir(d.Path("disk.json.new"), 0o700)) // in the way of the temporary file
	require.NoError(t, os.WriteFile(d.Path("disk.json.new/x"), nil, 0o600))
	require.Error(t, d.Write("disk.json", []byte("new")))
	read, err := d.Read("disk.json")
	require.NoError(t, err)
	require.Equal(t, "old", string(read))
}

// TestWALOfAnOldMember makes a log whose first segments are gone, as etcd's
// are after some hundred megabytes of writes: snapshots cover them.
func TestWALOfAnOldMember(t *testing.T) {
	was := wal.SegmentSizeBytes
	wal.SegmentSizeBytes = 1024
	defer func() { wal.SegmentSizeBytes = was }()
	d, w := newLog(t)
	for i := range uint64(100) {
		entry := &raftpb.Entry{Term: proto.Uint64(1), Index: proto.Uint64(i + 1), Data: request(t, 100)}
		require.NoError(t, w.Save(&raftpb.HardState{Term: proto.Uint64(1), Commit: proto.Uint64(i)}, []*raftpb.Entry{entry}))
		if i%2 == 0 {
			continue
		}
		require.NoError(t, w.SaveSnapshot(&walpb.Snapshot{Index: proto.Uint64(i + 1), Term: proto.Uint64(1), ConfState: &raftpb.ConfState{}}))
	}
	require.NoError(t, w.Close())
	segments, err := filepath.Glob(filepath.Join(d.Path("etcd/member/wal"), "*.wal"))
	require.NoError(t, err)
	require.Greater(t, len(segments), 4)
	for range 3 {
		found, err := d.WAL("etcd")
		require.NoError(t, err)
		require.Equal(t, host.WAL{Member: 7, Cluster: 9, Last: 100}, found)
		require.NoError(t, os.Remove(segments[0]))
		segments = segments[1:]
	}

	// A segment missing from the middle is damage: neither a log nor none.
	require.NoError(t, os.Remove(segments[1]))
	_, err = d.WAL("etcd")
	require.Error(t, err)
	require.NotErrorIs(t, err, fs.ErrNotExist)
}

// TestWALOfAMemberThatGotASnapshot has a gap at its beginning: the leader sent
// a snapshot in place of the first entries.
func TestWALOfAMemberThatGotASnapshot(t *testing.T) {
	d, w := newLog(t)
	require.NoError(t, w.SaveSnapshot(&walpb.Snapshot{Index: proto.Uint64(29), Term: proto.Uint64(2), ConfState: &raftpb.ConfState{}}))
	require.NoError(t, w.Save(&raftpb.HardState{Term: proto.Uint64(2), Commit: proto.Uint64(29)}, nil))
	found, err := d.WAL("etcd")
	require.NoError(t, err)
	require.Equal(t, host.WAL{Member: 7, Cluster: 9, Last: 29}, found)

	entry := &raftpb.Entry{Term: proto.Uint64(2), Index: proto.Uint64(30), Data: request(t, 1)}
	require.NoError(t, w.Save(&raftpb.HardState{Term: proto.Uint64(2), Commit: proto.Uint64(30)}, []*raftpb.Entry{entry}))
	require.NoError(t, w.Close())
	found, err = d.WAL("etcd")
	require.NoError(t, err)
	require.Equal(t, host.WAL{Member: 7, Cluster: 9, Last: 30}, found)
}

// newLog makes the log of member 7 of ring 9 on a disk.
func newLog(t *testing.T) (host.Disk, *wal.WAL) {
	d := host.NewReal("m1", t.TempDir(), t.TempDir(), nil).Disk()
	dir := d.Path("etcd/member/wal")
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o700))
	metadata, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: proto.Uint64(7), ClusterID: proto.Uint64(9)})
	require.NoError(t, err)
	w, err := wal.Create(zap.NewNop(), dir, metadata)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(d.Path("etcd/member/snap"), 0o700))
	keyspace, err := bbolt.Open(d.Path("etcd/member/snap/db"), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, keyspace.Close())
	return d, w
}

// request is an entry's data as etcd writes it since v3.6: a put of so many bytes.
func request(t *testing.T, size int) []byte {
	data, err := proto.Marshal(&etcdserverpb.InternalRaftRequest{Header: &etcdserverpb.RequestHeader{ID: 1}, Put: &etcdserverpb.PutRequest{Key: []byte("k"), Value: make([]byte, size)}})
	require.NoError(t, err)
	return data
}

// TestWALWithARequestOfTheV2API has what a v3.5 writes when it starts, a Request of etcd's
// first protocol, until a snapshot covers it.
func TestWALWithARequestOfTheV2API(t *testing.T) {
	d, w := newLog(t)
	var published []byte
	for field, text := range map[protowire.Number]string{2: "PUT", 3: "/0/members/7/attributes", 4: `{"name":"m1"}`} { // order: a message's fields have none
		published = protowire.AppendString(protowire.AppendTag(published, field, protowire.BytesType), text)
	}
	save := func(index uint64, data []byte) {
		entry := &raftpb.Entry{Term: proto.Uint64(1), Index: proto.Uint64(index), Data: data}
		require.NoError(t, w.Save(&raftpb.HardState{Term: proto.Uint64(1), Commit: proto.Uint64(index)}, []*raftpb.Entry{entry}))
	}
	read := func() uint64 {
		found, err := d.WAL("etcd")
		require.NoError(t, err)
		return found.V2
	}
	save(1, nil) // a term begins
	save(2, request(t, 1))
	require.Zero(t, read())
	save(3, published)
	save(4, request(t, 1))
	require.EqualValues(t, 3, read())
	require.NoError(t, w.SaveSnapshot(&walpb.Snapshot{Index: proto.Uint64(4), Term: proto.Uint64(1), ConfState: &raftpb.ConfState{}}))
	save(5, request(t, 1))
	require.Zero(t, read())
	require.NoError(t, w.Close())
}

func TestWALThatIsNotThere(t *testing.T) {
	d := host.NewReal("m1", t.TempDir(), t.TempDir(), nil).Disk()
	_, err := d.WAL("etcd")
	require.ErrorIs(t, err, fs.ErrNotExist)
	// etcd makes these before its log: a directory is not a log.
	require.NoError(t, os.MkdirAll(d.Path("etcd/member/snap"), 0o700))
	require.NoError(t, os.MkdirAll(d.Path("etcd/member/wal"), 0o700))
	_, err = d.WAL("etcd")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.WriteFile(d.Path("etcd/member/wal/0000000000000000-0000000000000000.wal"), make([]byte, 64), 0o600))
	_, err = d.WAL("etcd")
	require.Error(t, err)
	require.NotErrorIs(t, err, fs.ErrNotExist, "a log without its first record is damage, not absence")
}

// TestWALThatIsNotKnown: what can't be read may hold a log. Taken for none, a member that
// has one would be replaced, and what it left be removed. As root every directory may be
// read: here what stands in its place is none.
func TestWALThatIsNotKnown(t *testing.T) {
	for name, damage := range map[string]func(d host.Disk) error{
		"its directory is a file": func(d host.Disk) error { return os.WriteFile(d.Path("etcd/member"), nil, 0o600) },
		"its directory leads in a circle": func(d host.Disk) error {
			return errors.Join(os.Mkdir(d.Path("etcd/member"), 0o700), os.Symlink("wal", d.Path("etcd/member/wal")))
		},
		"a segment is gone between two looks": func(d host.Disk) error {
			return errors.Join(os.MkdirAll(d.Path("etcd/member/wal"), 0o700),
				os.Symlink("gone", d.Path("etcd/member/wal/0000000000000000-0000000000000000.wal")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := host.NewReal("m1", t.TempDir(), t.TempDir(), nil).Disk()
			require.NoError(t, os.Mkdir(d.Path("etcd"), 0o700))
			require.NoError(t, damage(d))
			_, err := d.WAL("etcd")
			require.Error(t, err)
			require.NotErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

// TestWALOfRealEtcd reads the log of an etcd that runs, was killed, and was
// asked who it is.
func TestWALOfRealEtcd(t *testing.T) {
	binary := needs.Etcd(t).Etcd
	address := "127.0.71.1"
	h := host.NewReal("m1", t.TempDir(), t.TempDir(), nil)
	client, peer := free(t, address), free(t, address)
	require.NoError(t, h.Process().Start(t.Context(), []string{binary, "--name=m1", "--data-dir=" + h.Disk().Path("etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=m1=" + peer, "--log-level=warn"}))
	pid := claimed(t, h)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })

	c, err := h.Dial(client, nil)
	require.NoError(t, err)
	defer c.Close()
	var whose host.WAL
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		status, err := c.Status(ctx, client)
		if err != nil || status.Leader == 0 {
			return false
		}
		whose = host.WAL{Member: status.Header.MemberId, Cluster: status.Header.ClusterId, Last: status.RaftIndex}
		return true
	}, 2*time.Minute, 50*time.Millisecond, "%s", h.Process().LastWords())

	running, err := h.Disk().WAL("etcd")
	require.NoError(t, err)
	require.Equal(t, whose.Member, running.Member)
	require.Equal(t, whose.Cluster, running.Cluster)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !runs(t, h) }, time.Minute, 10*time.Millisecond)
	killed, err := h.Disk().WAL("etcd")
	require.NoError(t, err)
	require.Equal(t, whose.Member, killed.Member)
	require.GreaterOrEqual(t, killed.Last, whose.Last)
}

// free returns a plain URL that nobody listens on.
func free(t *testing.T, address string) string {
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	require.NoError(t, err)
	defer l.Close()
	return "http://" + net.JoinHostPort(address, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

// A clock that is set, or a machine that slept, shows in the time between two looks: the
// monotonic clock, which has neither, would count in a time that has its reading.
func TestNowIsTheWallClock(t *testing.T) {
	now := host.NewReal("m1", t.TempDir(), t.TempDir(), nil).Now()
	require.Equal(t, now.Round(0), now)
}

// TestAKeyspaceThatCantBeReadIsUnknown: a member is replaced for a damaged one, and not for a disk that
// doesn't answer now, as a folder in the file's place doesn't.
func TestAKeyspaceThatCantBeReadIsUnknown(t *testing.T) {
	d, w := newLog(t)
	require.NoError(t, w.Close())
	keyspace := d.Path("etcd/member/snap/db")
	require.NoError(t, os.WriteFile(keyspace, make([]byte, 32<<10), 0o600))
	found, err := d.WAL("etcd")
	require.NoError(t, err)
	require.Contains(t, found.Unopened, "invalid database")

	require.NoError(t, os.Remove(keyspace))
	require.NoError(t, os.Mkdir(keyspace, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(keyspace, "x"), nil, 0o600))
	found, err = d.WAL("etcd")
	require.NoError(t, err)
	require.Empty(t, found.Unopened)
}
