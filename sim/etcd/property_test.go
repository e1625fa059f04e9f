// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"pgregory.net/rapid"
)

// writer puts ever new keys, one after the other, at whichever machine answers.
type writer struct {
	w     *world
	key   string
	count int
	acked []string
	done  bool
}

func (p *writer) write() {
	var next func()
	again := func() { p.w.after(50*time.Millisecond, next) }
	next = func() {
		if p.done {
			return
		}
		m := p.w.machines[p.w.names[p.w.draw()%uint64(len(p.w.names))]]
		if m.server == nil || m.frozen {
			again()
			return
		}
		p.count++
		key, over := fmt.Sprintf("%s/%d", p.key, p.count), false
		m.server.Call(nil, &pb.PutRequest{Key: []byte(key), Value: []byte("v")}, func(_ any, err error) {
			if over {
				return
			}
			over = true
			if err == nil {
				p.acked = append(p.acked, key)
			}
			again()
		})
		p.w.after(2*time.Second, func() { // the process may be gone
			if !over {
				over = true
				again()
			}
		})
	}
	next()
}

// check reads all of the writer's keys wherever somebody answers: a read that is
// answered has at least what was acknowledged when it began.
func (p *writer) check(rt *rapid.T) {
	var next func()
	next = func() {
		if p.done {
			return
		}
		p.w.after(70*time.Millisecond, next)
		m := p.w.machines[p.w.names[p.w.draw()%uint64(len(p.w.names))]]
		if m.server == nil || m.frozen {
			return
		}
		acked := len(p.acked)
		m.server.Call(nil, &pb.RangeRequest{Key: []byte(p.key + "/"), RangeEnd: []byte(p.key + "0"), CountOnly: true}, func(r any, err error) {
			if err == nil && int(r.(*pb.RangeResponse).Count) < acked {
				rt.Fatalf("%s read %d keys of %s, and %d were acknowledged before", m.name, r.(*pb.RangeResponse).Count, p.key, acked)
			}
		})
	}
	next()
}

// disturb does one random thing to a world.
func disturb(rt *rapid.T, w *world, down map[string]bool) {
	name := rapid.SampledFrom(w.names).Draw(rt, "machine")
	m := w.machines[name]
	switch rapid.SampledFrom([]string{"kill", "power", "stop", "cut", "half", "heal", "pause", "start", "start"}).Draw(rt, "fault") {
	case "kill":
		m.kill()
		down[name] = true
	case "power":
		m.kill()
		m.data.PowerLoss(rapid.IntRange(0, 3).Draw(rt, "keep"), rapid.Bool().Draw(rt, "torn"))
		down[name] = true
	case "stop":
		if m.server != nil && !m.frozen {
			m.server.Stop()
			down[name] = true
		}
	case "cut":
		w.partition(name)
	case "half":
		for _, other := range w.names {
			w.cut[[2]string{name, other}] = true
		}
	case "heal":
		w.heal()
	case "pause":
		m.frozen = true
		w.after(time.Duration(rapid.IntRange(10, 4000).Draw(rt, "ms"))*time.Millisecond, m.resume)
	case "start":
		startAll(w, down)
	}
}

func startAll(w *world, down map[string]bool) {
	for _, name := range w.names {
		if m := w.machines[name]; m.server == nil || down[name] && m.exited != "" {
			m.frozen, m.paused = false, nil
			m.start("existing", w.names...)
			delete(down, name)
		}
	}
}

// TestSurvives: whatever happens to processes, links and unsynced records, no
// acknowledged write is lost or unseen by a later read, and no two members
// differ. It catches a reply or an acknowledgement that leaves before the disk
// has it, a read that doesn't wait for what it must see, a snapshot that is
// marked before it is there, and anything in the state that hangs on more than
// the log.
func TestSurvives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		w := newWorld(t, seed, three...)
		w.version = rapid.SampledFrom([]string{"v3.5.35", "v3.6.16", "v3.7.3"}).Draw(rt, "version")
		w.flags = []string{"--snapshot-count=40"}
		if w.version != "v3.7.3" {
			w.flags = append(w.flags, "--experimental-snapshot-catchup-entries=20")
		} else {
			w.flags = append(w.flags, "--snapshot-catchup-entries=20")
		}
		w.syncTime = 5 * time.Millisecond
		ring(t, w)
		var writers []*writer
		for i := range 3 {
			p := &writer{w: w, key: fmt.Sprint("k", i)}
			writers = append(writers, p)
			p.write()
			p.check(rt)
		}
		down := map[string]bool{}
		for range rapid.IntRange(3, 20).Draw(rt, "steps") {
			w.run(time.Duration(rapid.IntRange(1, 2000).Draw(rt, "wait")) * time.Millisecond)
			disturb(rt, w, down)
		}
		w.heal()
		w.run(10 * time.Second)
		startAll(w, down)
		l := leader(t, w, three...)
		for _, p := range writers {
			p.done = true
			acked, found := p.acked, map[string]bool{}
			for _, kv := range must[*pb.RangeResponse](t, w, l, &pb.RangeRequest{Key: []byte(p.key + "/"), RangeEnd: []byte(p.key + "0")}).Kvs {
				found[string(kv.Key)] = true
			}
			for _, key := range acked {
				require.True(rt, found[key], "%s: an acknowledged write is lost", key)
			}
		}
		w.until(t, 10*time.Second, func() bool {
			same := hash(t, w, l)
			return same == hash(t, w, others(three, l)[0]) && same == hash(t, w, others(three, l)[1])
		})
	})
}

// TestRepeats: equal seeds give equal traces. It catches an effect that is
// ordered by a map, and chance that isn't the host's.
func TestRepeats(t *testing.T) {
	life := func(seed uint64) uint64 {
		w := newWorld(t, seed, three...)
		w.flags = []string{"--snapshot-count=30"}
		ring(t, w)
		w.run(6 * time.Second)
		l := leader(t, w, three...)
		p := &writer{w: w, key: "k"}
		p.write()
		must[*pb.LeaseGrantResponse](t, w, l, &pb.LeaseGrantRequest{TTL: 3})
		must[*pb.MemberAddResponse](t, w, l, &pb.MemberAddRequest{PeerURLs: []string{url("m4")}, IsLearner: true})
		w.add("m4").start("existing", "m1", "m2", "m3", "m4")
		w.run(5 * time.Second)
		w.machines[l].kill()
		w.run(20 * time.Second)
		w.note("%d %d", len(p.acked), hash(t, w, others(three, l)[0]))
		return w.trace
	}
	assert.Equal(t, life(1), life(1))
	assert.NotEqual(t, life(1), life(2))
}

// BenchmarkRing is the cost of simulated seconds: x/wall is simulated per wall
// second.
func BenchmarkRing(b *testing.B) {
	for _, load := range []int{0, 50} {
		b.Run(fmt.Sprintf("%d-puts", load), func(b *testing.B) {
			w := newWorld(b, 1, three...)
			ring(b, w)
			n := 0
			if load > 0 {
				var next func()
				next = func() {
					n++
					w.machines["m1"].server.Call(nil, &pb.PutRequest{Key: fmt.Appendf(nil, "k%d", n%100), Value: []byte("value")}, func(any, error) {})
					w.after(time.Second/time.Duration(load), next)
				}
				next()
			}
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				w.run(time.Second)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "x/wall")
		})
	}
}

// churn asks some member for a random change of the membership, and doesn't
// wait for what comes of it.
func churn(rt *rapid.T, w *world) {
	m := w.machines[rapid.SampledFrom(w.names).Draw(rt, "at")]
	if !w.serving(m.name) {
		return
	}
	var members []*pb.Member
	m.server.Call(nil, &pb.MemberListRequest{}, func(r any, err error) {
		if err == nil {
			members = r.(*pb.MemberListResponse).Members
		}
	})
	if len(members) == 0 {
		return
	}
	ask := func(request any) { m.server.Call(nil, request, func(any, error) {}) }
	about := rapid.SampledFrom(members).Draw(rt, "about")
	switch rapid.SampledFrom([]string{"add", "join", "promote", "promote", "remove", "move"}).Draw(rt, "change") {
	case "add":
		if len(w.names) < 8 {
			ask(&pb.MemberAddRequest{PeerURLs: []string{url(w.add(fmt.Sprint("m", len(w.names)+1)).name)}, IsLearner: true})
		}
	case "join":
		var all []string
		for _, member := range members {
			all = append(all, "m"+member.PeerURLs[0][len("http://10.0.0."):len("http://10.0.0.")+1])
		}
		for _, name := range all {
			if joins, ok := w.machines[name]; ok && joins.server == nil && joins.life == 0 {
				joins.start("existing", all...)
			}
		}
	case "promote":
		ask(&pb.MemberPromoteRequest{ID: about.ID})
	case "remove":
		// Of two voters the one that stays, when it is killed before it has synced that it
		// committed the removal, waits for the vote of the one that has left, as etcd's does.
		// A list may be stale, and shows no removal that is under way.
		voters := slices.DeleteFunc(members, func(m *pb.Member) bool { return m.IsLearner })
		if about.IsLearner || len(voters) > 2 && (w.removal == 0 || w.now > w.removal+20*time.Second) {
			w.removal = w.now
			ask(&pb.MemberRemoveRequest{ID: about.ID})
		}
	case "move":
		ask(&pb.MoveLeaderRequest{TargetID: about.ID})
	}
}

// TestChanges: whatever the membership goes through, those who are left agree
// on it and on every key, and the ring still serves. It catches a change that
// is applied on one member and refused on another, and rules that let a ring
// lose its quorum by a change.
func TestChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(rt, "seed"), three...)
		w.flags = []string{"--snapshot-count=40", "--experimental-snapshot-catchup-entries=20"}
		ring(t, w)
		p := &writer{w: w, key: "k"}
		p.write()
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			w.run(time.Duration(rapid.IntRange(1, 3000).Draw(rt, "wait")) * time.Millisecond)
			name := rapid.SampledFrom(w.names).Draw(rt, "machine")
			switch m := w.machines[name]; rapid.IntRange(0, 5).Draw(rt, "fault") {
			case 0:
				m.kill()
			case 1, 2:
				revive(w)
			default:
				churn(rt, w)
			}
		}
		p.done = true
		w.run(5 * time.Second)
		revive(w)
		w.run(20 * time.Second)
		var views []string
		for _, name := range w.names {
			if w.serving(name) && !status(t, w, name).IsLearner {
				list := must[*pb.MemberListResponse](t, w, name, &pb.MemberListRequest{Linearizable: true})
				views = append(views, fmt.Sprint(hash(t, w, name), list.Members))
			}
		}
		require.NotEmpty(rt, views, w.describe())
		for _, view := range views {
			require.Equal(rt, views[0], view)
		}
	})
}

// revive starts again what has run before and was not removed.
func revive(w *world) {
	for _, name := range w.names {
		m := w.machines[name]
		_, _, _, ran, _ := m.data.Whose()
		if m.server == nil && ran && m.exited == "" {
			m.start("existing", name)
		}
	}
}
