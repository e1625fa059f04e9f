// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// rig is one machine with faults at its seams.
type rig struct {
	*fakeHost
	file     string
	killed   int
	done     map[string]int // actions that reached the real thing
	injector *injector
	brain    auto.Brain
	on       host.Host
	store    store.Store
	real     fakeStore
}

func newRig(dir, name string) *rig {
	x := &rig{fakeHost: newHost(), file: filepath.Join(dir, name+".json"), done: map[string]int{}, real: fakeStore{store.MarkerKey: "1"}}
	x.injector = newInjector(func() (seam.Faults, error) { return seam.ReadFaults(x.file) }, seam.NewMarkers(filepath.Join(dir, "fired-")), func() { x.killed++ })
	s := seams(x.injector.layers(nil))
	x.on = s.Host(x.fakeHost)
	x.store = s.Store(x.on, x.real)
	b := auto.Reference()
	b.Do = func(_ context.Context, _ *admin.Ring, a ring.Action, _ admin.Fence) error {
		x.done[string(a.Kind)]++
		return nil
	}
	x.brain = s.Brain(x.on, b)
	return x
}

func (x *rig) set(t *testing.T, set ...seam.Setting) {
	require.NoError(t, seam.WriteFaults(x.file, seam.Faults{Set: set}))
}

func cutAt(action, phase string, nth int) seam.Setting {
	return seam.Of(ringproof.Seams{Step: "crash", Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Action: action, Phase: phase, Nth: nth}}, "m1")
}

// do takes the action and reports whether it was done.
func (x *rig) do(ctx context.Context, action string) (done bool, err error) {
	before := x.done[action]
	switch action {
	case "launch":
		x.process.args = nil
		err = x.on.Process().Start(ctx, []string{"etcd"})
		return x.process.args != nil, err
	case "clear":
		x.disk.files[launcher.DataDir] = "log"
		err = x.on.Disk().Remove(launcher.DataDir)
		_, there := x.disk.files[launcher.DataDir]
		return !there, err
	case "bootstrap":
		delete(x.real, bootstrapKey)
		err = x.store.Create(ctx, bootstrapKey, []byte("{}"))
		return x.real[bootstrapKey] != "", err
	}
	err = x.brain.Do(ctx, nil, ring.Action{Kind: ring.Kind(action)}, admin.Unfenced())
	return x.done[action] > before, err
}

var actions = []string{"add-learner", "bind", "promote", "remove", "move-leader", "launch", "clear", "bootstrap"}

func TestCrashAtEachActionInEachPhase(t *testing.T) {
	for _, action := range actions {
		for _, phase := range []string{seam.Before, seam.After, seam.ReplyLost, seam.Refused} {
			dir := t.TempDir()
			x := newRig(dir, "m1")
			x.set(t, cutAt(action, phase, 0))
			for _, other := range actions {
				if other != action {
					done, err := x.do(t.Context(), other)
					require.True(t, done && err == nil, "%s: a crash at %s hit it: %v", other, action, err)
				}
			}
			done, err := x.do(t.Context(), action)
			assert.Equal(t, phase == seam.After || phase == seam.ReplyLost, done, "%s %s", action, phase)
			assert.Error(t, err)
			assert.Equal(t, phase == seam.ReplyLost, errors.Is(err, context.DeadlineExceeded), "%s %s", action, phase)
			assert.Equal(t, phase == seam.Before || phase == seam.After, x.killed == 1, "%s %s: killed %d times", action, phase, x.killed)
			lines := x.events(EventFaultLanded)
			require.Len(t, lines, 1)
			assert.Equal(t, "crash", lines[0].Step)
			assert.Equal(t, action, lines[0].Action)
			assert.NotEmpty(t, lines[0].Text)
			assert.FileExists(t, filepath.Join(dir, "fired-crash.1"))

			done, err = x.do(t.Context(), action)
			assert.True(t, done && err == nil, "%s %s fired twice: %v", action, phase, err)
		}
	}
}

// killedInTurn promotes on three machines in turn, and tells who was killed.
func killedInTurn(t *testing.T, target string) []int {
	dir := t.TempDir()
	var machines []*rig
	for _, name := range []string{"m1", "m2", "m3"} {
		x := newRig(dir, name)
		f := &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Action: "promote", Phase: seam.After, Nth: 3, Target: target}
		x.set(t, seam.Of(ringproof.Seams{Step: "crash", Fault: f}, name))
		machines = append(machines, x)
	}
	var killed []int
	for range 4 {
		for i, x := range machines {
			before := x.killed
			_, _ = x.do(t.Context(), "promote")
			if x.killed > before {
				killed = append(killed, i)
			}
		}
	}
	return killed
}

func TestNthCountsOverAllMachinesOrForEachTarget(t *testing.T) {
	assert.Equal(t, []int{2}, killedInTurn(t, ""), "the third promotion is the third machine's, and there is no other")
	assert.Equal(t, []int{0, 1, 2}, killedInTurn(t, "all"), "each comes to its own third")
}

func TestTwoCutsAreSetAtOnceAndTakenAwayAlone(t *testing.T) {
	f := seam.Faults{}.With(cutAt("bind", seam.ReplyLost, 1))
	other := cutAt("promote", seam.ReplyLost, 1)
	other.Step, other.Series = "other", "other"
	f = f.With(other)
	x := newRig(t.TempDir(), "m1")
	x.set(t, f.Set...)
	for _, action := range []string{"bind", "promote"} {
		_, err := x.do(t.Context(), action)
		assert.Error(t, err, action)
	}
	assert.Equal(t, []seam.Setting{other}, f.With(seam.Setting{Step: "crash"}).Set)
	assert.Empty(t, f.With(seam.Setting{}).Set, "no step takes everything away")
	assert.Len(t, f.With(cutAt("bind", seam.ReplyLost, 2)).Set, 2, "a step has one setting")
}

// The harness takes an action whose agent is dead for ended: it has to know
// which, also when the cut was at an effect of it.
func TestACutAtAnEffectNamesTheActionThatIsOpen(t *testing.T) {
	for _, open := range []string{"", "launch"} {
		x := newRig(t.TempDir(), "m1")
		s := cutAt("", seam.Before, 1)
		s.Fault.Effect = "write disk.json"
		x.set(t, s)
		x.on.Log(host.Line{Event: host.EventActionBegun, Action: "bind"})
		x.on.Log(host.Line{Event: host.EventActionDone, Action: "bind"})
		if open != "" {
			x.on.Log(host.Line{Event: host.EventActionBegun, Action: open})
		}
		assert.ErrorIs(t, x.on.Disk().Write("disk.json", nil), errKilled)
		assert.Equal(t, open, x.events(EventFaultLanded)[0].Action)
	}
}

func TestAnActionThatFailsHasNoReplyToLose(t *testing.T) {
	dir := t.TempDir()
	x := newRig(dir, "m1")
	x.real[bootstrapKey] = "another's"
	x.set(t, cutAt("bootstrap", seam.After, 1))
	assert.ErrorIs(t, x.store.Create(t.Context(), bootstrapKey, []byte("{}")), store.ErrExists)
	assert.Zero(t, x.killed)
	assert.NoFileExists(t, filepath.Join(dir, "fired-crash.1"))
}

func TestNoFileOrAStrangeOneHitsNobody(t *testing.T) {
	x := newRig(t.TempDir(), "m1")
	x.injector.tally = seam.NewMarkers("/nonexistent/")
	for _, text := range []string{"", "{", `{"set":[{"step":"a","fault":{"kind":"agent-crash","action":"promote","phase":"sideways"}}]}`,
		`{"set":[{"step":"a","fault":{"kind":"agent-crash","action":"promote","phase":"before"}}]}`} {
		if text != "" {
			require.NoError(t, os.WriteFile(x.file, []byte(text), 0o600))
		}
		for range 2 {
			done, err := x.do(t.Context(), "promote")
			assert.True(t, done && err == nil, "%q: %v", text, err)
			_, err = x.store.Get(t.Context(), store.MarkerKey)
			assert.NoError(t, err)
		}
	}
	assert.Empty(t, x.events(EventFaultLanded))
	assert.Len(t, x.events(host.EventTrouble), 1, "a file that can't be read is told once")
}

func TestStoreOutage(t *testing.T) {
	x := newRig(t.TempDir(), "m1")
	calls := func() []error {
		_, got := x.store.Get(t.Context(), store.MarkerKey)
		_, listed := x.store.List(t.Context(), "")
		delete(x.real, "spec/00000001.json")
		return []error{got, listed, x.store.Create(t.Context(), "spec/00000001.json", []byte("{}"))}
	}
	assert.Equal(t, []error{nil, nil, nil}, calls())
	for _, step := range []string{"one", "two"} {
		x.set(t, seam.Setting{Step: step, StoreOutage: &ringproof.Fault{Kind: ringproof.FaultStoreOutage}})
		for range 2 {
			for _, err := range calls() {
				assert.ErrorIs(t, err, errOutage)
				assert.NotErrorIs(t, err, store.ErrNotFound)
			}
		}
		assert.NotContains(t, x.real, "spec/00000001.json")
	}
	x.set(t)
	assert.Equal(t, []error{nil, nil, nil}, calls())
	lines := x.events(EventFaultLanded)
	require.Len(t, lines, 2, "once for each step")
	assert.Equal(t, []string{"one", "two"}, []string{lines[0].Step, lines[1].Step})
}

// TestStoreHangs: who asks waits until he gives up, or the store is back and does what was asked.
func TestStoreHangs(t *testing.T) {
	x := newRig(t.TempDir(), "m1")
	hangs := seam.Setting{Step: "one", StoreOutage: &ringproof.Fault{Kind: ringproof.FaultStoreOutage, How: ringproof.StoreHangs}}
	x.set(t, hangs)
	brief, cancel := context.WithCancel(t.Context())
	naps := 0
	x.slept = func() {
		if naps++; naps == 3 {
			cancel()
		}
	}
	_, err := x.store.Get(brief, store.MarkerKey)
	assert.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, store.ErrNotFound)
	x.slept = func() {
		assert.NotContains(t, x.real, "spec/00000001.json")
		x.set(t)
	}
	delete(x.real, "spec/00000001.json")
	require.NoError(t, x.store.Create(t.Context(), "spec/00000001.json", []byte("{}")))
	assert.Contains(t, x.real, "spec/00000001.json")
	assert.Len(t, x.events(EventFaultLanded), 1)
}

func TestStoreOutageOfWrites(t *testing.T) {
	x := newRig(t.TempDir(), "m1")
	x.set(t, seam.Setting{Step: "one", StoreOutage: &ringproof.Fault{Kind: ringproof.FaultStoreOutage, Calls: "writes", Records: "formed"}})
	_, err := x.store.Get(t.Context(), store.MarkerKey)
	assert.NoError(t, err)
	_, err = x.store.List(t.Context(), "formed")
	assert.NoError(t, err, "reads work")
	assert.NoError(t, x.store.Create(t.Context(), "spec/00000001.json", []byte("{}")), "of other records")
	assert.ErrorIs(t, x.store.Create(t.Context(), "formed/00000001.json", []byte("{}")), errOutage)
	x.set(t, seam.Setting{Step: "one", StoreOutage: &ringproof.Fault{Kind: ringproof.FaultStoreOutage, Records: "formed"}})
	_, err = x.store.List(t.Context(), "formed")
	assert.ErrorIs(t, err, errOutage)
}

func TestStoreStale(t *testing.T) {
	x := newRig(t.TempDir(), "m1")
	ctx := t.Context()
	x.real["spec/00000001.json"] = "1"
	x.set(t, seam.Setting{Step: "stale", StoreStale: true})
	read := func(prefix string) []string {
		keys, err := x.store.List(ctx, prefix)
		require.NoError(t, err)
		return keys
	}
	assert.Equal(t, []string{"spec/00000001.json"}, read("spec/"))

	x.real["spec/00000002.json"] = "2"
	require.NoError(t, x.store.Create(ctx, "spec/00000003.json", []byte("3")))
	assert.Equal(t, "3", x.real["spec/00000003.json"], "creates go through")
	assert.ErrorIs(t, x.store.Create(ctx, "spec/00000002.json", []byte("2")), store.ErrExists, "and tell the truth")
	assert.Equal(t, []string{"spec/00000001.json"}, read("spec/"))
	_, err := x.store.Get(ctx, "spec/00000002.json")
	assert.ErrorIs(t, err, store.ErrNotFound)
	value, err := x.store.Get(ctx, "spec/00000001.json")
	assert.Equal(t, "1", string(value))
	assert.NoError(t, err)
	assert.Len(t, x.events(EventFaultLanded), 1)

	x.set(t, seam.Setting{Step: "again", StoreStale: true})
	assert.Len(t, read("spec/"), 3, "another step has another past")
	x.set(t)
	x.real["spec/00000004.json"] = "4"
	assert.Len(t, read("spec/"), 4)
	assert.Len(t, x.events(EventFaultLanded), 2)
	x.set(t, seam.Setting{Step: "again", StoreStale: true})
	assert.Len(t, read("spec/"), 4, "so has the same step, when it comes again")
}
