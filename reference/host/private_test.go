// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRunDirectoryIsPrivate: what is too open is closed, and a directory that others
// use is left as it is and refused.
func TestRunDirectoryIsPrivate(t *testing.T) {
	mode := func(path string) os.FileMode {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, private(dir))
	assert.Equal(t, os.FileMode(0o700), mode(dir))

	log := filepath.Join(dir, "etcd.log")
	require.NoError(t, os.WriteFile(log, nil, 0o600))
	require.NoError(t, os.Chmod(log, 0o644))
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, private(dir))
	assert.Equal(t, os.FileMode(0o700), mode(dir))
	assert.Equal(t, os.FileMode(0o600), mode(log))

	other := filepath.Join(dir, "sshd.pid")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	require.NoError(t, os.Chmod(other, 0o644))
	require.NoError(t, private(dir), "nobody else reads it")
	assert.Equal(t, os.FileMode(0o644), mode(other), "it is not ours")
	require.NoError(t, os.Chmod(dir, 0o755))
	assert.ErrorContains(t, private(dir), "sshd.pid")
	assert.Equal(t, os.FileMode(0o755), mode(dir))
}

// TestOutputIsBounded: an etcd that complains for months fills no memory, and its
// last words are there.
func TestOutputIsBounded(t *testing.T) {
	p := &process{dir: t.TempDir(), root: t.TempDir(), most: 1000}
	output, err := os.OpenFile(p.output(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer output.Close()
	for range 50 {
		_, err := output.WriteString("the disk is slow; it took long, and etcd says so in a line\n")
		require.NoError(t, err)
		_, err = p.Running()
		require.NoError(t, err)
		info, err := os.Stat(p.output())
		require.NoError(t, err)
		assert.Less(t, info.Size(), int64(1100))
	}
	older, err := os.ReadFile(p.output() + ".1")
	require.NoError(t, err)
	assert.Contains(t, string(older), "etcd says so")
	_, err = output.WriteString("panic: the end\n")
	require.NoError(t, err)
	assert.Contains(t, p.LastWords(), "panic: the end")
}

// TestToolsAreNotEtcd: who works on the data with etcdutl is not the machine's etcd.
func TestToolsAreNotEtcd(t *testing.T) {
	h := NewReal("m1", t.TempDir(), t.TempDir(), nil)
	tool := exec.Command(os.Args[0], "defrag", "--data-dir="+h.Disk().Path("etcd"))
	says, err := tool.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, tool.Start())
	defer func() { _ = tool.Process.Kill(); _ = tool.Wait() }()
	_, err = says.Read(make([]byte, 1)) // what speaks has its own command line
	require.NoError(t, err)
	args, err := h.Process().Running()
	require.NoError(t, err)
	assert.Nil(t, args)
}
