// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package kubelet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// The kubelet's back-off, as kind's shows it: none before the first restart (await sees to
// that), then 10 s, and twice as long each time up to five minutes.
func TestBackOff(t *testing.T) {
	var waited []time.Duration
	for wait := time.Duration(0); len(waited) < 7; {
		wait = longer(wait)
		waited = append(waited, wait/time.Second)
	}
	assert.Equal(t, []time.Duration{10, 20, 40, 80, 160, 300, 300}, waited)
}

// TestLacks: what the model hasn't got is told, each once, to whoever judges the run.
func TestLacks(t *testing.T) {
	require.NoError(t, beyond(corev1.PodSpec{}))
	k := &kubelet{Options: Options{Dir: t.TempDir()}}
	p := &pod{k: k}
	_, volume := p.projected(t.Context(), corev1.Volume{Name: "nfs", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}})
	for _, err := range []error{beyond(corev1.PodSpec{HostNetwork: true}), volume, volume, errors.New("no such file")} {
		k.complain("trying", err)
	}
	s, err := Read(k.Dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"the model kubelet has no hostNetwork", "the model kubelet has no volume like nfs of a pod"}, s.Lacks)
}

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "1", "B": ""}
	for text, want := range map[string]string{"--a=$(A)": "--a=1", "$(B)": "", "$(C) stays": "$(C) stays", "$$(A)": "$(A)", "$(A": "$(A", "a$": "a$"} {
		assert.Equal(t, want, expand(text, values), text)
	}
}

// A container's end is told as the kubelet tells it.
func TestEnded(t *testing.T) {
	for script, want := range map[string][2]int32{"exit 0": {0, 0}, "exit 3": {3, 0}, "kill -9 $$": {137, 9}} {
		code, signal, reason := ended(exec.Command("sh", "-c", script).Run())
		assert.Equal(t, want, [2]int32{code, signal}, script)
		assert.NotEqual(t, startError, reason)
	}
	code, _, reason := ended(errors.New("no such file"))
	assert.Equal(t, int32(128), code)
	assert.Equal(t, startError, reason)
}

// TestWords: of a log that stands for a termination message the end counts, and no more of it than
// the kubelet takes.
func TestWords(t *testing.T) {
	w := &words{over: make(chan struct{})}
	for i := range 200 {
		w.add(fmt.Sprintf("line %d\n", i))
	}
	close(w.over)
	assert.True(t, strings.HasPrefix(w.last(), "line 120\n"), w.last())
	assert.True(t, strings.HasSuffix(w.last(), "line 199\n"))
	w.add(strings.Repeat("x", 5000))
	assert.Equal(t, strings.Repeat("x", 2048), w.last())
	assert.Empty(t, (&words{over: make(chan struct{})}).last(), "nothing was printed, and somebody holds the pipe")
}

// A projected volume is changed at once, and what it shows no more is gone from it.
func TestProject(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v")
	first := map[string]file{"a": {[]byte("1"), 0o644}, "r-0/b": {[]byte("2"), 0o440}}
	require.NoError(t, project(dir, first))
	assert.True(t, shown(dir, first))
	before, err := os.Readlink(filepath.Join(dir, dataLink))
	require.NoError(t, err)
	require.NoError(t, project(dir, first))
	same, err := os.Readlink(filepath.Join(dir, dataLink))
	require.NoError(t, err)
	assert.Equal(t, before, same, "nothing changed, so nothing was written")

	second := map[string]file{"r-0/b": {[]byte("3"), 0o440}}
	assert.False(t, shown(dir, second))
	require.NoError(t, project(dir, second))
	text, err := os.ReadFile(filepath.Join(dir, "r-0", "b"))
	require.NoError(t, err)
	assert.Equal(t, "3", string(text))
	assert.NoFileExists(t, filepath.Join(dir, "a"))
	assert.NoDirExists(t, filepath.Join(dir, before))
}

func TestBelow(t *testing.T) {
	assert.True(t, below("/a/b", "/a/b/c"))
	assert.True(t, below("/a/b", "/a/b"))
	assert.False(t, below("/a/b", "/a/bc"))
}
