// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
)

// ran is what a command prints, and how it ends.
func ran(t *testing.T, c *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(io.Discard)
	c.SilenceUsage = true
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// TestSnapshotReplacesNothing: a file that is there stays as it was.
func TestSnapshotReplacesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "backup.db")
	require.NoError(t, os.WriteFile(file, []byte("yesterday's"), 0o600))
	_, err := ran(t, snapshotCommand(), file, "--endpoints=http://127.0.0.1:1", "--data="+t.TempDir())
	require.ErrorContains(t, err, "is there already")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "yesterday's", string(text))
}

// TestNobodyAnswers: each says so in its time, and leaves nothing behind.
// TestPublish: also where a filesystem has no links a backup takes its name whole, and nobody else's.
func TestPublish(t *testing.T) {
	none := func(old, new string) error { return &os.LinkError{Op: "link", Old: old, New: new, Err: syscall.EPERM} }
	for name, link := range map[string]func(string, string) error{"links": os.Link, "no links": none} {
		dir := t.TempDir()
		part, file := filepath.Join(dir, "b.part"), filepath.Join(dir, "b")
		require.NoError(t, os.WriteFile(part, []byte("new"), 0o600))
		require.NoError(t, publish(link, part, file), name)
		require.NoError(t, os.WriteFile(part, []byte("newer"), 0o600))
		assert.ErrorIs(t, publish(link, part, file), os.ErrExist, name)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, "new", string(text), name)
	}
}

func TestNobodyAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "backup.db")
	for _, run := range []struct {
		command *cobra.Command
		args    []string
		says    string
	}{
		{isRunningCommand(), []string{"--within=1ms"}, "the ring has taken no write within 1ms"},
		{snapshotCommand(), []string{file}, "no endpoint answered"},
		{snapshotCommand(), []string{"-"}, "no endpoint answered"},
		{defragCommand(), nil, "no endpoint answered"},
	} {
		_, err := ran(t, run.command, append(run.args, "--endpoints=http://127.0.0.1:1", "--data="+t.TempDir())...)
		require.ErrorContains(t, err, run.says)
	}
	left, err := filepath.Glob(file + "*")
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestCertificateFlagsGoTogether: two of three are told which is missing.
func TestCertificateFlagsGoTogether(t *testing.T) {
	_, err := ran(t, defragCommand(), "--endpoints=https://127.0.0.1:1", "--cacert=ca.crt", "--key=client.key")
	require.ErrorContains(t, err, "no such file")
	file := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	_, err = ran(t, defragCommand(), "--endpoints=https://127.0.0.1:1", "--cacert="+file, "--key=client.key")
	require.EqualError(t, err, "--cert is missing: --cacert, --cert and --key go together")
}

// realRing starts three members of real etcd, without TLS, and returns their client URLs.
func realRing(t *testing.T) []string {
	t.Helper()
	etcd, dir := needs.Etcd(t).Etcd, t.TempDir()
	var clients, peers, initial []string
	for i := range 3 {
		at := fmt.Sprintf("http://127.41.%d.%d", os.Getpid()%250+1, i+1) // where nobody is given a port for the asking
		clients, peers = append(clients, at+":2379"), append(peers, at+":2380")
		initial = append(initial, fmt.Sprintf("m%d=%s", i+1, peers[i]))
	}
	for i := range 3 {
		cmd := exec.Command(etcd, "--name", fmt.Sprintf("m%d", i+1), "--data-dir", filepath.Join(dir, strconv.Itoa(i)), "--log-level=error", "--initial-cluster", strings.Join(initial, ","),
			"--listen-client-urls", clients[i], "--advertise-client-urls", clients[i], "--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i])
		needs.EndsWithTest(cmd)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		})
	}
	return clients
}

// TestUpkeep waits for a ring that comes up, backs it up and defragments it, from one
// member's address.
func TestUpkeep(t *testing.T) {
	endpoints := realRing(t)
	reach := []string{"--endpoints=" + endpoints[1], "--data=" + t.TempDir()}
	out, err := ran(t, isRunningCommand(), append(reach, "--within=5m")...)
	require.NoError(t, err)
	assert.Equal(t, "the ring takes writes\n", out)

	file := filepath.Join(t.TempDir(), "backup.db")
	out, err = ran(t, snapshotCommand(), append(reach, file)...)
	require.NoError(t, err)
	assert.Regexp(t, `backup\.db: \d+ bytes of m\d \([0-9a-f]+\), at revision 1 or later`, out)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	left, err := filepath.Glob(file + ".*")
	require.NoError(t, err)
	assert.Empty(t, left)

	out, err = ran(t, snapshotCommand(), append(reach, "-")...)
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(out[:len(out)-sha256.Size]))
	assert.Equal(t, string(sum[:]), out[len(out)-sha256.Size:], "nothing else is printed there")

	before := leads(t, endpoints[0])
	out, err = ran(t, defragCommand(), reach...)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 3)
	assert.Contains(t, lines[2], before.String()+": ")
	assert.NotEqual(t, before.ID, leads(t, endpoints[0]).ID, "it led while it wrote its file anew")
}

func leads(t *testing.T, endpoint string) admin.Asked {
	t.Helper()
	r := &admin.Ring{Host: host.NewReal("", t.TempDir(), t.TempDir(), nil)}
	defer r.Close()
	r.Use(endpoint)
	all, err := r.Ask(t.Context())
	require.NoError(t, err)
	require.True(t, all[len(all)-1].Leader)
	return all[len(all)-1]
}
