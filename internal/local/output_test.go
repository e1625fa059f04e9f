// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
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
	say("panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0xc64916]\n\n" +
		"goroutine 26093 [running]:\npanic({0xf0, 0x1e})\n\truntime/panic.go:783 +0x132\ngo.etcd.io/bbolt.(*Tx).Bucket(...)\n\tgo.etcd.io/bbolt@v1.4.3/tx.go:112\n")
	assert.Equal(t, "panic: runtime error: invalid memory address or nil pointer dereference, in go.etcd.io/bbolt.(*Tx).Bucket", w.lastWord(n))
	say(`{"level":"fatal","caller":"etcdmain/etcd.go:183","msg":"discovery failed","error":"member count is unequal"}` + "\n")
	assert.Equal(t, "fatal: discovery failed: member count is unequal", w.lastWord(n))
}

// events keeps what is recorded.
type events []ringproof.Event

func (all *events) Record(e ringproof.Event) { *all = append(*all, e) }

// TestAPanicThatNoLookSaw: an etcd that is gone before anybody looks has ended all the same,
// and once.
func TestAPanicThatNoLookSaw(t *testing.T) {
	n, told := &node{name: "m1", run: t.TempDir()}, &events{}
	w := &World{Subject: keeper{}, recorder: told}
	say := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(n.run, "etcd.log"), []byte(text), 0o600))
	}
	ends := func() (texts []string) {
		for _, e := range *told {
			if e.Kind == ringproof.EventProcessExited {
				texts = append(texts, e.Text)
			}
		}
		return texts
	}
	w.process(n, 7, 1)
	w.process(n, 0, 1)
	assert.Equal(t, []string{"etcd, pid 7"}, ends())
	say("panic: no such snapshot\n")
	w.process(n, 0, 1)
	w.process(n, 0, 1)
	assert.Equal(t, []string{"etcd, pid 7", "etcd, seen by no look, panic: no such snapshot"}, ends())
	say("panic: no such snapshot\npanic: again\n")
	w.process(n, 8, 1)
	assert.Equal(t, "etcd, seen by no look, panic: again", ends()[2])
	assert.Equal(t, ringproof.EventProcessStarted, (*told)[len(*told)-1].Kind)
}

// teller begins a change whatever it prints, and says no more of itself.
type teller struct{ trial.Subject }

func (teller) Hear(line string) (ringproof.Event, bool) {
	return ringproof.Event{Kind: ringproof.EventActionBegun, Action: "remove", Text: line}, true
}

// TestWhoTells: a line that doesn't say whose it is was printed by the process on its
// machine. Without that two foreign processes that lead at once were one to one-lead.
func TestWhoTells(t *testing.T) {
	told := &events{}
	w := &World{Subject: teller{}, recorder: told}
	w.hear(&node{name: "m1"}, "removing m3")
	w.hear(&node{name: "m2"}, "removing m3")
	require.Len(t, *told, 2)
	assert.Equal(t, "m1", (*told)[0].By)
	assert.Equal(t, "m2", (*told)[1].By)
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
