// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/trial"
)

type keeper struct{ trial.Subject }

func (keeper) Etcd() trial.Etcd {
	return trial.Etcd{Output: func(run string) string { return filepath.Join(run, "etcd.log") }}
}

func TestLastWord(t *testing.T) {
	n := &node{run: t.TempDir()}
	w := &World{Subject: keeper{}}
	assert.Empty(t, w.lastWord(n), "there is no output")
	say := func(text string) {
		file, err := os.OpenFile(filepath.Join(n.run, "etcd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = file.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	say(`{"level":"warn","msg":"no panic: it says so itself"}` + "\n")
	assert.Empty(t, w.lastWord(n))
	say("panic: unexpected error during txn [recovered]\n\ngoroutine 101 [running]:\n")
	assert.Equal(t, "panic: unexpected error during txn [recovered]", w.lastWord(n))
	assert.Empty(t, w.lastWord(n), "it is told once")
	say("fatal error: concurrent map writes\n")
	assert.Equal(t, "panic: concurrent map writes", w.lastWord(n))
	say(`{"level":"fatal","caller":"etcdmain/etcd.go:183","msg":"discovery failed","error":"member count is unequal"}` + "\n")
	assert.Equal(t, "fatal: discovery failed: member count is unequal", w.lastWord(n))
}

// TestEtcdIsHeard tells etcd's output from that of whoever started it.
func TestEtcdIsHeard(t *testing.T) {
	for line, heard := range map[string]bool{
		`{"level":"warn","caller":"auth/store.go:1137","msg":"simple token is not cryptographically signed"}`: true,
		"2026-11-23T08:53:22.979Z\twarn\tetcdmain/etcd.go:144\tno flags":                                      true,
		`{"level":"info","caller":"launch/main.go:12","msg":"starting etcd"}`:                                 false,
		"": false,
	} {
		assert.Equal(t, heard, ofEtcd.MatchString(line), line)
	}
}
