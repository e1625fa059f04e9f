// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/host"
)

// served is a machine whose etcd runs, or doesn't, and whose disk holds some log, or none.
type served struct {
	host.Host
	args  []string
	wal   host.WAL
	none  error // why there is no log
	full  error // why nothing is written
	stops int

	fillsUp error // why nothing is written once the etcd was stopped
}

func (s *served) Log(host.Line)         {}
func (s *served) Process() host.Process { return servedProcess{s.Host.Process(), s} }
func (s *served) Disk() host.Disk       { return servedDisk{s.Host.Disk(), s} }

type servedProcess struct {
	host.Process
	s *served
}

func (p servedProcess) Running() ([]string, error) { return p.s.args, nil }
func (p servedProcess) LastWords() string          { return "" }

func (p servedProcess) Stop(context.Context, time.Duration) error {
	p.s.args, p.s.full = nil, cmp.Or(p.s.fillsUp, p.s.full)
	p.s.stops++
	return nil
}

type servedDisk struct {
	host.Disk
	s *served
}

func (d servedDisk) WAL(string) (host.WAL, error) { return d.s.wal, d.s.none }

func (d servedDisk) Write(name string, content []byte) error {
	if d.s.full != nil {
		return d.s.full
	}
	return d.Disk.Write(name, content)
}

// TestAnIdentityThatIsGone: somebody deletes disk.json while an etcd runs. The disk is the
// one that it was, if that member's log is on it, or nothing; else it is another, and one that can't be
// read is neither. Taken for new ones, three disks cost a ring two voters that served.
func TestAnIdentityThatIsGone(t *testing.T) {
	const same, another, unknown = "same", "another", "unknown"
	runs := []string{"etcd", "--data-dir=/data/etcd"}
	for name, test := range map[string]struct {
		args  []string
		wal   host.WAL
		none  error
		want  string
		named string // what it is if it was named before; "": as want
	}{
		"alone":                       {args: runs, wal: host.WAL{Member: 7, Last: 90}, want: same},
		"with the log":                {args: runs, none: fs.ErrNotExist, want: same, named: another},
		"and another's log is there":  {args: runs, wal: host.WAL{Member: 8, Last: 90}, want: another},
		"and an older copy is there":  {args: runs, wal: host.WAL{Member: 7, Last: 79}, want: another},
		"and the log can't be read":   {args: runs, none: errors.New("input/output error"), want: unknown},
		"and no etcd runs on the log": {wal: host.WAL{Member: 7, Last: 90}, want: another},
	} {
		for _, named := range []string{"", "d1"} {
			t.Run(name+" "+named, func(t *testing.T) {
				l, h := serving(t, runs)
				l.Named = named
				require.NoError(t, h.Disk().Remove(diskFile))
				h.args, h.wal, h.none = test.args, test.wal, test.none

				was := l.disk
				err := l.openDisk()
				var other *DiskError
				got := unknown
				switch on, there := Named(h); {
				case err == nil && there && on.ID == "d1" && l.disk == was:
					got = same
				case err == nil && there && named == "" && on.ID == l.disk.ID, !there && named != "" && errors.As(err, &other):
					got = another
				}
				want := test.want
				if named != "" {
					want = cmp.Or(test.named, want)
				}
				assert.Equal(t, want, got, "%+v, %v", l.disk, err)
			})
		}
	}
}

// serving is a launcher on whose disk, d1, the etcd of member 7 runs.
func serving(t *testing.T, args []string) (*Launcher, *served) {
	t.Helper()
	real := host.NewReal("m1", t.TempDir(), t.TempDir(), nil)
	real.Plain = true
	h := &served{Host: real, args: args, wal: host.WAL{Member: 7, Last: 80}}
	l := &Launcher{Config: Config{Machine: "m1"}, host: h, log: &host.Recorder{Host: h}}
	d := Disk{ID: "d1", Machine: "m1", Launched: true, Member: 7}
	require.NoError(t, d.write(h))
	require.NoError(t, l.openDisk())
	l.reached = reached{"d1", 80}
	return l, h
}
