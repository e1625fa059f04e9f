// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// running is a machine on which an etcd runs.
type running struct {
	setClock
	data string
	args []string
}

func (r *running) Process() host.Process { return runs{args: r.args} }

type runs struct {
	host.Process
	args []string
}

func (r runs) Running() ([]string, error) { return r.args, nil }

// onADisk is a launcher whose etcd runs on a disk that has its log.
func onADisk(t *testing.T) (*running, *Launcher) {
	data := t.TempDir()
	real := host.NewReal("m1", data, t.TempDir(), nil)
	real.Plain = true
	h := &running{setClock{Host: real}, data, []string{"etcd"}}
	require.NoError(t, os.MkdirAll(filepath.Join(data, logDir), 0o700))
	d := Disk{ID: "disk-1", Machine: "m1", Launched: true, Member: 7}
	require.NoError(t, d.write(h))
	return h, &Launcher{Config: Config{Machine: "m1"}, host: h, disk: d, log: &host.Recorder{Host: h}}
}

// TestDataRemovedFromUnderAnEtcd: somebody removed the data of a voter with rm -rf. It answered, and
// was counted on, until it was restarted.
func TestDataRemovedFromUnderAnEtcd(t *testing.T) {
	h, l := onADisk(t)
	looks := func(later time.Duration) ring.ID {
		h.now += later
		runs, err := l.lookAfter()
		require.NoError(t, err)
		require.True(t, runs)
		return l.disk.Spoiled
	}
	assert.Zero(t, looks(0))
	require.NoError(t, os.RemoveAll(filepath.Join(h.data, DataDir)))
	assert.Zero(t, looks(time.Second), "it may have been moved for a moment")
	require.NoError(t, os.MkdirAll(filepath.Join(h.data, logDir), 0o700))
	assert.Zero(t, looks(spoilAfter), "as it was")
	require.NoError(t, os.RemoveAll(filepath.Join(h.data, DataDir)))
	assert.Zero(t, looks(time.Second))
	assert.Equal(t, ring.ID(7), looks(spoilAfter))
}

// TestAllRemovedFromUnderAnEtcd: with its data went what the disk says of itself. It stays the disk
// that it was for as long as that etcd runs: on a new one no log is missing, and a learner would be
// started beside the old member.
func TestAllRemovedFromUnderAnEtcd(t *testing.T) {
	h, l := onADisk(t)
	require.NoError(t, os.RemoveAll(filepath.Join(h.data, DataDir)))
	require.NoError(t, os.Remove(filepath.Join(h.data, diskFile)))
	d, fresh, err := l.openKnown()
	require.NoError(t, err)
	assert.False(t, fresh)
	assert.Equal(t, "disk-1", d.ID)
	assert.FileExists(t, filepath.Join(h.data, diskFile))

	require.NoError(t, os.Remove(filepath.Join(h.data, diskFile)))
	h.args = nil
	_, _, err = l.openKnown()
	assert.ErrorIs(t, err, errUnnamed, "no etcd runs: nothing is known to be gone")
}
