// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
)

// wired is a world of so many machines on which nothing runs.
func wired(machines int) *World {
	w := New(7, &keeper{})
	for i := range machines {
		w.add(fmt.Sprintf("m%d", i+1), fmt.Sprintf("10.0.0.%d", i+1))
	}
	return w
}

// TestCutsHealByStep: a link passes at a port when no step that is in force cuts that, or all. A
// heal that took the whole link's cuts away would end another step's partition.
func TestCutsHealByStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := wired(3)
		n := w.network
		inForce := map[string]map[link]string{"a": {}, "b": {}, "c": {}}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			step := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "step")
			if rapid.Bool().Draw(t, "mend") {
				n.mend(step)
				clear(inForce[step])
				continue
			}
			l := link{rapid.SampledFrom(w.machines).Draw(t, "from"), rapid.SampledFrom(w.machines).Draw(t, "to")}
			port := rapid.SampledFrom([]string{"all", "peer", "client"}).Draw(t, "port")
			n.cut(step, l.from, l.to, port)
			inForce[step][l] = port
		}
		for _, from := range w.machines {
			for _, to := range w.machines {
				for _, port := range []string{"peer", "client"} {
					cut := false
					for _, links := range inForce { // order: one of them is enough
						by := links[link{from, to}]
						cut = cut || by == port || by == "all"
					}
					require.Equal(t, !cut, n.passes(from, to, port), "%s to %s at %s", from.name, to.name, port)
				}
			}
			require.True(t, n.passes(nil, from, "client") && n.passes(from, nil, "client"), "the harness is beside the network")
		}
	})
}

// TestPartitions: who is heard by whom in each shape, with m4 outside of the
// targets, and after the heal.
func TestPartitions(t *testing.T) {
	for shape, heard := range map[string]string{
		"":        "m1>m2 m2>m1 m3>m4 m4>m3",
		"split":   "m1>m2 m2>m1 m3>m4 m4>m3",
		"isolate": "m3>m4 m4>m3",
		"one-way": "m1>m2 m2>m1 m3>m1 m3>m2 m3>m4 m4>m1 m4>m2 m4>m3",
	} {
		play(t, 7, &keeper{machines: 4}, func(s *stage) {
			f := ringproof.Fault{Kind: ringproof.FaultPartition, Shape: shape}
			for _, port := range []string{"", "all", "peer", "client"} {
				f.Port = port
				s.do("cut", f, "m1", "m2")
				for at, cut := range map[string]bool{"peer": port != "client", "client": port != "peer"} {
					want := heard
					if !cut {
						want = s.everybody()
					}
					assert.Equal(s, want, s.heard(at), "%s %s at %s", shape, port, at)
				}
				s.heal("cut", f, "m1", "m2")
				assert.Equal(s, s.everybody(), s.heard("peer"), shape)
				assert.Equal(s, s.everybody(), s.heard("client"), shape)
			}
		})
	}
}

// everybody is what is heard where nothing is cut.
func (s *stage) everybody() (all string) {
	for _, from := range s.machines {
		for _, to := range s.machines {
			if from != to {
				all += " " + from.name + ">" + to.name
			}
		}
	}
	return all[1:]
}

func (s *stage) heard(port string) (all string) {
	for _, from := range s.machines {
		for _, to := range s.machines {
			if from != to && s.network.passes(from, to, port) {
				all += " " + from.name + ">" + to.name
			}
		}
	}
	return all[min(1, len(all)):]
}

// TestNothingOvertakesInAStream, though single packets do.
func TestNothingOvertakesInAStream(t *testing.T) {
	w := wired(2)
	m1, m2 := w.machines[0], w.machines[1]
	overtaken := 0
	var last, loose ringproof.Instant
	for range 2000 {
		at := w.engine.now.Add(w.network.inOrder(m1, m2))
		require.Greater(t, at, last)
		last = at
		single := w.engine.now.Add(w.network.hop(m1, m2))
		if single < loose {
			overtaken++
		}
		loose = single
		w.engine.now = w.engine.now.Add(50 * time.Microsecond)
	}
	assert.Positive(t, overtaken, "a network that never reorders hides what only works in order")
}

// TestDownRefusesAndGoneIsSilent: whoever asks must be able to tell a process
// that isn't there, at once, from a machine that isn't, never.
func TestDownRefusesAndGoneIsSilent(t *testing.T) {
	play(t, 7, &keeper{machines: 3}, func(s *stage) {
		from := s.machine("m1")
		took, err := s.put(s.dial(from, s.machine("m2")), "a", "1", 10*time.Second)
		require.ErrorContains(s, err, "connection refused")
		assert.Less(s, took, 100*time.Millisecond)
		for name, f := range map[string]ringproof.Fault{
			"off":  {Kind: ringproof.FaultKill, Scope: "machine"},
			"lost": {Kind: ringproof.FaultMachineLoss},
		} {
			to := map[string]string{"off": "m2", "lost": "m3"}[name]
			s.do(name, f, to)
			for _, from := range []*Machine{from, nil} {
				took, err := s.put(s.dial(from, s.machine(to)), "a", "1", 10*time.Second)
				require.ErrorIs(s, err, context.DeadlineExceeded, name)
				assert.Equal(s, 10*time.Second, took, name)
			}
		}
		nowhere, err := from.Dial("http://10.9.9.9:2379", nil)
		require.NoError(s, err)
		_, err = s.put(nowhere, "a", "1", time.Second)
		assert.ErrorContains(s, err, "no route to host")
	})
}

// TestARefusalIsCertain: the workload takes a dial that failed for a request
// that was never made, and a connection that broke for one that may have been.
func TestARefusalIsCertain(t *testing.T) {
	ring(t, 1, func(s *stage) {
		m := s.machine("m1")
		c := &client.Client{Etcd: s.dial(nil, m)}
		request := ringproof.Request{Kind: ringproof.RequestPut, Key: "a", Value: "1"}
		var err error
		answered := false
		s.Go(s.ctx, "client", func(ctx context.Context) { _, err = c.Do(ctx, request); answered = true })
		for len(m.etcd.calls) == 0 || m.etcd.calls[len(m.etcd.calls)-1].over {
			s.sleep(20 * time.Microsecond)
		}
		s.keep.spared["m1"] = true
		s.do("kill", ringproof.Fault{Kind: ringproof.FaultKill}, "m1")
		s.until(time.Second, "it breaks", func() bool { return answered })
		require.ErrorContains(s, err, "EOF")
		require.NotErrorIs(s, err, ringproof.ErrRefused)
		_, err = c.Do(s.ctx, request)
		require.ErrorIs(s, err, ringproof.ErrRefused)
	})
}

// TestALostReplyIsOfARequestThatWasDone, by whomever it was made.
func TestALostReplyIsOfARequestThatWasDone(t *testing.T) {
	ring(t, 3, func(s *stage) {
		m := s.follower()
		f := ringproof.Fault{Kind: ringproof.FaultReplyLoss, Percent: 100}
		s.do("mute", f, m.Name())
		_, err := s.put(s.dial(nil, m), "a", "1", time.Second)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		agent := s.dial(m, s.leader())
		_, err = s.put(agent, "b", "2", time.Second)
		require.Error(s, err, "nor does the agent there hear of what it asked of others")
		for key, want := range map[string]string{"a": "1", "b": "2"} {
			got, err := s.get(s.dial(nil, s.leader()), key)
			require.NoError(s, err)
			assert.Equal(s, want, got)
		}
		s.heal("mute", f, m.Name())
		_, err = s.put(agent, "b", "3", time.Second)
		require.NoError(s, err)
		s.do("some", ringproof.Fault{Kind: ringproof.FaultReplyLoss, Percent: 40}) // of everyone
		lost := 0
		for range 100 {
			if _, err := s.get(agent, "a"); err != nil {
				lost++
			}
		}
		assert.InDelta(s, 40, lost, 20)
	})
}

// TestALostPacketIsSentAgain: it comes after all, later the more often it is lost, and nothing overtakes it in its
// stream. What a machine says to itself, and who asks from outside, never lose any.
func TestALostPacketIsSentAgain(t *testing.T) {
	w := wired(3)
	m1, m2, m3 := w.machines[0], w.machines[1], w.machines[2]
	late := func(from, to *Machine) (n int, longest time.Duration) {
		for range 2000 {
			w.engine.now = w.engine.now.Add(2 * streamDead) // what was lost before has come
			if d := w.network.hop(from, to); d >= firstResent {
				n, longest = n+1, max(longest, d)
			}
		}
		return n, longest
	}
	w.network.lossy[m1] = map[string]int{"some": 20, "few": 5}
	w.network.lossy[m3] = map[string]int{"some": 20}
	for ends, want := range map[[2]*Machine]int{{m1, m2}: 400, {m2, m1}: 400, {m1, m3}: 720} {
		n, longest := late(ends[0], ends[1])
		assert.InDelta(t, want, n, 80, "the worst of the steps, at either end")
		assert.Greater(t, longest, 3*firstResent, "twice in a row")
		assert.LessOrEqual(t, longest, streamDead+tailHop)
	}
	for _, ends := range [][2]*Machine{{m1, m1}, {nil, m1}, {m1, nil}} {
		n, _ := late(ends[0], ends[1])
		assert.Zero(t, n)
	}
	w.network.stuck[way{link{m1, m2}, false}] = w.engine.now.Add(time.Second)
	assert.GreaterOrEqual(t, w.network.hop(m1, m2), time.Second, "what is sent meanwhile waits")
	last := w.engine.now
	for range 200 {
		at := w.engine.now.Add(w.network.inOrder(m1, m2))
		require.Greater(t, at, last)
		last = at
	}
	w.network.mend("some")
	n, _ := late(m1, m3)
	assert.InDelta(t, 100, n, 40)
}

// TestAReplyThatIsCutOff is of a request that was done, too: a partition of one way lets requests in.
func TestAReplyThatIsCutOff(t *testing.T) {
	ring(t, 3, func(s *stage) {
		asker, asked := s.follower(), s.leader()
		s.network.cut("way back", asked, asker, "")
		_, err := s.put(s.dial(asker, asked), "a", "1", time.Second)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		s.network.mend("way back")
		s.network.cut("way in", asker, asked, "")
		_, err = s.put(s.dial(asker, asked), "b", "2", time.Second)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		s.network.mend("way in")
		s.sleep(5 * time.Second) // somebody leads again
		c := s.dial(nil, s.leader())
		a, err := s.get(c, "a")
		require.NoError(s, err)
		b, err := s.get(c, "b")
		require.NoError(s, err)
		assert.Equal(s, []string{"1", ""}, []string{a, b})
	})
}

// TestTheHarnessPassesPartitions, though its request does not.
func TestTheHarnessPassesPartitions(t *testing.T) {
	ring(t, 3, func(s *stage) {
		f := ringproof.Fault{Kind: ringproof.FaultPartition, Shape: "isolate"}
		_, err := s.put(s.dial(nil, s.leader()), "a", "1", time.Second)
		require.NoError(s, err)
		s.sleep(time.Second)
		s.do("cut", f, "m1", "m2", "m3")
		s.sleep(10 * time.Second)
		for _, m := range s.machines {
			got, err := s.get(s.dial(nil, m), "a", clientv3.WithSerializable())
			require.NoError(s, err)
			assert.Equal(s, "1", got)
			_, err = s.get(s.dial(nil, m), "a")
			assert.Error(s, err, "%s answered for a quorum", m.name)
			_, err = s.get(s.dial(s.machine("m1"), m), "a", clientv3.WithSerializable())
			assert.Equal(s, m.name == "m1", err == nil, "an agent on m1 asks %s: %v", m.name, err)
		}
		s.heal("cut", f, "m1", "m2", "m3")
		s.formed()
	})
}

// TestACutOneWayIsOneWay: the leader that nobody hears loses its lead, and
// learns of it, since it hears the others.
func TestACutOneWayIsOneWay(t *testing.T) {
	ring(t, 3, func(s *stage) {
		m := s.leader()
		f := ringproof.Fault{Kind: ringproof.FaultPartition, Shape: "one-way"}
		s.do("cut", f, m.Name())
		s.until(10*time.Second, "another leads", func() bool { return s.leader() != m })
		s.until(10*time.Second, "it follows", func() bool {
			said, err := say[*pb.StatusResponse](m.etcd, &pb.StatusRequest{})
			l, _ := s.look().Leader()
			return err == nil && ringproof.MemberID(said.Leader) == l.ID
		})
	})
}

// TestTheSlowNetwork: what two steps add is added up, and taken away by step. What a machine
// sends to itself never comes to the network.
func TestTheSlowNetwork(t *testing.T) {
	ring(t, 3, func(s *stage) {
		m := s.follower()
		slow := func(by time.Duration) ringproof.Fault {
			return ringproof.Fault{Kind: ringproof.FaultSlowNetwork, By: ringproof.Duration(by)}
		}
		takes := func(from, to *Machine) time.Duration {
			began := s.Now()
			_, err := s.get(s.dial(from, to), "a", clientv3.WithSerializable())
			require.NoError(s, err)
			return s.Now().Sub(began)
		}
		took := func(to *Machine) time.Duration { return takes(nil, to) }
		const spread = 20 * time.Millisecond
		assert.Less(s, took(m), spread)
		s.do("one", slow(50*time.Millisecond), m.Name())
		s.do("two", slow(100*time.Millisecond), m.Name())
		assert.InDelta(s, 300*time.Millisecond, took(m), float64(spread), "there and back")
		assert.Less(s, took(s.leader()), spread)
		assert.Less(s, takes(m, m), spread, "over loopback")
		s.heal("one", slow(50*time.Millisecond), m.Name())
		assert.InDelta(s, 200*time.Millisecond, took(m), float64(spread))
		s.heal("two", slow(100*time.Millisecond), m.Name())
		assert.Less(s, took(m), spread)
	})
}

// TestAWatchBreaksWithItsServer, and its events come in the order of their
// revisions.
func TestAWatchBreaksWithItsServer(t *testing.T) {
	ring(t, 3, func(s *stage) {
		seen, ended := []int64{}, false
		var err error
		c, failed := s.Client(s.ctx, 0)
		require.NoError(s, failed)
		s.Go(s.ctx, "watcher", func(ctx context.Context) {
			err = c.Watch(ctx, "w/", 0, func(e ringproof.WatchEvent) { seen = append(seen, e.Revision) })
			ended = true
		})
		s.sleep(100 * time.Millisecond)
		for i := range 30 {
			_, failed := s.put(s.dial(nil, s.machine("m2")), fmt.Sprint("w/", i), "v", time.Second)
			require.NoError(s, failed)
		}
		s.sleep(time.Second)
		require.Len(s, seen, 30)
		assert.True(s, slices.IsSorted(seen))
		s.do("kill", ringproof.Fault{Kind: ringproof.FaultKill}, c.Endpoint())
		s.sleep(time.Second)
		assert.True(s, ended)
		assert.ErrorContains(s, err, "EOF")
	})
}

// TestALostMachinesWatchIsSilent: nobody tells the client that it is gone.
func TestALostMachinesWatchIsSilent(t *testing.T) {
	ring(t, 3, func(s *stage) {
		ended := false
		c, err := s.Client(s.ctx, 0)
		require.NoError(s, err)
		watching, stop := s.Timeout(s.ctx, time.Hour)
		s.Go(watching, "watcher", func(ctx context.Context) { _ = c.Watch(ctx, "", 0, func(ringproof.WatchEvent) {}); ended = true })
		s.sleep(100 * time.Millisecond)
		s.do("lose", ringproof.Fault{Kind: ringproof.FaultMachineLoss}, c.Endpoint())
		s.sleep(time.Minute)
		assert.False(s, ended)
		stop()
		s.sleep(time.Millisecond)
		assert.True(s, ended)
	})
}

// TestHopsDoNotDependOnTheOrderOfMaps: what is added up is the same however a
// map is walked.
func TestHopsDoNotDependOnTheOrderOfMaps(t *testing.T) {
	hops := func() (all []time.Duration) {
		w := wired(2)
		steps := map[string]time.Duration{}
		for i := range 20 {
			steps[fmt.Sprint(i)] = time.Duration(i) * time.Millisecond
		}
		w.network.slow[w.machines[0]] = maps.Clone(steps)
		for range 50 {
			all = append(all, w.network.hop(w.machines[0], w.machines[1]))
		}
		return all
	}
	assert.Equal(t, hops(), hops())
}
