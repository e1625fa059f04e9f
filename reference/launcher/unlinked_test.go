// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// onADisk is a launcher whose etcd runs on a disk that has its log, and the machine's clock.
func onADisk(t *testing.T) (*setClock, *served, *Launcher) {
	clock := newSetClock(t)
	clock.Host.(*host.Real).Plain = true
	h := &served{Host: clock, args: []string{"etcd"}}
	require.NoError(t, os.MkdirAll(h.Disk().Path(logDir), 0o700))
	d := Disk{ID: "disk-1", Machine: "m1", Launched: true, Member: 7}
	require.NoError(t, d.write(h))
	return clock, h, &Launcher{Config: Config{Machine: "m1"}, host: h, disk: d, log: &host.Recorder{Host: h}}
}

// TestDataRemovedFromUnderAnEtcd: somebody removed the data of a voter with rm -rf. It answered, and
// was counted on, until it was restarted.
func TestDataRemovedFromUnderAnEtcd(t *testing.T) {
	clock, h, l := onADisk(t)
	looks := func(later time.Duration) ring.ID {
		clock.now += later
		runs, err := l.lookAfter()
		require.NoError(t, err)
		require.True(t, runs)
		return l.disk.Spoiled
	}
	assert.Zero(t, looks(0))
	require.NoError(t, os.RemoveAll(h.Disk().Path(DataDir)))
	assert.Zero(t, looks(time.Second), "it may have been moved for a moment")
	require.NoError(t, os.MkdirAll(h.Disk().Path(logDir), 0o700))
	assert.Zero(t, looks(spoilAfter), "as it was")
	require.NoError(t, os.RemoveAll(h.Disk().Path(DataDir)))
	assert.Zero(t, looks(time.Second))
	assert.Equal(t, ring.ID(7), looks(spoilAfter))
}

// TestAllRemovedFromUnderAnEtcd: with its data went what the disk says of itself. It stays the disk
// that it was for as long as that etcd runs: on a new one no log is missing, and a learner would be
// started beside the old member.
func TestAllRemovedFromUnderAnEtcd(t *testing.T) {
	_, h, l := onADisk(t)
	require.NoError(t, os.RemoveAll(h.Disk().Path(DataDir)))
	require.NoError(t, os.Remove(h.Disk().Path(diskFile)))
	h.none = fs.ErrNotExist
	d, fresh, err := l.openKnown()
	require.NoError(t, err)
	assert.False(t, fresh)
	assert.Equal(t, "disk-1", d.ID)
	assert.FileExists(t, h.Disk().Path(diskFile))

	require.NoError(t, os.Remove(h.Disk().Path(diskFile)))
	h.args = nil
	_, _, err = l.openKnown()
	assert.ErrorIs(t, err, errUnnamed, "no etcd runs: nothing is known to be gone")
}
