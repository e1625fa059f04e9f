// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/internal/observe"
	"github.com/ringproof/ringproof/internal/trial"
)

const version = needs.Release

// sandboxed runs the test again inside a sandbox, and reports whether this is
// that run.
func sandboxed(t *testing.T) bool {
	t.Helper()
	if machines.Inside() {
		return true
	}
	needs.RealTime(t)
	needs.Etcd(t)
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, self, asSandbox, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=150s").CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == noNamespaces {
		t.Skipf("no namespaces here: %s", strings.TrimSpace(string(out)))
	}
	t.Log(string(out))
	require.NoError(t, err, "the test failed in its sandbox")
	return false
}

// heard is a recorder.
type heard struct {
	mu     sync.Mutex
	events []ringproof.Event
}

func (h *heard) Record(e ringproof.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// of are the texts of a machine's events of a kind.
func (h *heard) of(kind ringproof.EventKind, machine string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []string
	for _, e := range h.events {
		if e.Kind == kind && e.Machine == machine {
			found = append(found, e.Text)
		}
	}
	return found
}

// rig is a world with what the test holds of it.
type rig struct {
	*testing.T
	*World
	heard *heard
}

// begin starts a ring of three and waits until it serves.
func begin(t *testing.T, volume int64) rig {
	t.Helper()
	subject := &toy{}
	w := rig{t, &World{Releases: map[string]etcdbin.Release{version: needs.Etcd(t)}, Subject: subject}, &heard{}}
	subject.world = w.World
	plan := ringproof.Plan{Ring: ringproof.RingSpec{Size: 3, Machines: 3, Version: version, Security: "plain", Volume: volume}, Mode: ringproof.ModeDisaster}
	t.Cleanup(func() { w.World.Close() })
	require.NoError(t, w.Start(t.Context(), plan, w.heard))
	w.until("the ring serves", serving(3))
	return w
}

// until observes until what is seen is so.
func (w rig) until(what string, so func(ringproof.Observation) bool) ringproof.Observation {
	w.Helper()
	began := time.Now()
	var o ringproof.Observation
	for time.Since(began) < 25*time.Second {
		var err error
		if o, err = w.Observe(w.Context()); err == nil && so(o) {
			w.Logf("%5.1fs  %s, after %v", w.Now().Seconds(), what, time.Since(began).Round(time.Millisecond))
			return o
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.Fatalf("not seen: %s; last %+v", what, o)
	return o
}

// serving is a fresh list of n members that all serve, one of them as leader.
// The processes were looked at first: an etcd that came up meanwhile serves, and
// nobody knows its process yet.
func serving(n int) func(ringproof.Observation) bool {
	return func(o ringproof.Observation) bool {
		_, led := o.Leader()
		return o.Fresh && led && len(o.Members) == n &&
			!slices.ContainsFunc(o.Members, func(m ringproof.MemberView) bool { return !m.Serving }) &&
			!slices.ContainsFunc(o.Machines, func(m ringproof.MachineView) bool { return m.Up && !m.Etcd })
	}
}

func silent(machine string) func(ringproof.Observation) bool {
	return func(o ringproof.Observation) bool {
		m, on := o.On(machine)
		return o.Fresh && on && !m.Serving
	}
}

func step(name string, f ringproof.Fault) ringproof.Step {
	return ringproof.Step{Name: name, Fault: &f}
}

// do injects a fault into the targets and wants evidence that says so.
func (w rig) do(f ringproof.Fault, evidence string, targets ...string) ringproof.Step {
	w.Helper()
	s := step(string(f.Kind), f)
	said, err := w.Do(w.Context(), s, targets)
	require.NoError(w, err)
	require.Contains(w, said, evidence)
	for _, name := range targets {
		if f.Shape != "one-way" { // which is told by those who don't hear
			require.Contains(w, said, name, "evidence for each target")
		}
	}
	w.Logf("%5.1fs  %s", w.Now().Seconds(), said)
	return s
}

func (w rig) heal(s ringproof.Step, targets ...string) {
	w.Helper()
	require.NoError(w, w.Heal(w.Context(), s, targets))
}

// put asks again where etcd says that it timed out: what a follower hands to
// the leader over a connection that is just made again may be lost on the way.
func (w rig) put(client int, key, value string) {
	w.Helper()
	c, err := w.Client(w.Context(), client)
	require.NoError(w, err)
	defer c.Close()
	for range 3 {
		_, err = c.Do(w.Context(), ringproof.Request{Kind: ringproof.RequestPut, Key: key, Value: value})
		if err == nil || !strings.Contains(err.Error(), "timed out") {
			break
		}
		w.Logf("%5.1fs  %v", w.Now().Seconds(), err)
	}
	require.NoError(w, err)
}

// TestARealRing injects every fault into a ring of three, one after another, and
// wants each of them seen and, where it heals, gone again.
func TestARealRing(t *testing.T) {
	if !sandboxed(t) {
		return
	}
	w := begin(t, 200<<20)
	o := w.until("all serve", serving(3))
	for i, m := range o.Machines {
		require.Equal(t, fmt.Sprintf("m%d", i+1), m.Name)
		require.Equal(t, ringproof.MachineView{Name: m.Name, Address: m.Address, Up: true, Disk: 1, Etcd: true, Agent: true}, m)
		member, on := o.On(m.Name)
		require.True(t, on)
		assert.Equal(t, []string{"http://" + m.Address + ":2380"}, member.PeerURLs)
		assert.Len(t, member.Peers, 3)
		assert.Equal(t, "3.6.16", member.Version)
		assert.Equal(t, o.Members[0].ClusterID, member.ClusterID)
		assert.Equal(t, []string{"new"}, w.heard.of(ringproof.EventBoot, m.Name), "what the agent said")
	}
	w.clients()
	w.kills()
	w.pauses()
	w.partitions()
	w.power()
	w.fullDisk()
	w.volume()
	w.evidence()
	require.NoError(t, w.Close(), "something was left behind")
}

func (w rig) clients() {
	var endpoints []string
	for i := range 4 {
		c, err := w.Client(w.Context(), i)
		require.NoError(w, err)
		endpoints = append(endpoints, c.Endpoint())
		require.NoError(w, c.Close())
		w.put(i, fmt.Sprint("k", i), fmt.Sprint("early-", i))
	}
	assert.Equal(w, []string{"m1", "m2", "m3", "m1"}, endpoints)
}

// kills ends processes; the agent starts etcd again, and the world the agent.
func (w rig) kills() {
	before := w.etcd(w.node("m2"))
	require.NotZero(w, before)
	w.do(ringproof.Fault{Kind: ringproof.FaultKill, Scope: "process"}, "dead: etcd[", "m2")
	o, err := w.Observe(w.Context())
	require.NoError(w, err)
	m, _ := o.On("m2")
	if machine, _ := o.Machine("m2"); !machine.Etcd {
		assert.False(w, m.Serving)
	}
	w.until("m2 serves again", serving(3))
	after := w.etcd(w.node("m2"))
	assert.NotEqual(w, before, after)
	assert.Contains(w, w.heard.of(ringproof.EventProcessExited, "m2"), fmt.Sprintf("etcd, pid %d", before))
	assert.Contains(w, w.heard.of(ringproof.EventProcessStarted, "m2"), fmt.Sprintf("etcd, pid %d", after))

	self, _ := os.Executable()
	w.do(ringproof.Fault{Kind: ringproof.FaultKill, Scope: "agent"}, "dead: "+filepath.Base(self)+"[", "m2")
	agent := func(runs bool) func(ringproof.Observation) bool {
		return func(o ringproof.Observation) bool {
			machine, _ := o.Machine("m2")
			return machine.Etcd && agentRuns(w, "m2") == runs
		}
	}
	w.until("the agent of m2 is dead and its etcd isn't", agent(false))
	w.until("the agent is started again", agent(true))
	assert.Equal(w, after, w.etcd(w.node("m2")), "the etcd went on")
	_, err = w.Do(w.Context(), step("nobody", ringproof.Fault{Kind: ringproof.FaultKill}), []string{"m9"})
	require.ErrorContains(w, err, "there is no machine m9")
}

// agentRuns looks for the agent itself: the etcd that it started bears its tag.
func agentRuns(w rig, machine string) bool {
	all, _ := w.node(machine).machine.Processes()
	return slices.ContainsFunc(all, w.isAgent)
}

func (w rig) pauses() {
	for _, scope := range []string{"process", "machine"} {
		s := w.do(ringproof.Fault{Kind: ringproof.FaultPause, Scope: scope}, "stopped", "m3")
		o := w.until("m3 is stopped", silent("m3"))
		machine, _ := o.Machine("m3")
		assert.False(w, machine.Up)
		assert.True(w, machine.Etcd, "it is there")
		w.heal(s, "m3")
		o = w.until("m3 goes on", serving(3))
		machine, _ = o.Machine("m3")
		assert.True(w, machine.Up)
	}
	assert.Empty(w, w.heard.of(ringproof.EventProcessExited, "m3"))
}

func (w rig) partitions() {
	drops := func(machine string) uint64 {
		n, err := w.node(machine).machine.(*machines.Machine).Drops()
		require.NoError(w, err)
		return n
	}
	s := w.do(ringproof.Fault{Kind: ringproof.FaultPartition, Shape: "split"}, "", "m1")
	o := w.until("m1 has no leader", silent("m1"))
	machine, _ := o.Machine("m1")
	assert.True(w, machine.Up, "it runs, and clients reach it")
	for _, name := range []string{"m1", "m2", "m3"} {
		assert.Positive(w, drops(name), "both sides drop: %s", name)
	}
	w.heal(s, "m1")
	w.until("m1 is back", serving(3))

	// Of three that hear nobody none leads; of two that hear each other one would.
	s = w.do(ringproof.Fault{Kind: ringproof.FaultPartition, Shape: "isolate"}, "", "m1", "m2")
	w.until("nobody leads", func(o ringproof.Observation) bool {
		return len(o.Members) == 3 && !o.Fresh && !slices.ContainsFunc(o.Members, func(m ringproof.MemberView) bool { return m.Serving })
	})
	w.heal(s, "m1", "m2")
	w.until("one leads again", serving(3))

	before := map[string]uint64{"m1": drops("m1"), "m2": drops("m2"), "m3": drops("m3")}
	s = w.do(ringproof.Fault{Kind: ringproof.FaultPartition, Shape: "one-way"}, "", "m1")
	time.Sleep(time.Second)
	assert.Equal(w, before["m1"], drops("m1"), "the target hears the others")
	assert.Greater(w, drops("m2"), before["m2"], "and they don't hear it")
	assert.Greater(w, drops("m3"), before["m3"])
	w.heal(s, "m1")
	w.until("they hear each other", serving(3))
}

// power takes it from all machines at once and gives it back: nothing that was
// written is gone.
func (w rig) power() {
	w.put(0, "power", "before")
	s := w.do(ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine"}, "power loss of machine", "m1", "m2", "m3")
	o, err := w.Observe(w.Context())
	require.NoError(w, err)
	for _, machine := range o.Machines {
		assert.False(w, machine.Up || machine.Etcd || machine.Agent, "%+v", machine)
	}
	assert.Empty(w, o.Members)
	assert.Len(w, o.Unknown, 3)
	_, err = w.Do(w.Context(), step("pause", ringproof.Fault{Kind: ringproof.FaultPause, Scope: "process"}), []string{"m2"})
	require.Error(w, err, "what is off can't be paused")
	time.Sleep(2 * restartAfter)
	o, err = w.Observe(w.Context())
	require.NoError(w, err)
	assert.False(w, slices.ContainsFunc(o.Machines, func(m ringproof.MachineView) bool { return m.Agent }), "no agent starts without power")
	for _, name := range []string{"m2", "m1", "m3"} {
		w.heal(s, name)
	}
	o = w.until("power is back", serving(3))
	for _, machine := range o.Machines {
		assert.True(w, machine.Up, "a pause that missed is no pause: %+v", machine)
		assert.Equal(w, 1, machine.Disk)
	}
	c, err := w.Client(w.Context(), 1)
	require.NoError(w, err)
	defer c.Close()
	got, err := c.Do(w.Context(), ringproof.Request{Kind: ringproof.RequestGet, Key: "power"})
	require.NoError(w, err)
	require.Len(w, got.KVs, 1)
	assert.Equal(w, "before", got.KVs[0].Value)
}

func (w rig) fullDisk() {
	if w.Supports(step("full", ringproof.Fault{Kind: ringproof.FaultDiskFull})) != nil {
		w.Fatal("a sandbox can fill disks")
	}
	s := w.do(ringproof.Fault{Kind: ringproof.FaultDiskFull}, "", "m3")
	require.Error(w, os.WriteFile(filepath.Join(w.node("m3").machine.DataRoot(), "more"), make([]byte, 1<<16), 0o600), "there is room left")
	w.heal(s, "m3")
	w.until("m3 has room again", serving(3))
}

// volume takes m2's disk, has the member replaced, and loses m3 for good.
func (w rig) volume() {
	old := w.until("before the loss", serving(3))
	lost, _ := old.On("m2")
	w.halfway(lost.ID)
	w.do(ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Leave: "directories"}, "loss of the volume", "m2")
	w.until("m2's disk is another", func(o ringproof.Observation) bool {
		machine, _ := o.Machine("m2")
		return o.Fresh && machine.Disk == 2 && machine.Up && machine.Agent && !machine.Etcd
	})
	require.Eventually(w, func() bool { return len(w.heard.of(ringproof.EventWaiting, "m2")) > 0 }, 5*time.Second, 20*time.Millisecond)
	assert.Equal(w, []string{"the log is gone"}, w.heard.of(ringproof.EventWaiting, "m2"), "what the agent says of it")
	entries, err := os.ReadDir(filepath.Join(w.node("m2").machine.DataRoot(), "etcd", "member", "wal"))
	require.NoError(w, err, "the directories were to be left")
	require.Empty(w, entries)

	replace := ringproof.Step{Name: "replace", Op: &ringproof.Op{Kind: ringproof.OpReplace, Target: "m2"}}
	require.Eventually(w, func() bool { // etcd wants the others connected for five seconds first
		_, err := w.Do(w.Context(), replace, []string{"m2"})
		if err != nil {
			w.Logf("%5.1fs  %v", w.Now().Seconds(), err)
		}
		return err == nil
	}, 20*time.Second, 300*time.Millisecond)
	o := w.until("m2 serves as another member", serving(3))
	found, _ := o.On("m2")
	assert.NotEqual(w, lost.ID, found.ID)
	machine, _ := o.Machine("m2")
	assert.Equal(w, 2, machine.Disk, "one disk is counted once")
	_, err = w.Do(w.Context(), ringproof.Step{Op: &ringproof.Op{Kind: ringproof.OpScale, To: 4}}, nil)
	require.ErrorIs(w, err, trial.ErrRefused)
	require.ErrorIs(w, err, ringproof.ErrRefused, "the executor knows it by this")

	w.do(ringproof.Fault{Kind: ringproof.FaultMachineLoss}, "loss of machine", "m3")
	o = w.until("m3 is gone", silent("m3"))
	machine, _ = o.Machine("m3")
	assert.True(w, machine.Lost)
	assert.False(w, machine.Up)
	w.heal(step("loss", ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine"}), "m3") // nothing comes of it
	for i := range 4 {
		c, err := w.Client(w.Context(), i)
		require.NoError(w, err)
		assert.NotEqual(w, "m3", c.Endpoint())
		c.Close()
	}
	w.until("the other two lead", func(o ringproof.Observation) bool { _, led := o.Leader(); return led && o.Fresh })
	w.put(0, "k0", "late")
}

// halfway looks while m2's disk is being changed: its etcd goes on for a moment,
// or is started once more, on a disk that is counted as gone.
func (w rig) halfway(member ringproof.MemberID) {
	n := w.node("m2")
	w.mark(n, func() { n.disk, n.swap = 2, true })
	o, err := w.Observe(w.Context())
	w.mark(n, func() { n.disk, n.swap = 1, false })
	require.NoError(w, err)
	seen, listed := o.On("m2")
	require.True(w, listed)
	assert.Equal(w, member, seen.ID)
	assert.False(w, seen.Serving, "it serves, but nobody knows on which disk")
	assert.Equal(w, []string{"m2: " + errUnsettled.Error()}, o.Unknown)

	asked := []observe.Answer{{Machine: "m1"}, {Machine: "m2"}, {Machine: "m3"}}
	settled(asked, map[string]int{"m1": 1, "m2": 1, "m3": 2}, map[string]int{"m1": 1, "m2": 2, "m3": 2})
	require.NoError(w, asked[0].Err)
	require.ErrorIs(w, asked[1].Err, errUnsettled, "its disk was cleared while it was asked")
	require.NoError(w, asked[2].Err)
}

func (w rig) evidence() {
	e, err := w.Evidence(w.Context())
	require.NoError(w, err)
	assert.Empty(w, e.Unknown)
	assert.True(w, e.Final.Fresh)
	leader, ok := e.Final.Leader()
	require.True(w, ok)
	var logs []string
	for _, l := range e.Logs {
		require.Empty(w, l.Err)
		assert.Equal(w, leader.ClusterID, l.ClusterID)
		assert.GreaterOrEqual(w, l.Last, l.First)
		logs = append(logs, fmt.Sprintf("%s disk %d", l.Machine, l.Disk))
	}
	assert.ElementsMatch(w, []string{"m1 disk 1", "m2 disk 1", "m2 disk 2", "m3 disk 1"}, logs)
	var kinds []string
	for _, c := range e.Changes {
		kinds = append(kinds, c.Kind)
	}
	assert.Equal(w, []string{"add-voter", "add-voter", "add-voter", "remove", "add-voter"}, kinds)
	require.Len(w, e.Hashes, 2, "of those who serve")
	assert.Equal(w, e.Hashes[0].Hash, e.Hashes[1].Hash)
	assert.Equal(w, e.Hashes[0].Revision, e.Hashes[1].Revision)
	assert.NotZero(w, e.Hashes[0].Hash)
	dump := map[string]string{}
	for _, kv := range e.Dump {
		dump[kv.Key] = kv.Value
		assert.LessOrEqual(w, kv.ModRevision, e.Revision)
	}
	assert.Equal(w, map[string]string{"k0": "late", "k1": "early-1", "k2": "early-2", "k3": "early-3", "power": "before"}, dump)
	assert.Equal(w, []string{"before", "early-0", "early-1", "early-2", "early-3", "late"}, e.Surviving, "what the disks hold that are left")
	require.Len(w, w.Tools().Etcd, 1)
}

// TestTwoWorlds has two rings side by side in one sandbox: neither sees the
// other, and the end of one is not that of the other.
func TestTwoWorlds(t *testing.T) {
	if !sandboxed(t) {
		return
	}
	a, b := begin(t, 0), begin(t, 0)
	a.put(0, "k", "a")
	b.put(1, "k", "b")
	oa, ob := a.until("a serves", serving(3)), b.until("b serves", serving(3))
	for i := range 3 {
		assert.NotEqual(t, oa.Machines[i].Address, ob.Machines[i].Address)
	}
	a.do(ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine"}, "power loss", "m1", "m2")
	require.NoError(t, a.Close())
	assert.Empty(t, b.heard.of(ringproof.EventProcessExited, "m1"))
	b.until("b serves still", serving(3))
	c, err := b.Client(t.Context(), 2)
	require.NoError(t, err)
	defer c.Close()
	got, err := c.Do(t.Context(), ringproof.Request{Kind: ringproof.RequestGet, Key: "k"})
	require.NoError(t, err)
	assert.Equal(t, "b", got.KVs[0].Value)
	require.NoError(t, b.Close())
}

func TestSupports(t *testing.T) {
	limits := errors.New("no namespaces")
	for kind, needs := range map[ringproof.FaultKind]bool{
		ringproof.FaultPartition: true, ringproof.FaultDiskFull: true, ringproof.FaultKill: false, ringproof.FaultVolumeLoss: false, ringproof.FaultStoreOutage: false,
	} {
		s := step("fault", ringproof.Fault{Kind: kind})
		require.NoError(t, Supports("local", s, nil))
		if needs {
			require.ErrorIs(t, Supports("local", s, limits), limits, kind)
		} else {
			require.NoError(t, Supports("local", s, limits), kind)
		}
	}
	require.NoError(t, Supports("local", ringproof.Step{Op: &ringproof.Op{Kind: ringproof.OpRoll}}, limits))
}
