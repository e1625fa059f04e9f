// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reference/host"
)

// killedAfter runs act in the first life of m1's agent, kills the agent so much
// later, and looks.
func killedAfter(t *testing.T, d time.Duration, act func(ctx context.Context, m *Machine), look func(*stage, *Machine)) {
	t.Helper()
	first := true
	k := &keeper{size: 1, agent: func(ctx context.Context, m *Machine) error {
		if first {
			first = false
			act(ctx, m)
		}
		return m.Sleep(ctx, time.Hour)
	}}
	play(t, 7, k, func(s *stage) {
		s.sleep(d)
		s.do("kill", ringproof.Fault{Kind: ringproof.FaultKill, Scope: "agent"}, "m1")
		s.sleep(time.Second)
		look(s, s.machine("m1"))
	})
}

// TestAWriteIsOldOrNew, wherever in it the agent is killed; and new for good
// once it has returned. A write that were done before its first wait, or after
// its last, would leave one of the two out.
func TestAWriteIsOldOrNew(t *testing.T) {
	seen := map[string]int{}
	for d := time.Duration(0); d < 8*time.Millisecond; d += 100 * time.Microsecond {
		returned, begun := false, false
		killedAfter(t, d, func(_ context.Context, m *Machine) {
			require.NoError(t, m.Disk().Write("file", []byte("old")))
			begun = true
			require.NoError(t, m.Disk().Write("file", []byte("new")))
			returned = true
		}, func(_ *stage, m *Machine) {
			content := m.disk.files["file"]
			switch {
			case returned:
				assert.Equal(t, "new", string(content), "killed after %v", d)
				seen["returned"]++
			case begun:
				assert.Contains(t, []string{"old", "new"}, string(content), "killed after %v", d)
				seen[string(content)]++
			}
		})
	}
	for _, want := range []string{"old", "new", "returned"} {
		assert.Positive(t, seen[want], "%s: %v", want, seen)
	}
}

// TestARemovalThatIsCutLeavesDamage: the log is whole, then broken, then gone,
// and no start takes the broken one for none.
func TestARemovalThatIsCutLeavesDamage(t *testing.T) {
	var states []string
	for d := time.Duration(0); d < 1200*time.Microsecond; d += 50 * time.Microsecond {
		states = append(states, removedFor(t, d))
	}
	text := strings.Join(states, " ")
	assert.Regexp(t, `^(whole )+(damaged )+gone( gone)*$`, text)
}

// removedFor removes the log of a ring of one, is killed so much later, and
// tells what is left.
func removedFor(t *testing.T, d time.Duration) (state string) {
	t.Helper()
	cut := false
	k := &keeper{size: 1}
	k.agent = func(ctx context.Context, m *Machine) error {
		if k.lives == 1 {
			require.NoError(t, k.start(ctx, m))
			require.NoError(t, m.Sleep(ctx, 5*time.Second))
			require.NoError(t, m.Process().Stop(ctx, time.Second))
			k.world.engine.after(d, prioTimer, kindMachine, nil, func() { cut = true; m.killAgent() })
			require.NoError(t, m.Disk().Remove("etcd"))
		}
		return m.Sleep(ctx, time.Hour)
	}
	play(t, 7, k, func(s *stage) {
		m := s.machine("m1")
		s.until(time.Minute, "the agent is killed", func() bool { return cut })
		_, err := m.Disk().WAL("etcd")
		switch {
		case err == nil:
			state = "whole"
		case strings.Contains(err.Error(), "crc mismatch"):
			state = "damaged"
			require.NotErrorIs(s, err, fs.ErrNotExist)
			require.NoError(s, m.launch(k.flags(m)))
			s.sleep(time.Second)
			require.Contains(s, m.words, "cannot be repaired")
		default:
			state = "gone"
			require.ErrorIs(s, err, fs.ErrNotExist)
			require.Len(s, s.cleared, 1, "what the ring became is known from this log too")
			require.Equal(s, 2, m.disk.numbers[m], "a disk that was cleared is another one")
		}
	})
	return state
}

func TestADiskHasAnEnd(t *testing.T) {
	play(t, 7, &keeper{size: 1, volume: 10 * block, agent: func(context.Context, *Machine) error { return nil }}, func(s *stage) {
		d := s.machine("m1").Disk()
		require.NoError(s, d.Write("a", make([]byte, 6*block)))
		require.ErrorIs(s, d.Write("b", make([]byte, 6*block)), syscall.ENOSPC)
		there, err := d.Exists("b")
		require.NoError(s, err)
		assert.False(s, there, "a write that failed left something")
		require.NoError(s, d.Remove("a"))
		require.NoError(s, d.Write("b", make([]byte, 6*block)))
	})
}

// TestAFullDisk: etcd dies of it and can't be started, two steps that fill a
// disk up each hold it full, and the member is back when both are healed.
func TestAFullDisk(t *testing.T) {
	ring(t, 3, func(s *stage) {
		full := ringproof.Fault{Kind: ringproof.FaultDiskFull}
		m := s.leader()
		s.do("one", full, m.Name())
		s.do("two", full, m.Name())
		_, err := s.put(s.dial(nil, m), "a", "1", time.Second)
		require.Error(s, err)
		s.until(5*time.Second, "the leader dies", func() bool { return strings.Contains(m.words, "no space left on device") })
		require.ErrorIs(s, m.Disk().Write("file", []byte("x")), syscall.ENOSPC)
		s.until(10*time.Second, "another leads", func() bool { l, ok := s.look().Leader(); return ok && l.Machine != m.Name() })
		s.heal("one", full, m.Name())
		s.sleep(2 * time.Second)
		require.NotContains(s, s.serving(), m.Name())
		s.heal("two", full, m.Name())
		s.formed()
		require.NoError(s, m.Disk().Write("file", []byte("x")))
	})
}

// entries are the log of a machine.
func entries(m *Machine) []*raftpb.Entry { return m.disk.data["etcd"].Entries() }

// TestPowerLoss: what was acknowledged is there afterwards, what is there was
// there before, and now and then some of what was not synced is gone, with half
// a record at the end. The life of the process alone costs nothing.
func TestPowerLoss(t *testing.T) {
	lost, torn := 0, 0
	for seed := range uint64(60) {
		l, r := powerLost(t, seed)
		lost += l
		torn += r
	}
	assert.Positive(t, lost, "no power loss lost anything")
	assert.Positive(t, torn, "no power loss tore a record")
}

func powerLost(t *testing.T, seed uint64) (lost, torn int) {
	t.Helper()
	play(t, seed, &keeper{size: 1}, func(s *stage) {
		s.formed()
		m, acked := s.machine("m1"), 0
		s.Go(s.ctx, "writer", func(context.Context) {
			for c := s.dial(nil, m); ; acked++ {
				if _, err := s.put(c, fmt.Sprint("k", acked), "v", time.Second); err != nil {
					return
				}
			}
		})
		s.sleep(20*time.Millisecond + s.engine.chance("test").between(0, 20*time.Millisecond))
		whole, unsynced := entries(m), m.disk.data["etcd"].Unsynced()
		power := ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine"}
		s.do("power", power, "m1")
		left := entries(m)
		require.GreaterOrEqual(s, len(left), len(whole)-unsynced, "what was synced is gone")
		for i, e := range left {
			require.True(s, proto.Equal(whole[i], e), "entry %d was never written", i)
		}
		s.heal("power", power, "m1")
		s.formed()
		if strings.Contains(m.words, "repaired WAL: unexpected EOF") {
			torn++
		}
		c := s.dial(nil, m)
		for i := range acked {
			v, err := s.get(c, fmt.Sprint("k", i))
			require.NoError(s, err)
			require.Equal(s, "v", v, "k%d of %d was acknowledged", i, acked)
		}
		require.Positive(s, acked)
		lost = len(whole) - len(left)
	})
	return lost, torn
}

func TestAKilledProcessLosesNothing(t *testing.T) {
	for seed := range uint64(10) {
		play(t, seed, &keeper{size: 1}, func(s *stage) {
			s.formed()
			m := s.machine("m1")
			s.Go(s.ctx, "writer", func(context.Context) { _, _ = s.put(s.dial(nil, m), "k", "v", time.Second) })
			s.sleep(s.engine.chance("test").between(0, 4*time.Millisecond))
			before, pid := len(entries(m)), m.etcd.pid
			s.do("kill", ringproof.Fault{Kind: ringproof.FaultKill}, "m1")
			require.Len(s, entries(m), before)
			s.formed()
			assert.Greater(s, m.etcd.pid, pid)
			assert.GreaterOrEqual(s, len(entries(m)), before)
		})
	}
}

// TestALostVolumeIsAnother: its number says so, and what was on the old one is
// kept for the evidence.
func TestALostVolumeIsAnother(t *testing.T) {
	ring(t, 3, func(s *stage) {
		s.keep.spared["m2"] = true
		m, pid := s.machine("m2"), s.machine("m2").agent.number
		last := entries(m)[len(entries(m))-1].GetIndex()
		said := s.do("lose", ringproof.Fault{Kind: ringproof.FaultVolumeLoss}, "m2")
		assert.Equal(s, "m2: disk 2 is empty", said)
		assert.Nil(s, m.etcd, "it had the old disk open")
		there, err := m.Disk().Exists("etcd")
		require.NoError(s, err)
		assert.False(s, there)
		s.do("again", ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Leave: "directories"}, "m2")
		view, _ := s.look().Machine("m2")
		assert.Equal(s, 3, view.Disk)
		there, err = m.Disk().Exists("etcd/member/wal")
		require.NoError(s, err)
		assert.True(s, there)
		_, err = m.Disk().WAL("etcd")
		assert.ErrorIs(s, err, fs.ErrNotExist, "a directory is no log")
		s.sleep(time.Second)
		assert.NotEqual(s, pid, m.agent.number, "the agent starts anew")
		e, err := s.Evidence(s.ctx)
		require.NoError(s, err)
		require.Len(s, e.Logs, 3)
		kept := e.Logs[2]
		assert.Equal(s, []any{"m2", 1}, []any{kept.Machine, kept.Disk})
		assert.GreaterOrEqual(s, kept.Last, last)
	})
}

// TestAVolumeIsLostForAWhile: the machine is off until the new disk is in.
func TestAVolumeIsLostForAWhile(t *testing.T) {
	ring(t, 3, func(s *stage) {
		s.keep.spared["m2"] = true
		s.do("lose", ringproof.Fault{Kind: ringproof.FaultVolumeLoss, For: ringproof.Duration(5 * time.Second)}, "m2")
		s.sleep(4900 * time.Millisecond)
		view, _ := s.look().Machine("m2")
		assert.False(s, view.Up || view.Agent)
		s.sleep(200 * time.Millisecond)
		view, _ = s.look().Machine("m2")
		assert.True(s, view.Up && view.Agent)
	})
}

// TestSwappedDisksComeHome: with two swaps that overlap, putting back the one
// that is healed first would leave a disk in a machine where it never was.
func TestSwappedDisksComeHome(t *testing.T) {
	ring(t, 3, func(s *stage) {
		swap := ringproof.Fault{Kind: ringproof.FaultDiskSwap}
		var home []*disk
		for _, m := range s.machines {
			s.keep.spared[m.Name()] = true
			home = append(home, m.disk)
		}
		s.do("a", swap, "m1", "m2")
		assert.Equal(s, []*disk{home[1], home[0], home[2]}, s.disksIn())
		s.do("b", swap, "m2", "m3")
		assert.Equal(s, []*disk{home[1], home[2], home[0]}, s.disksIn())
		view, _ := s.look().Machine("m3")
		assert.Equal(s, 2, view.Disk)
		s.heal("a", swap, "m1", "m2")
		assert.Equal(s, []*disk{home[1], home[2], home[0]}, s.disksIn(), "one swap is left")
		s.heal("b", swap, "m2", "m3")
		assert.Equal(s, home, s.disksIn())
		for _, view := range s.look().Machines {
			assert.Equal(s, 1, view.Disk, "%s has its own disk again", view.Name)
			assert.True(s, view.Up)
			delete(s.keep.spared, view.Name)
		}
		s.formed()
	})
}

func (s *stage) disksIn() (all []*disk) {
	for _, m := range s.machines {
		all = append(all, m.disk)
	}
	return all
}

// TestADiskThatIsTakenAway: an etcd that still runs dies of its next write, and
// leaves nothing on the disk that is there now.
func TestADiskThatIsTakenAway(t *testing.T) {
	ring(t, 1, func(s *stage) {
		m := s.machine("m1")
		s.keep.spared["m1"] = true
		m.insert(newDisk(0))
		_, err := s.put(s.dial(nil, m), "a", "1", time.Second)
		require.Error(s, err)
		assert.Nil(s, m.etcd)
		assert.Contains(s, m.words, "input/output error")
		assert.Zero(s, m.disk.used())
	})
}

// TestALogGoesWithItsDisk: an agent reads whose log is in its machine now.
func TestALogGoesWithItsDisk(t *testing.T) {
	ring(t, 3, func(s *stage) {
		for _, m := range s.machines {
			s.keep.spared[m.Name()] = true
		}
		before := [2]host.WAL{s.wal("m1"), s.wal("m2")}
		s.do("swap", ringproof.Fault{Kind: ringproof.FaultDiskSwap}, "m1", "m2")
		after := [2]host.WAL{s.wal("m1"), s.wal("m2")}
		assert.Equal(s, [2]uint64{before[1].Member, before[0].Member}, [2]uint64{after[0].Member, after[1].Member})
	})
}

func (s *stage) wal(machine string) host.WAL {
	s.Helper()
	w, err := s.machine(machine).Disk().WAL("etcd")
	require.NoError(s, err)
	return w
}
