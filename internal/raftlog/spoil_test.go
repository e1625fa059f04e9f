// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package raftlog

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/reference/host"
)

// logOf is what the reference reads of a data directory.
func logOf(t *testing.T, dir string) (host.WAL, error) {
	t.Helper()
	return host.NewReal("m1", filepath.Dir(dir), t.TempDir(), nil).Disk().WAL(filepath.Base(dir))
}

// TestForceNewWritesWhatEtcdWrites has etcd itself make a member's log that of a ring of
// one, and ForceNew a copy of the same.
func TestForceNewWritesWhatEtcdWrites(t *testing.T) {
	a, b := newServer(t, "a"), newServer(t, "b")
	start(t, a, nil)
	join(t, a, b)
	put(t, a, "k", "v")
	put(t, b, "k", "w")
	b.stop()
	copied := filepath.Join(t.TempDir(), "b")
	require.NoError(t, os.CopyFS(copied, os.DirFS(b.dir)))
	before, err := logOf(t, b.dir)
	require.NoError(t, err)
	require.Zero(t, before.Forced)

	require.NoError(t, ForceNew(copied))
	ours, err := logOf(t, copied)
	require.NoError(t, err)
	start(t, b, []*server{a}, "--force-new-cluster")
	b.stop()
	theirs, err := logOf(t, b.dir)
	require.NoError(t, err)
	require.Equal(t, before.Last+1, ours.Forced, "after all that was there")
	for dir, forced := range map[string]uint64{a.dir: 0, copied: ours.Forced, b.dir: theirs.Forced} {
		log, err := Read(dir)
		require.NoError(t, err)
		require.Equal(t, forced, log.Forced(), dir)
	}
	// Before 3.7 etcd drops what the log doesn't know to be committed.
	require.InDelta(t, theirs.Forced, ours.Forced, 1)
	require.Equal(t, theirs.Member, ours.Member)
	require.False(t, ours.Left || theirs.Left)

	b.dir = copied
	start(t, b, []*server{a})
	list, err := b.client.MemberList(t.Context())
	require.NoError(t, err)
	require.Len(t, list.Members, 1, "etcd itself takes it for that of a ring of one")
}

// stopped is a ring of one that has written, and its log.
func stopped(t *testing.T) (*server, host.WAL) {
	a := newServer(t, "a")
	start(t, a, nil)
	for range 40 {
		put(t, a, "k", "v")
	}
	a.stop()
	log, err := logOf(t, a.dir)
	require.NoError(t, err)
	return a, log
}

// TestDamage leaves a log that can't be read, or one that is shorter than it was.
func TestDamage(t *testing.T) {
	a, before := stopped(t)
	require.NoError(t, Damage(a.dir))
	if after, err := logOf(t, a.dir); err == nil {
		require.Less(t, after.Last, before.Last)
	}
	require.Error(t, Damage(t.TempDir()))
}

// TestHoleEndsALogForEtcd has etcd itself start on a log in which a block reads as zeros: without a
// word, and without what was behind. Who reads the log before knows better, and after can't.
func TestHoleEndsALogForEtcd(t *testing.T) {
	a, whole := stopped(t)
	require.Empty(t, whole.Cut)
	tells, err := TellsHole(a.dir)
	require.NoError(t, err)
	require.False(t, tells, "forty puts are too few to be sure of")
	start(t, a, nil)
	for range 100 {
		put(t, a, "k", "v")
	}
	a.stop()
	whole, err = logOf(t, a.dir)
	require.NoError(t, err)
	tells, err = TellsHole(a.dir)
	require.NoError(t, err)
	require.True(t, tells)

	require.NoError(t, Hole(a.dir))
	holed, err := logOf(t, a.dir)
	require.NoError(t, err)
	require.Contains(t, holed.Cut, "goes on behind it")
	require.Less(t, holed.Last, whole.Last)
	require.Equal(t, whole.Member, holed.Member)

	start(t, a, nil)
	a.stop()
	after, err := logOf(t, a.dir)
	require.NoError(t, err)
	require.Empty(t, after.Cut, "etcd has written over what was behind")
}

// TestKeyspacesThatEtcdOpens has etcd itself start beside what is left of its keyspace: it opens what
// it finds, or ends, and makes one anew only where there is none and its log begins at its beginning.
func TestKeyspacesThatEtcdOpens(t *testing.T) {
	keyspace := func(dir string) string { return filepath.Join(dir, "member", "snap", "db") }
	gone := func(dir string) error { return os.Remove(keyspace(dir)) }
	empty := func(dir string) error { return os.Truncate(keyspace(dir), 0) }
	torn := func(dir string) error { return os.Truncate(keyspace(dir), 5000) }
	for _, test := range []struct {
		name  string
		flags []string
		do    func(dir string) error
		why   string // "": etcd starts
	}{
		{"whole", nil, func(string) error { return nil }, ""},
		{"damaged", nil, Garble, "invalid database"},
		{"cut off", nil, torn, "file size too small"},
		{"gone where the log makes it", nil, gone, ""},
		{"empty where the log makes it", nil, empty, ""},
		{"gone where the log begins after a snapshot", []string{"--snapshot-count=10"}, gone, "the log begins after a snapshot"},
		{"empty where the log begins after a snapshot", []string{"--snapshot-count=10"}, empty, "the log begins after a snapshot"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newServer(t, "a")
			start(t, a, nil, test.flags...)
			for range 40 {
				put(t, a, "k", "v")
			}
			whole, err := logOf(t, a.dir)
			require.NoError(t, err)
			require.Empty(t, whole.Unopened, "its etcd runs")
			a.stop()

			require.NoError(t, test.do(a.dir))
			log, err := logOf(t, a.dir)
			require.NoError(t, err)
			require.Equal(t, whole.Member, log.Member)
			if test.why == "" {
				require.Empty(t, log.Unopened)
				start(t, a, nil, test.flags...)
				return
			}
			require.Contains(t, log.Unopened, test.why)
			require.Error(t, ends(t, a, test.flags...))
		})
	}
	require.Error(t, Garble(t.TempDir()))
}

// ends starts the server's etcd, which is to end by itself, and returns how.
func ends(t *testing.T, s *server, flags ...string) error {
	t.Helper()
	process := exec.CommandContext(t.Context(), needs.Etcd(t).Etcd, append([]string{
		"--name", s.name, "--data-dir", s.dir, "--initial-cluster", s.name + "=" + s.peer, "--listen-peer-urls", s.peer,
		"--initial-advertise-peer-urls", s.peer, "--listen-client-urls", s.url, "--advertise-client-urls", s.url,
	}, flags...)...)
	return process.Run()
}
