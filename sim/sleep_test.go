// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

var suspend = ringproof.Fault{Kind: ringproof.FaultSleep}

// TestASuspendedMachine: its wall clock goes on and the monotonic one doesn't, and a timer or a
// deadline has as much time left when it wakes up as when it fell asleep.
func TestASuspendedMachine(t *testing.T) {
	var turns []ringproof.Instant
	var ended ringproof.Instant
	var k *keeper
	k = &keeper{size: 1, agent: func(ctx context.Context, m *Machine) error {
		if len(turns) == 0 {
			k.world.engine.spawn(m.agent, "under a deadline", func() {
				limited, cancel := m.Timeout(ctx, 4*time.Second)
				defer cancel()
				_ = m.Sleep(limited, time.Hour)
				ended = k.world.Now()
			})
		}
		for {
			turns = append(turns, k.world.Now())
			if err := m.Sleep(ctx, time.Second); err != nil {
				return err
			}
		}
	}}
	play(t, 7, k, func(s *stage) {
		m := s.machine("m1")
		s.sleep(2500 * time.Millisecond)
		before, up := m.Now(), m.Monotonic()
		for _, step := range []string{"first", "second"} {
			s.do(step, suspend, "m1")
		}
		s.sleep(4 * time.Second)
		s.heal("first", suspend, "m1")
		s.sleep(6 * time.Second)
		require.Len(s, turns, 3)
		assert.Equal(s, 10*time.Second, m.Now().Sub(before))
		assert.Equal(s, up, m.Monotonic())
		view, _ := s.look().Machine("m1")
		assert.False(s, view.Up)
		s.heal("second", suspend, "m1")
		s.sleep(3 * time.Second)
		assert.Equal(s, 3*time.Second, m.Monotonic()-up)
		require.Len(s, turns, 6)
		assert.Equal(s, 11*time.Second, turns[3].Sub(turns[2]))
		assert.Equal(s, time.Second, turns[4].Sub(turns[3]))
		assert.Equal(s, 14*time.Second, ended.Sub(turns[0]))
		assert.Equal(s, 1, k.lives)
	})
}

// TestASuspendedMember is not heard meanwhile, and catches up.
func TestASuspendedMember(t *testing.T) {
	ring(t, 3, func(s *stage) {
		m := s.leader()
		s.do("suspend", suspend, m.Name())
		s.sleep(5 * time.Second)
		require.NotEqual(s, m, s.leader())
		_, err := s.put(s.dial(nil, s.leader()), "early", "1", time.Second)
		require.NoError(s, err, "two of three are enough")
		s.heal("suspend", suspend, m.Name())
		s.sleep(2 * time.Second)
		got, err := s.get(s.dial(nil, m), "early")
		require.NoError(s, err)
		assert.Equal(s, "1", got)
	})
}

// TestASuspendedMachineLosesPower: it is off, and comes back awake.
func TestASuspendedMachineLosesPower(t *testing.T) {
	ring(t, 3, func(s *stage) {
		s.do("suspend", suspend, "m1")
		s.do("off", killAll, "m1")
		_, err := s.Do(s.ctx, ringproof.Step{Name: "again", Fault: &suspend}, []string{"m1"})
		assert.ErrorContains(s, err, "m1 is off")
		s.heal("off", killAll, "m1")
		s.formed()
		s.heal("suspend", suspend, "m1")
		s.formed()
	})
}
