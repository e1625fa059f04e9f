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
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/sim/etcd"
)

var (
	killEtcd  = ringproof.Fault{Kind: ringproof.FaultKill, Scope: "process"}
	killAgent = ringproof.Fault{Kind: ringproof.FaultKill, Scope: "agent"}
	killAll   = ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine"}
)

// TestEtcdOutlivesItsAgent: the next life of the agent finds it running, and
// starts no other.
func TestEtcdOutlivesItsAgent(t *testing.T) {
	ring(t, 3, func(s *stage) {
		m := s.machine("m1")
		pid, agent := m.etcd.pid, m.agent.number
		s.do("kill", killAgent, "m1")
		view, _ := s.look().Machine("m1")
		assert.True(s, view.Etcd && !view.Agent)
		_, err := s.Do(s.ctx, ringproof.Step{Name: "again", Fault: &killAgent}, []string{"m1"})
		assert.ErrorContains(s, err, "no agent runs on m1")
		s.sleep(2 * time.Second)
		assert.Greater(s, m.agent.number, agent)
		assert.Equal(s, pid, m.etcd.pid)
		assert.Len(s, s.tape.of(ringproof.EventProcessStarted), 3)
	})
}

// TestAPowerCutEndsBoth, and only whoever gives power back starts them again.
func TestAPowerCutEndsBoth(t *testing.T) {
	ring(t, 3, func(s *stage) {
		s.do("off", killAll, "m1")
		for range 2 {
			view, _ := s.look().Machine("m1")
			assert.False(s, view.Up || view.Etcd || view.Agent)
			s.sleep(5 * time.Second)
		}
		_, err := s.Do(s.ctx, ringproof.Step{Name: "again", Fault: &killAll}, []string{"m1"})
		assert.ErrorContains(s, err, "off already")
		s.heal("off", killAll, "m1")
		s.formed()
	})
}

// TestAStopInOrder ends with etcd's own exit, and a leader's with another
// leader.
func TestAStopInOrder(t *testing.T) {
	ring(t, 3, func(s *stage) {
		m := s.leader()
		s.keep.spared[m.Name()] = true
		began := s.Now()
		require.NoError(s, m.Process().Stop(s.ctx, 10*time.Second))
		assert.Less(s, s.Now().Sub(began), 5*time.Second)
		assert.Contains(s, m.Process().LastWords(), "exit status 0")
		running, err := m.Process().Running()
		require.NoError(s, err)
		assert.Nil(s, running)
		l, led := s.look().Leader()
		require.True(s, led, "the lead was not handed over")
		assert.NotEqual(s, m.Name(), l.Machine)
		require.NoError(s, m.Process().Stop(s.ctx, 10*time.Second), "nothing runs")
	})
}

// TestAStopOfThePaused: SIGTERM waits for it to go on, SIGKILL does not.
func TestAStopOfThePaused(t *testing.T) {
	ring(t, 3, func(s *stage) {
		m := s.follower()
		s.keep.spared[m.Name()] = true
		s.do("pause", ringproof.Fault{Kind: ringproof.FaultPause}, m.Name())
		began := s.Now()
		require.NoError(s, m.Process().Stop(s.ctx, 3*time.Second))
		assert.GreaterOrEqual(s, s.Now().Sub(began), 3*time.Second)
		assert.Nil(s, m.etcd)
		assert.NotContains(s, m.words, "exit status 0")
	})
}

// TestThePausedAnswersLate: a request that came meanwhile is done when it goes
// on, and no message of its peers is missing.
func TestThePausedAnswersLate(t *testing.T) {
	ring(t, 3, func(s *stage) {
		m := s.follower()
		pause := ringproof.Fault{Kind: ringproof.FaultPause}
		s.do("pause", pause, m.Name())
		view, _ := s.look().Machine(m.Name())
		assert.True(s, !view.Up && view.Etcd)
		var took time.Duration
		var err error
		s.Go(s.ctx, "client", func(context.Context) { took, err = s.put(s.dial(nil, m), "late", "1", time.Minute) })
		_, failed := s.put(s.dial(nil, s.leader()), "early", "1", time.Second)
		require.NoError(s, failed, "two of three are enough")
		s.sleep(3 * time.Second)
		require.Zero(s, took)
		s.heal("pause", pause, m.Name())
		s.sleep(2 * time.Second)
		require.NoError(s, err)
		assert.GreaterOrEqual(s, took, 3*time.Second)
		assert.Less(s, took, 4*time.Second)
		got, err := s.get(s.dial(nil, m), "early")
		require.NoError(s, err)
		assert.Equal(s, "1", got)
	})
}

// TestAPausedAgent acts as if no time had passed.
func TestAPausedAgent(t *testing.T) {
	pause := ringproof.Fault{Kind: ringproof.FaultPause, Scope: "agent"}
	turns := 0
	k := &keeper{size: 1, agent: func(ctx context.Context, m *Machine) error {
		for ; ; turns++ {
			if err := m.Sleep(ctx, time.Second); err != nil {
				return err
			}
		}
	}}
	play(t, 7, k, func(s *stage) {
		s.sleep(2500 * time.Millisecond)
		s.do("pause", pause, "m1")
		s.sleep(10 * time.Second)
		require.Equal(s, 2, turns)
		s.heal("pause", pause, "m1")
		s.sleep(500 * time.Millisecond)
		assert.Equal(s, 3, turns, "the timer that ran out meanwhile runs out now, once")
		assert.Equal(s, 1, k.lives)
	})
}

// TestAnAgentThatPanics is a process that died: it is told of and started
// again, and the run goes on.
func TestAnAgentThatPanics(t *testing.T) {
	var lives []ringproof.Instant
	var k *keeper
	k = &keeper{size: 1, agent: func(ctx context.Context, m *Machine) error {
		if lives = append(lives, k.world.Now()); len(lives) == 1 {
			panic("as a mistake of its own")
		}
		return m.Sleep(ctx, time.Hour)
	}}
	play(t, 7, k, func(s *stage) {
		s.sleep(time.Second)
		require.Len(s, lives, 2)
		assert.Equal(s, restartAfter, lives[1].Sub(lives[0]))
		require.Len(s, k.lines, 1)
		assert.Equal(s, host.EventTrouble, k.lines[0].Event)
		assert.Contains(s, k.lines[0].Text, "the agent panicked: as a mistake of its own")
	})
}

// TestKillDoesNotReturn: an agent that dies in the middle of an action does
// nothing more, whatever it deferred, and comes back as late as the fault says.
func TestKillDoesNotReturn(t *testing.T) {
	for _, down := range []time.Duration{0, 5 * time.Second} {
		var k *keeper
		reached := ""
		var lives []ringproof.Instant
		k = &keeper{size: 1, agent: func(ctx context.Context, m *Machine) error {
			if lives = append(lives, k.world.Now()); len(lives) > 1 {
				return m.Sleep(ctx, time.Hour)
			}
			touch := func(name string) {
				if m.Sleep(ctx, time.Millisecond) == nil {
					reached += " " + name
				}
			}
			defer touch("deferred")
			defer func() { _ = recover(); touch("recovered"); _ = m.Disk().Write("file", nil) }()
			touch("before")
			m.Kill()
			reached += " returned"
			return nil
		}}
		play(t, 7, k, func(s *stage) {
			s.do("crash", ringproof.Fault{Kind: ringproof.FaultAgentCrash, For: ringproof.Duration(down)}, "m1")
			s.sleep(10 * time.Second)
			assert.Equal(s, " before", reached)
			there, err := s.machine("m1").Disk().Exists("file")
			require.NoError(s, err)
			assert.False(s, there)
			require.Len(s, lives, 2)
			assert.Equal(s, max(down, restartAfter)+time.Millisecond, lives[1].Sub(lives[0]))
		})
	}
}

// TestKilledWhileItStartsEtcd: etcd runs or it doesn't, and the next life knows.
func TestKilledWhileItStartsEtcd(t *testing.T) {
	started := map[bool]int{}
	for d := time.Duration(0); d < 2*time.Millisecond; d += 200 * time.Microsecond {
		play(t, 7, &keeper{size: 1}, func(s *stage) {
			s.sleep(d)
			m := s.machine("m1")
			s.do("kill", killAgent, "m1")
			started[m.etcd != nil]++
			s.formed()
			assert.Len(s, s.tape.of(ringproof.EventProcessStarted), 1)
		})
	}
	assert.Len(t, started, 2, "%v", started)
}

// TestRaftsPanicEndsItsProcess and not the run: a member whose log has
// forgotten what it promised dies of the first message that reminds it.
func TestRaftsPanicEndsItsProcess(t *testing.T) {
	ring(t, 3, func(s *stage) {
		m := s.follower()
		s.keep.state = "existing"
		words := ""
		s.Go(s.ctx, "listener", func(ctx context.Context) {
			for words == "" && s.Sleep(ctx, time.Millisecond) == nil {
				if m.etcd == nil && len(s.tape.of(ringproof.EventProcessExited)) > 1 {
					words = m.words
				}
			}
		})
		s.do("lose", ringproof.Fault{Kind: ringproof.FaultVolumeLoss}, m.Name())
		s.sleep(10 * time.Second)
		assert.Contains(s, words, "tocommit")
		assert.Contains(s, words, "exit status 2")
		_, err := s.put(s.dial(nil, s.leader()), "a", "1", time.Second)
		assert.NoError(s, err, "the others go on")
	})
}

// TestARefusedFlagIsNoPanic: etcd says what it refuses and how it is called, and ends with the code
// of a panic.
func TestARefusedFlagIsNoPanic(t *testing.T) {
	play(t, 7, &keeper{size: 1, agent: func(context.Context, *Machine) error { return nil }}, func(s *stage) {
		m := s.machine("m1")
		require.NoError(s, m.Process().Start(s.ctx, append(s.keep.flags(m), "--quota-backend-bytes=much")))
		s.sleep(time.Second)
		const refused = `invalid value "much" for flag -quota-backend-bytes: parse error`
		code, why, ended := m.Exit()
		assert.True(s, ended)
		assert.Equal(s, 2, code)
		assert.Equal(s, refused, why)
		assert.Equal(s, refused+etcd.Usage, m.Process().LastWords())
		assert.NotContains(s, s.tape.of(ringproof.EventProcessExited)[0], "panic")
	})
}

// TestAPanicOfTheModel is a bug of ours, wherever it is: the run ends with an
// error that says where, and the program goes on.
func TestAPanicOfTheModel(t *testing.T) {
	oh := func() { panic(errors.New("oh")) }
	for name, plant := range map[string]func(*stage){
		"in an event":              func(s *stage) { s.engine.after(time.Second, prioTimer, kindTimer, nil, oh) },
		"in an event of an etcd":   func(s *stage) { s.machine("m1").etcd.After(time.Second, oh) },
		"in a question to an etcd": func(s *stage) { s.machine("m1").etcd.hear(oh) },
		"in a call of the agent": func(s *stage) {
			s.engine.spawn(s.machine("m1").agent, "call", func() { s.machine("m1").etcd.hear(oh) })
		},
	} {
		w := New(7, &keeper{size: 1})
		err := w.Drive(t.Context(), func(ctx context.Context) {
			s := &stage{t, w, &tape{world: w}, ctx, w.Subject.(*keeper)}
			require.NoError(t, w.Start(ctx, ringproof.Plan{Ring: ringproof.RingSpec{Size: 1, Machines: 1, Version: "v3.6.16"}}, s.tape))
			s.formed()
			plant(s)
			s.sleep(time.Hour)
		})
		require.ErrorContains(t, err, "panicked: oh", name)
		assert.ErrorContains(t, err, "TestAPanicOfTheModel", name)
	}
}

// TestAnEtcdOfNoRelease: a machine runs what is on it.
func TestAnEtcdOfNoRelease(t *testing.T) {
	play(t, 7, &keeper{size: 1, agent: func(context.Context, *Machine) error { return nil }}, func(s *stage) {
		m := s.machine("m1")
		assert.Equal(s, map[string]string{"v3.6.16": "/opt/etcd/v3.6.16/etcd"}, m.Binaries())
		assert.ErrorContains(s, m.Process().Start(s.ctx, []string{"/opt/etcd/v3.5.0/etcd"}), "v3.5.0")
		require.NoError(s, m.Process().Start(s.ctx, s.keep.flags(m)))
		assert.ErrorContains(s, m.Process().Start(s.ctx, s.keep.flags(m)), "one runs already")
		running, err := m.Process().Running()
		require.NoError(s, err)
		assert.Equal(s, s.keep.flags(m), running)
	})
}

// TestNoncesAreTheirOwn: no two are equal, and a run repeats them.
func TestNoncesAreTheirOwn(t *testing.T) {
	draw := func() (all []string) {
		for _, m := range wired(3).Machines() {
			for range 10 {
				all = append(all, m.Nonce())
			}
		}
		return all
	}
	all := draw()
	assert.Equal(t, all, draw())
	slices.Sort(all)
	assert.Len(t, slices.Compact(all), 30)
	assert.Regexp(t, "^[0-9a-f]{16}$", all[0])
}

// TestClocks: a skew is of one machine's clock, and of nothing else's pace.
func TestClocks(t *testing.T) {
	play(t, 7, &keeper{machines: 2}, func(s *stage) {
		skew := ringproof.Fault{Kind: ringproof.FaultClockSkew, By: ringproof.Duration(-time.Hour)}
		s.sleep(time.Minute)
		s.do("one", skew, "m1")
		s.do("two", skew, "m1")
		assert.Equal(s, Epoch.Add(time.Duration(s.Now())-2*time.Hour), s.machine("m1").Now())
		assert.Equal(s, Epoch.Add(time.Duration(s.Now())), s.machine("m2").Now())
		before := s.Now()
		require.NoError(s, s.machine("m1").Sleep(s.ctx, time.Second))
		assert.Equal(s, time.Second, s.Now().Sub(before))
		s.heal("one", skew, "m1")
		s.heal("two", skew, "m1")
		assert.Equal(s, s.machine("m2").Now(), s.machine("m1").Now())
	})
}
