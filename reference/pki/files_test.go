// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build unix

package pki

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func someFiles(t *testing.T) Files {
	ca := newAuthority(t, today)
	return Files{CA: ca.CertPEM(), Authority: ca, Pairs: map[string]Pair{
		"server": issued(t, ca.IssueServer, today, "n1"), "peer": issued(t, ca.IssuePeer, today, "n1"), "etcdctl-client": issued(t, ca.IssueClient, today),
	}}
}

func modes(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	found := map[string]fs.FileMode{}
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		found[e.Name()] = info.Mode().Perm()
	}
	return found
}

func TestWriteWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o277} {
		dir := filepath.Join(t.TempDir(), "pki")
		before := syscall.Umask(umask)
		err := Write(dir, someFiles(t))
		syscall.Umask(before)
		require.NoError(t, err)
		require.Equal(t, map[string]fs.FileMode{
			"ca.crt": 0o644, "ca.key": 0o600,
			"server.crt": 0o644, "server.key": 0o600, "peer.crt": 0o644, "peer.key": 0o600,
			"etcdctl-client.crt": 0o644, "etcdctl-client.key": 0o600,
		}, modes(t, dir), "umask %o", umask)
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	}
}

func TestWriteAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "pki")
	files := someFiles(t)
	require.NoError(t, Write(dir, files))
	back, err := Load(dir)
	require.NoError(t, err)
	require.True(t, slices.Equal(files.CA, back.CA))
	require.True(t, slices.Equal(files.Authority.CertPEM(), back.Authority.CertPEM()))
	require.Len(t, back.Pairs, 3)
	for name, p := range files.Pairs {
		require.True(t, slices.Equal(p.CertPEM, back.Pairs[name].CertPEM) && slices.Equal(p.KeyPEM, back.Pairs[name].KeyPEM), name)
	}

	// Renewed in place, one pair, over a key that had become readable.
	require.NoError(t, os.Chmod(filepath.Join(dir, "peer.key"), 0o666))
	renewed := issued(t, back.Authority.IssuePeer, today, "n1", "n2")
	require.NoError(t, Write(dir, Files{CA: files.CA, Pairs: map[string]Pair{"peer": renewed}}))
	again, err := Load(dir)
	require.NoError(t, err)
	require.True(t, slices.Equal(renewed.KeyPEM, again.Pairs["peer"].KeyPEM))
	require.True(t, slices.Equal(files.Pairs["server"].KeyPEM, again.Pairs["server"].KeyPEM), "what isn't mentioned stays")
	require.Len(t, modes(t, dir), 8, "and no temporary file")
	require.Equal(t, fs.FileMode(0o600), modes(t, dir)["peer.key"])
}

func TestWriteWithoutTheAuthoritysKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	files := someFiles(t)
	files.Authority = Authority{}
	require.NoError(t, Write(dir, files))
	require.NoFileExists(t, filepath.Join(dir, "ca.key"))
	back, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, "no authority", back.Authority.String())
}

func TestWriteRefusesAndChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	good := someFiles(t)
	for want, change := range map[string]func(*Files){
		"ca.crt: authorities to trust refused": func(f *Files) { f.CA = nil },
		"ca.key":                               func(f *Files) { f.Authority = newAuthority(t, today) },
		`pair name "ca" refused`:               func(f *Files) { f.Pairs = map[string]Pair{"ca": good.Pairs["peer"]} },
		`pair name "../x" refused`:             func(f *Files) { f.Pairs = map[string]Pair{"../x": good.Pairs["peer"]} },
		"mixed.crt: the certificate and the key do not": func(f *Files) {
			f.Pairs = map[string]Pair{"mixed": {good.Pairs["peer"].CertPEM, good.Pairs["server"].KeyPEM}}
		},
	} {
		files := good
		change(&files)
		require.ErrorContains(t, Write(dir, files), want)
		require.NoDirExists(t, dir)
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, Write(file, good), "is not a directory")
}

// A place that cannot be renamed to stops the write, and no key is left over
// in a temporary file.
func TestWriteLeavesNoTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "peer.key", "in the way"), 0o700))
	require.ErrorContains(t, Write(dir, someFiles(t)), "written in part")
	for name := range modes(t, dir) {
		require.NotContains(t, name, ".tmp-")
	}
}

func TestLoadRefuses(t *testing.T) {
	for want, damage := range map[string]func(dir string){
		"make them first":       func(dir string) { os.RemoveAll(dir) },
		"ca.crt: authorities":   func(dir string) { os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("x"), 0o600) },
		"a key without its":     func(dir string) { os.Remove(filepath.Join(dir, "peer.crt")) },
		"a certificate without": func(dir string) { os.Remove(filepath.Join(dir, "peer.key")) },
		"peer.crt: the certificate and t": func(dir string) {
			os.Rename(filepath.Join(dir, "server.key"), filepath.Join(dir, "peer.key"))
			os.Remove(filepath.Join(dir, "server.crt"))
		},
		"ca.crt: authority refused": func(dir string) { os.Rename(filepath.Join(dir, "peer.key"), filepath.Join(dir, "ca.key")) },
	} {
		dir := filepath.Join(t.TempDir(), "pki")
		require.NoError(t, Write(dir, someFiles(t)))
		damage(dir)
		_, err := Load(dir)
		require.ErrorContains(t, err, want)
	}
}
