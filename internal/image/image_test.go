// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package image

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// program builds one that prints a text.
func program(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(source, []byte("package main\n\nfunc main() { println(`"+text+"`) }\n"), 0o644))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "program"), source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	said, err := build.CombinedOutput()
	require.NoError(t, err, string(said))
	return filepath.Join(dir, "program")
}

func write(t *testing.T, i Image) (file, digest string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "image.tar")
	digest, err := i.Write(file)
	require.NoError(t, err)
	return file, digest
}

func TestSameProgramsSameImage(t *testing.T) {
	binary := program(t, "one")
	file, digest := write(t, Ringadm("example.org/ringadm:v1", binary))
	text, err := os.ReadFile(file)
	require.NoError(t, err)

	// The same program, built to another place at another time, by another hand.
	copied := filepath.Join(t.TempDir(), "copied")
	program, err := os.ReadFile(binary)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(copied, program, 0o700))
	require.NoError(t, os.Chtimes(copied, time.Unix(1, 0), time.Unix(1, 0)))
	again, same := write(t, Ringadm("example.org/ringadm:v1", copied))
	assert.Equal(t, digest, same)
	repeated, err := os.ReadFile(again)
	require.NoError(t, err)
	assert.Equal(t, text, repeated, "the archives differ")
}

func TestAnotherProgramAnotherImage(t *testing.T) {
	_, one := write(t, Ringadm("example.org/ringadm:v1", program(t, "one")))
	_, two := write(t, Ringadm("example.org/ringadm:v1", program(t, "two")))
	assert.NotEqual(t, one, two)
}

func read(t *testing.T, file, called string) v1.Image {
	t.Helper()
	tag, err := name.NewTag(called)
	require.NoError(t, err)
	made, err := tarball.ImageFromPath(file, &tag)
	require.NoError(t, err)
	require.NoError(t, validate.Image(made))
	return made
}

func TestWhatIsInAnImage(t *testing.T) {
	binary := program(t, "one")
	file, digest := write(t, Etcd("example.org/etcd:v3.6.16", binary, binary, ""))
	made := read(t, file, "example.org/etcd:v3.6.16")
	hash, err := made.Digest()
	require.NoError(t, err)
	assert.Equal(t, digest, hash.String())
	config, err := made.ConfigFile()
	require.NoError(t, err)
	assert.Equal(t, []string{"linux", runtime.GOARCH}, []string{config.OS, config.Architecture})
	assert.Equal(t, []string{"/usr/local/bin/etcd"}, config.Config.Entrypoint)
	assert.Equal(t, "65532:65532", config.Config.User)
	assert.True(t, config.Created.IsZero(), config.Created)
	var files []string
	contents := tar.NewReader(mutate.Extract(made))
	for {
		head, err := contents.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		files = append(files, head.FileInfo().Mode().String()+" "+head.Name)
		assert.Zero(t, head.Uid)
		assert.True(t, head.ModTime.Equal(time.Unix(0, 0)), head.ModTime)
	}
	assert.ElementsMatch(t, []string{"drwxr-xr-x usr", "drwxr-xr-x usr/local", "drwxr-xr-x usr/local/bin",
		"-r-xr-xr-x usr/local/bin/etcd", "-r-xr-xr-x usr/local/bin/etcdctl"}, files)
}

func TestWhatIsNoImage(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	for what, c := range map[string]struct {
		image Image
		says  string
	}{
		"a script":       {Ringadm("example.org/ringadm:v1", script), "no program for Linux"},
		"no such file":   {Ringadm("example.org/ringadm:v1", script+"s"), "no such file"},
		"a dynamic one":  {Ringadm("example.org/ringadm:v1", "/bin/sh"), "CGO_ENABLED=0"},
		"no tag":         {Ringadm("example.org/ringadm", script), "name it as"},
		"nothing inside": {Image{Name: "example.org/ringadm:v1"}, "no program"},
	} {
		file := filepath.Join(t.TempDir(), "image.tar")
		_, err := c.image.Write(file)
		require.ErrorContains(t, err, c.says, what)
		assert.NoFileExists(t, file, what)
	}
}
