// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// TestSupports holds the world to the catalogue.
func TestSupports(t *testing.T) {
	for _, e := range faults.All() {
		f := ringproof.Fault{Kind: e.Kind}
		err := Supports(ringproof.Step{Fault: &f})
		assert.Equal(t, slices.Contains(e.Worlds, "sim"), err == nil, "%s: %v", e.Kind, err)
	}
	err := Supports(ringproof.Step{Fault: &ringproof.Fault{Kind: "earthquake"}})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	assert.ErrorContains(t, err, "earthquake")
	assert.NoError(t, Supports(ringproof.Step{Op: &ringproof.Op{Kind: ringproof.OpRoll}}))
	assert.NoError(t, Supports(ringproof.Step{Assert: &ringproof.Assert{}}))
}

// TestRuns: a flag that etcd refuses ends whoever is started with it, and no ring of it can be had. One
// without a value is taken away, as in a scenario that gives a member a small quota and takes it back.
func TestRuns(t *testing.T) {
	with := func(flags map[string]string) ringproof.Plan {
		return ringproof.Plan{Ring: ringproof.RingSpec{Version: "v3.6.16"}, Steps: []ringproof.Step{
			{Name: "again", Op: &ringproof.Op{Kind: ringproof.OpRestart, Target: "m2", Flags: flags}},
		}}
	}
	assert.NoError(t, Runs(with(map[string]string{"quota-backend-bytes": "40000"})))
	assert.NoError(t, Runs(with(map[string]string{"quota-backend-bytes": ""})))
	assert.NoError(t, Runs(with(map[string]string{"quota-backend-bytes": "much"})), "that member ends, as on any etcd")
	assert.ErrorIs(t, Runs(with(map[string]string{"discovery": "http://10.0.0.9"})), errors.ErrUnsupported, "it is not modelled")
	whole := ringproof.Plan{Ring: ringproof.RingSpec{Version: "v3.6.16", Flags: map[string]string{"quota-backend-bytes": "much"}}}
	assert.ErrorIs(t, Runs(whole), errors.ErrUnsupported)
}

// TestFreshTakesAQuorum: with one of three left the list is what that one
// remembers, and says so; two are enough.
func TestFreshTakesAQuorum(t *testing.T) {
	ring(t, 3, func(s *stage) {
		o := s.look()
		assert.True(s, o.Fresh)
		assert.Len(s, o.Voters(), 3)
		assert.Empty(s, o.Unknown)
		s.do("one", killAll, "m1")
		s.sleep(5 * time.Second)
		o = s.look()
		assert.True(s, o.Fresh)
		assert.Equal(s, []string{"m1: the machine is off or paused"}, o.Unknown)
		s.do("two", killAll, "m2")
		s.sleep(5 * time.Second)
		began := s.Now()
		o = s.look()
		assert.False(s, o.Fresh)
		assert.Len(s, o.Members, 3)
		assert.Equal(s, began, o.At)
		assert.LessOrEqual(s, o.Until.Sub(o.At), observeTimeout)
		v, on := o.On("m3")
		assert.True(s, on)
		assert.False(s, v.Serving, "it knows no leader")
		s.heal("two", killAll, "m2")
		s.until(20*time.Second, "two answer", func() bool { return s.look().Fresh })
	})
}

// TestADeposedLeaderGivesNoFreshList, though it leads by its own word until it
// learns better: beside a later one, too.
func TestADeposedLeaderGivesNoFreshList(t *testing.T) {
	both := 0
	for seed := range uint64(10) {
		play(t, seed, &keeper{size: 3}, func(s *stage) {
			s.formed()
			m := s.leader()
			s.do("cut", ringproof.Fault{Kind: ringproof.FaultPartition}, m.Name())
			s.until(10*time.Second, "another leads", func() bool {
				o := s.look()
				old, on := o.On(m.Name())
				require.True(s, on, "who is cut off is still looked at")
				l, _ := o.Leader()
				if l.Machine == m.Name() {
					require.False(s, o.Fresh)
				}
				if old.Leader && l.Machine != m.Name() {
					both++
					require.Less(s, o.Until.Sub(o.At), observeTimeout, "who can give none is not waited for")
				}
				return o.Fresh && l.Machine != m.Name()
			})
		})
	}
	assert.Positive(t, both, "never did two lead at a time")
}

// TestAnObservationHangsOnNobody: a quorum that is gone costs the time for an observation, and a
// context that ends costs what it says.
func TestAnObservationHangsOnNobody(t *testing.T) {
	ring(t, 3, func(s *stage) {
		m := s.leader()
		for _, other := range s.machines {
			if other != m {
				s.do("pause "+other.name, ringproof.Fault{Kind: ringproof.FaultPause}, other.name)
			}
		}
		o := s.look()
		assert.False(s, o.Fresh)
		assert.Equal(s, observeTimeout, o.Until.Sub(o.At), "the leader waits for its followers")
		hasty, cancel := s.Timeout(s.ctx, 50*time.Millisecond)
		defer cancel()
		o, err := s.Observe(hasty)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		assert.Equal(s, 50*time.Millisecond, o.Until.Sub(o.At))
		o, err = s.observe(s.ctx, time.Minute)
		require.NoError(s, err)
		assert.False(s, o.Fresh, "an error is no list")
		assert.Len(s, o.Members, 3)
		assert.Less(s, o.Until.Sub(o.At), time.Minute)
	})
}

// TestClientsGoRound the machines that have had a member: not spares, not what
// is lost, but what is down.
func TestClientsGoRound(t *testing.T) {
	play(t, 7, &keeper{size: 3, machines: 4}, func(s *stage) {
		_, err := s.Client(s.ctx, 0)
		require.ErrorContains(s, err, "no machine runs a member")
		s.formed()
		assert.Equal(s, []string{"m1", "m2", "m3", "m1", "m2"}, s.endpoints(5))
		s.do("kill", killAll, "m2")
		assert.Equal(s, []string{"m1", "m2", "m3"}, s.endpoints(3))
		s.do("lose", ringproof.Fault{Kind: ringproof.FaultMachineLoss}, "m1")
		assert.Equal(s, []string{"m2", "m3", "m2"}, s.endpoints(3))
	})
}

func (s *stage) endpoints(n int) (all []string) {
	s.Helper()
	for i := range n {
		c, err := s.Client(s.ctx, i)
		require.NoError(s, err)
		all = append(all, c.Endpoint())
	}
	return all
}

// TestEvidence of a calm ring: its bootstrap, three logs, one content.
func TestEvidence(t *testing.T) {
	ring(t, 3, func(s *stage) {
		_, err := s.put(s.dial(nil, s.machine("m1")), "a", "1", time.Second)
		require.NoError(s, err)
		s.sleep(time.Second)
		e, err := s.Evidence(s.ctx)
		require.NoError(s, err)
		assert.Empty(s, e.Unknown)
		assert.True(s, e.Final.Fresh)
		require.Len(s, e.Changes, 3)
		for _, c := range e.Changes {
			assert.True(s, c.Initial && c.Kind == "add-voter", "%+v", c)
		}
		require.Len(s, e.Logs, 3)
		require.Len(s, e.Hashes, 3)
		for i := range 3 {
			assert.Equal(s, 1, e.Logs[i].Disk)
			assert.Equal(s, e.Final.Members[0].ClusterID, e.Logs[i].ClusterID)
			assert.Equal(s, e.Hashes[0].Hash, e.Hashes[i].Hash)
			assert.Empty(s, e.Hashes[i].Err)
		}
		require.Len(s, e.Dump, 1)
		assert.Equal(s, [2]string{"a", "1"}, [2]string{e.Dump[0].Key, e.Dump[0].Value})
		assert.Equal(s, e.Dump[0].ModRevision, e.Revision)
	})
}

// TestEvidenceOfWhatIsGone: the bootstrap of a ring of which no disk is left is
// known from the logs that were there; the keyspace isn't.
func TestEvidenceOfWhatIsGone(t *testing.T) {
	ring(t, 3, func(s *stage) {
		for _, m := range s.machines {
			s.keep.spared[m.name] = true
		}
		require.NoError(s, s.machine("m1").Process().Stop(s.ctx, time.Second))
		s.do("m2", ringproof.Fault{Kind: ringproof.FaultVolumeLoss}, "m2")
		s.do("m3", ringproof.Fault{Kind: ringproof.FaultMachineLoss}, "m3")
		s.engine.spawn(s.machine("m1").agent, "clear", func() { _ = s.machine("m1").Disk().Remove("etcd") })
		s.sleep(time.Second)
		e, err := s.Evidence(s.ctx)
		require.NoError(s, err)
		assert.Len(s, e.Changes, 3)
		assert.Len(s, e.Logs, 3, "what faults took, and what was cleared once its etcd had ended")
		require.Len(s, e.Unknown, 1)
		assert.Contains(s, e.Unknown[0], "the keyspace")
		assert.Empty(s, e.Hashes)
	})
}

// TestEvidenceOfDamage: a log that can't be read is told of, and not taken for
// none.
func TestEvidenceOfDamage(t *testing.T) {
	ring(t, 3, func(s *stage) {
		m := s.follower()
		s.keep.spared[m.name] = true
		s.do("kill", killEtcd, m.name)
		m.disk.data["etcd"].Damage()
		e, err := s.Evidence(s.ctx)
		require.NoError(s, err)
		require.Len(s, e.Logs, 4)
		assert.Equal(s, m.name, e.Logs[3].Machine, "as it was when its etcd ended")
		assert.Len(s, e.Changes, 3)
		assert.Contains(s, e.Unknown, "the log of "+m.name+": wal: crc mismatch")
	})
}

// TestDisasterKeepsWhatSurvives on disks, whether anybody serves it or not.
func TestDisasterKeepsWhatSurvives(t *testing.T) {
	ring(t, 3, func(s *stage) {
		s.World.plan.Mode = ringproof.ModeDisaster
		_, err := s.put(s.dial(nil, s.machine("m1")), "a", "kept", time.Second)
		require.NoError(s, err)
		s.sleep(time.Second)
		s.do("off", killAll, "m1", "m2", "m3")
		e, err := s.Evidence(s.ctx)
		require.NoError(s, err)
		assert.Equal(s, []string{"kept"}, e.Surviving)
	})
}

// TestRestart ends one etcd in order and waits for the next.
func TestRestart(t *testing.T) {
	ring(t, 3, func(s *stage) {
		op := ringproof.Op{Kind: ringproof.OpRestart}
		pid := s.machine("m2").etcd.pid
		_, err := s.Do(s.ctx, ringproof.Step{Op: &op}, []string{"m2"})
		require.NoError(s, err)
		assert.Greater(s, s.machine("m2").etcd.pid, pid)
		assert.Contains(s, s.serving(), "m2")
		assert.Equal(s, []string{"m2"}, s.tape.of(ringproof.EventProcessExited))

		s.keep.spared["m2"] = true
		hasty, cancel := s.Timeout(s.ctx, 10*time.Second)
		defer cancel()
		_, err = s.Do(hasty, ringproof.Step{Op: &op}, []string{"m2"})
		require.ErrorContains(s, err, "its member does not serve again")
		again, end := s.Timeout(s.ctx, 10*time.Second)
		defer end()
		_, err = s.Do(again, ringproof.Step{Op: &op}, []string{"m2"})
		require.ErrorContains(s, err, "m2", "none runs there, and none comes")
	})
}

// TestRoll restarts every member, one at a time, the leader last wherever it is:
// another order moves the lead once more than it must.
func TestRoll(t *testing.T) {
	led := map[string]bool{}
	for seed := range uint64(8) {
		play(t, seed, &keeper{size: 3}, func(s *stage) {
			s.formed()
			leader, most := s.leader(), 0
			led[leader.name] = true
			s.Go(s.ctx, "watcher", func(ctx context.Context) {
				for s.Sleep(ctx, time.Millisecond) == nil {
					most = max(most, s.without())
				}
			})
			said, err := s.Do(s.ctx, ringproof.Step{Op: &ringproof.Op{Kind: ringproof.OpRoll}}, nil)
			require.NoError(s, err)
			assert.Equal(s, "3 members", said)
			assert.Equal(s, 1, most)
			ended := s.tape.of(ringproof.EventProcessExited)
			require.Len(s, ended, 3)
			assert.Equal(s, leader.name, ended[2])
			assert.Equal(s, 0, s.without())
			assert.Len(s, s.serving(), 3)
		})
	}
	assert.Greater(t, len(led), 1, "the leader was always on the same machine")
}

// without counts the machines on which no etcd runs.
func (s *stage) without() (n int) {
	for _, m := range s.machines {
		if m.etcd == nil {
			n++
		}
	}
	return n
}

// TestSeams: faults at the subject's seams go to the subject, of all machines
// when none is named, and are taken away under the same name.
func TestSeams(t *testing.T) {
	play(t, 7, &keeper{machines: 2}, func(s *stage) {
		for kind := range seams { // order: each by itself
			f := ringproof.Fault{Kind: kind, For: ringproof.Duration(time.Minute)}
			s.keep.set = nil
			assert.Empty(s, s.do("all", f), "it has landed when the subject meets it")
			s.do("one", f, "m2")
			s.heal("all", f)
			assert.Equal(s, []string{"all m1", "all m2", "one m2", "all m1", "all m2"}, s.keep.set, kind)
		}
		_, err := s.Do(s.ctx, ringproof.Step{Op: &ringproof.Op{Kind: ringproof.OpScale}}, nil)
		assert.ErrorIs(s, err, ringproof.ErrRefused, "operations are the subject's")
	})
}

// TestAnotherRingForAMoment: it is dismissed before its etcd has come up.
func TestAnotherRingForAMoment(t *testing.T) {
	play(t, 7, &keeper{machines: 2}, func(s *stage) {
		f := ringproof.Fault{Kind: ringproof.FaultWrongRing, For: ringproof.Duration(time.Millisecond)}
		s.do("other", f, "m1")
		s.heal("other", f, "m1")
		assert.Nil(s, s.machine("m1").standIn)
		assert.Empty(s, s.tape.of(ringproof.EventTrespass))
	})
}

// TestWhatCannotBeHit: a fault that misses says why, and does nothing.
func TestWhatCannotBeHit(t *testing.T) {
	play(t, 7, &keeper{machines: 2}, func(s *stage) {
		s.do("lose", ringproof.Fault{Kind: ringproof.FaultMachineLoss}, "m2")
		for _, c := range []struct {
			fault  ringproof.Fault
			target string
			want   string
		}{
			{killEtcd, "m1", "no etcd runs on m1"},
			{ringproof.Fault{Kind: ringproof.FaultPause}, "m1", "nothing to pause runs on m1"},
			{ringproof.Fault{Kind: ringproof.FaultPause}, "m2", "m2 is off"},
			{killAll, "m2", "m2 is off already"},
			{ringproof.Fault{Kind: ringproof.FaultMachineLoss}, "m2", "m2 is lost already"},
			{ringproof.Fault{Kind: ringproof.FaultVolumeLoss}, "m2", "m2 is lost"},
			{ringproof.Fault{Kind: ringproof.FaultDiskFull}, "m2", "m2 is lost"},
			{ringproof.Fault{Kind: ringproof.FaultDiskSwap}, "m1", "takes two machines"},
			{killEtcd, "m9", "there is no machine m9"},
		} {
			_, err := s.Do(s.ctx, ringproof.Step{Name: "x", Fault: &c.fault}, []string{c.target})
			assert.ErrorContains(s, err, c.want)
		}
		assert.Equal(s, 1, s.machine("m1").disk.numbers[s.machine("m1")])
	})
}

// TestAWorldLeavesNothing: what still waits when a run ends is ended with it.
func TestCloseTellsWhatAgentsLeave(t *testing.T) {
	over, end := context.WithCancel(t.Context())
	end()
	told := func(s *stage, names ...string) {
		for _, name := range names {
			s.machine(name).life = over
		}
	}
	ring(t, 3, func(s *stage) {
		assert.NoError(s, s.leave(), "nobody was told to end")
	})
	ring(t, 3, func(s *stage) {
		told(s, "m1", "m2", "m3")
		s.machine("m3").powerOff()
		s.Go(s.ctx, "ends", func(ctx context.Context) {
			_ = s.Sleep(ctx, time.Second)
			s.machine("m1").etcd.end()
			s.machine("m1").agent.end()
			s.machine("m2").agent.end()
		})
		err := s.leave()
		require.ErrorContains(s, err, "m2: the agent was told to end and has ended, and its etcd")
		assert.NotContains(s, err.Error(), "m1")
		assert.NotContains(s, err.Error(), "m3", "what has no power left nothing")
	})
	ring(t, 3, func(s *stage) {
		told(s, "m1")
		require.ErrorContains(s, s.leave(), "m1: the agent was told to end 30s ago, and runs")
	})
}

func TestAWorldLeavesNothing(t *testing.T) {
	var w *World
	ring(t, 3, func(s *stage) {
		w = s.World
		s.Go(s.ctx, "for ever", func(ctx context.Context) { _ = s.Sleep(ctx, 1e6*time.Hour) })
	})
	for _, task := range w.engine.own {
		assert.True(t, task.over, task.name)
	}
	for _, m := range w.machines {
		assert.True(t, m.agent.ended)
		assert.True(t, m.etcd.ended)
	}
}

// TestAnInterrupt ends a run that would go on for hours.
func TestAnInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := New(7, &keeper{})
	err := w.Drive(ctx, func(context.Context) {
		cancel()
		for w.Sleep(context.Background(), time.Millisecond) == nil {
		}
	})
	require.ErrorIs(t, err, context.Canceled)
}

// TestARunThatNeverEnds is given up, as a subject that never waits would take
// for ever.
func TestARunThatNeverEnds(t *testing.T) {
	e := newEngine(7)
	e.budget = 1000
	e.spawn(nil, "busy", func() {
		for e.sleep(context.Background(), 0) == nil {
		}
	})
	err := e.drive(t.Context(), func() bool { return false })
	require.ErrorContains(t, err, "given up after 1001 events")
	e.own[0].kill()
}
