// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// memory is a Store that fails on demand.
type memory struct {
	mu   sync.Mutex
	keys map[string][]byte
	// fail is asked at every call; applied tells Create to store the value
	// although it reports an error.
	fail func(call, key string) (err error, applied bool)
}

func newMemory() *memory {
	return &memory{keys: map[string][]byte{}, fail: func(string, string) (error, bool) { return nil, false }}
}

func (m *memory) Create(_ context.Context, key string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err, applied := m.fail("create", key)
	if err != nil && !applied {
		return err
	}
	if _, ok := m.keys[key]; ok {
		if err != nil {
			return err
		}
		return ErrExists
	}
	m.keys[key] = slices.Clone(value)
	return err
}

func (m *memory) Get(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err, _ := m.fail("get", key); err != nil {
		return nil, err
	}
	value, ok := m.keys[key]
	if !ok {
		return nil, ErrNotFound
	}
	return slices.Clone(value), nil
}

func (m *memory) List(_ context.Context, prefix string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err, _ := m.fail("list", prefix); err != nil {
		return nil, err
	}
	var keys []string
	for key := range m.keys {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

func openNew(t *testing.T) (Blob, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ring")
	b, err := Open(t.Context(), "file://"+dir+"?create_dir=true")
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	require.NoError(t, Init(t.Context(), b))
	return b, dir
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for address, want := range map[string]string{
		"file://" + dir + "/unmounted":           "the directory does not exist: mount it",
		"file://" + file:                         "not a directory",
		"s3://bucket/ring":                       "only file:///directory is supported for now",
		"gs://bucket":                            "only file:///directory is supported for now",
		"azblob://container":                     "only file:///directory is supported for now",
		dir:                                      "only file:///directory is supported for now",
		"file://mnt/ring":                        "three slashes",
		"file://" + dir + "?create_dir=perhaps":  "write true or false",
		"file://" + dir + "?metadata=skip":       `option "metadata"`,
		"file://" + dir + "/x?create_dir=false":  "does not exist",
		"file:///%zz":                            "address refused",
		"postgres://someone:sesame@host/ring?x=": "only file:///directory is supported for now",
	} {
		_, err := Open(t.Context(), address)
		require.ErrorContains(t, err, want, address)
		require.NotContains(t, err.Error(), "sesame")
	}
	require.NoDirExists(t, filepath.Join(dir, "unmounted"))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Open(cancelled, "file://"+dir)
	require.ErrorIs(t, err, context.Canceled)
}

func TestPlaceWithoutMarkerMeansNothing(t *testing.T) {
	dir := t.TempDir()
	b, err := Open(t.Context(), "file://"+dir)
	require.NoError(t, err)
	require.ErrorIs(t, Check(t.Context(), b), ErrNotAStore)

	identity := Log[Identity]{Store: b, Prefix: "identity"}
	_, _, err = identity.Latest(t.Context())
	require.ErrorIs(t, err, ErrNotAStore)
	_, err = b.Get(t.Context(), "identity/00000001.json")
	require.ErrorIs(t, err, ErrNotAStore)
	require.NotErrorIs(t, err, ErrNotFound)
	require.ErrorIs(t, b.Create(t.Context(), "identity/00000001.json", nil), ErrNotAStore)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries, "a refused creation must leave nothing")

	require.NoError(t, Init(t.Context(), b))
	require.NoError(t, Init(t.Context(), b), "init may be repeated")
	n, _, err := identity.Latest(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}

// The marker goes away under a running machine: S1 of etcd-manager.
func TestLostMarker(t *testing.T) {
	b, dir := openNew(t)
	l := Log[Epoch]{Store: b, Prefix: "epochs"}
	_, err := l.Append(t.Context(), 0, Epoch{Holder: "a", Nonce: "1"})
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "ringadm-store")))

	_, _, err = l.Latest(t.Context())
	require.ErrorIs(t, err, ErrNotAStore)
	_, err = l.Append(t.Context(), 1, Epoch{Holder: "b", Nonce: "1"})
	require.ErrorIs(t, err, ErrNotAStore)
	require.ErrorContains(t, Init(t.Context(), b), "restore the marker", "a place with keys is not made a store anew")

	require.NoError(t, os.Mkdir(filepath.Join(dir, "ringadm-store"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, MarkerKey), []byte("v2"), 0o600))
	require.ErrorIs(t, Check(t.Context(), b), ErrNotAStore)
	require.ErrorContains(t, Init(t.Context(), b), "use the release")
}

// Everything is gone, the directory included; the answer is not "no ring yet".
func TestRemovedDirectory(t *testing.T) {
	b, dir := openNew(t)
	require.NoError(t, os.RemoveAll(dir))
	_, _, err := Log[Identity]{Store: b, Prefix: "identity"}.Latest(t.Context())
	require.ErrorIs(t, err, ErrNotAStore)
}

// TestMountedLate: an agent was started before its store was mounted, and asked the directory
// below for as long as it lived.
func TestMountedLate(t *testing.T) {
	elsewhere, below := openNew(t)
	require.NoError(t, elsewhere.Create(t.Context(), "a", nil))
	dir := filepath.Join(t.TempDir(), "ring")
	require.NoError(t, os.Mkdir(dir, 0o700))
	b, err := Open(t.Context(), "file://"+dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	for range 2 {
		require.ErrorIs(t, Check(t.Context(), b), ErrNotAStore)
		_, err = b.List(t.Context(), "a")
		require.ErrorIs(t, err, ErrNotAStore)
	}
	require.NoError(t, os.Remove(dir))
	require.ErrorContains(t, Check(t.Context(), b), "mount it")
	require.NoError(t, os.Rename(below, dir))
	require.NoError(t, Check(t.Context(), b))
	keys, err := b.List(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, keys)

	require.NoError(t, os.Rename(dir, below)) // something is mounted over a store that is one
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, Check(t.Context(), b), "it is asked where it was")
}

func TestUnansweredIsNotAbsent(t *testing.T) {
	m := newMemory()
	require.NoError(t, Init(t.Context(), m))
	down := errors.New("connection reset")
	m.fail = func(call, key string) (error, bool) { return down, false }
	s := Marked{m}
	_, err := s.Get(t.Context(), "a")
	require.ErrorIs(t, err, down)
	require.ErrorIs(t, s.Create(t.Context(), "a", nil), down)
	require.ErrorIs(t, Check(t.Context(), s), down)
	require.ErrorIs(t, Init(t.Context(), s), down)
	for _, call := range []string{"list", "get"} {
		m.fail = func(c, key string) (error, bool) {
			if c == call {
				return down, false
			}
			return nil, false
		}
		_, err = s.List(t.Context(), "a/")
		require.ErrorIs(t, err, down, call)
		require.NotErrorIs(t, err, ErrNotAStore)
	}
	// The key is answered for, the marker is not: still no answer.
	m.fail = func(_, key string) (error, bool) {
		if key == MarkerKey {
			return down, false
		}
		return nil, false
	}
	_, err = s.Get(t.Context(), "a")
	require.ErrorIs(t, err, down)
	require.NotErrorIs(t, err, ErrNotFound)
}

func TestFiles(t *testing.T) {
	b, dir := openNew(t)
	ctx := t.Context()
	require.Equal(t, "file://"+dir, b.String())
	for _, key := range []string{"b/2", "b/1", "bb", "c/d/e"} {
		require.NoError(t, b.Create(ctx, key, []byte(key)))
	}
	require.ErrorIs(t, b.Create(ctx, "b/1", []byte("other")), ErrExists)
	value, err := b.Get(ctx, "b/1")
	require.NoError(t, err)
	require.Equal(t, "b/1", string(value))
	_, err = b.Get(ctx, "b/3")
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "b/3")
	_, err = b.Get(ctx, "c/d")
	require.Error(t, err, "a directory is not a value")
	require.NotErrorIs(t, err, ErrNotFound)

	// What a crash leaves behind is not a key.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b", ".tmp-crashed"), nil, 0o600))
	for prefix, want := range map[string][]string{
		"b": {"b/1", "b/2", "bb"}, "b/": {"b/1", "b/2"}, "c/": {"c/d/e"}, "c/d/e": {"c/d/e"}, "none/": nil, "none/at/all": nil,
		"": {"b/1", "b/2", "bb", "c/d/e", MarkerKey},
	} {
		keys, err := b.List(ctx, prefix)
		require.NoError(t, err)
		require.Equal(t, want, keys, prefix)
	}

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, b.Create(cancelled, "late", nil), context.Canceled)
	_, err = b.Get(ctx, "late")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestFilesModesAndRemains(t *testing.T) {
	b, dir := openNew(t)
	require.NoError(t, b.Create(t.Context(), "x/y", []byte("1")))
	require.ErrorIs(t, b.Create(t.Context(), "x/y", []byte("2")), ErrExists)
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		require.NotContains(t, name, ".tmp-")
		info, err := d.Info()
		require.NoError(t, err)
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		require.Equal(t, want, info.Mode().Perm(), name)
		return nil
	}))
}

func TestKeysRefused(t *testing.T) {
	b, dir := openNew(t)
	for _, key := range []string{"", "/a", "a/", "a//b", "../a", "a/../../b", ".tmp-x", "a/.b", "a b", "a\x00", "ä", strings.Repeat("k", 513)} {
		require.ErrorContains(t, b.Create(t.Context(), key, nil), "refused", "%q", key)
		_, err := b.Get(t.Context(), key)
		require.ErrorContains(t, err, "refused", "%q", key)
	}
	for _, prefix := range []string{"/", "../", "a//", ".tmp"} {
		_, err := b.List(t.Context(), prefix)
		require.ErrorContains(t, err, "refused", "%q", prefix)
	}
	require.NoFileExists(t, filepath.Join(filepath.Dir(dir), "a"))
}

// A symbolic link must not lead out of the store.
func TestFilesStayInside(t *testing.T) {
	b, dir := openNew(t)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "1"), []byte("secret"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
	_, err := b.Get(t.Context(), "out/1")
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrNotFound)
	require.Error(t, b.Create(t.Context(), "out/2", nil))
	require.NoFileExists(t, filepath.Join(outside, "2"))
}

// The reply to link was lost and the request repeated, as NFS does it.
func TestRepeatedLinkIsOurs(t *testing.T) {
	_, dir := openNew(t)
	f, err := openFiles(dir, false)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
	require.NoError(t, os.Link(filepath.Join(dir, "mine"), filepath.Join(dir, "key")))
	require.NoError(t, f.link("mine", "key"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other"), nil, 0o600))
	require.ErrorIs(t, f.link("other", "key"), ErrExists)
}

func TestOneCreatorAmongTasks(t *testing.T) {
	b, _ := openNew(t)
	for round := range 50 {
		var wins atomic.Int32
		var winner atomic.Value
		var all sync.WaitGroup
		start := make(chan struct{})
		key := fmt.Sprintf("race/%d", round)
		for i := range 16 {
			all.Go(func() {
				<-start
				value := fmt.Sprint(i)
				err := b.Create(t.Context(), key, []byte(value))
				if err == nil {
					wins.Add(1)
					winner.Store(value)
				} else if !errors.Is(err, ErrExists) {
					t.Error(err)
				}
			})
		}
		close(start)
		all.Wait()
		require.EqualValues(t, 1, wins.Load())
		value, err := b.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, winner.Load(), string(value))
	}
}

const creatorEnv = "RINGPROOF_STORE_TEST_CREATOR"

// TestMain turns this binary into a creator when a test starts it as one.
func TestMain(m *testing.M) {
	if address := os.Getenv(creatorEnv); address != "" {
		create(address)
		return
	}
	os.Exit(m.Run())
}

const contested = 300

// create prints the keys that it was told it created.
func create(address string) {
	ctx := context.Background()
	b, err := Open(ctx, address)
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	for i := range contested {
		key := fmt.Sprintf("race/%d", i)
		err := b.Create(ctx, key, []byte(fmt.Sprint(os.Getpid())))
		if err == nil {
			fmt.Println(key)
		} else if !errors.Is(err, ErrExists) {
			panic(err)
		}
	}
}

func TestOneCreatorAmongProcesses(t *testing.T) {
	b, _ := openNew(t)
	self, err := os.Executable()
	require.NoError(t, err)
	winner := map[string]string{}
	processes := make([]*exec.Cmd, 3)
	outputs := make([]*bufio.Scanner, len(processes))
	starts := make([]interface{ Close() error }, len(processes))
	for i := range processes {
		c := exec.Command(self)
		c.Env = append(os.Environ(), creatorEnv+"="+b.String())
		c.Stderr = os.Stderr
		in, err := c.StdinPipe()
		require.NoError(t, err)
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		processes[i], outputs[i], starts[i] = c, bufio.NewScanner(out), in
		require.True(t, outputs[i].Scan())
	}
	for _, in := range starts { // the end of their input starts them all
		require.NoError(t, in.Close())
	}
	for i, c := range processes {
		for outputs[i].Scan() {
			key := outputs[i].Text()
			require.NotContains(t, winner, key, "two processes created it")
			winner[key] = fmt.Sprint(c.Process.Pid)
		}
		require.NoError(t, c.Wait())
	}
	require.Len(t, winner, contested)
	for key, pid := range winner {
		value, err := b.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, pid, string(value))
	}
}
