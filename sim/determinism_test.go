// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
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
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/store"
	"github.com/ringproof/ringproof/scenarios"
	"github.com/ringproof/ringproof/sim"
)

// repeated are the scenarios that are run again: each kind of fault is in one.
var repeated = []string{
	"agent-crash-replace", "clock-skew-during-replace", "disk-full-follower", "disk-swap", "machine-lost-at-3", "majority-disks-lost",
	"lead-suspended-in-a-change", "partition-during-grow", "paused", "reply-loss-during-grow", "rolling-restart", "skipped-view-grow", "slow-network-during-grow", "stale-view-replace",
	"store-outage-during-replace", "store-stale-during-grow", "certificates-expire", "filesystem-mounted-late", "log-copied", "start-fails",
	"dry-run", "duplicate-machine", "keys-damaged", "wrong-ring", "ring-of-one", "removed-by-hand", "alarm-by-hand", "slow-disk", "pair-cut", "name-late", "packets-lost-replace", "store-put-back",
}

// outcome is a run as far as another can be compared with it.
type outcome struct {
	Trace   sim.Trace `json:"trace"`
	History string    `json:"history"` // the hash of all that was recorded
}

// shipped are the plans of the shipped scenarios, one of each, by name.
var shipped = sync.OnceValue(func() map[string]ringproof.Plan {
	all, err := scenarios.Shipped()
	if err != nil {
		panic(err)
	}
	plans := map[string]ringproof.Plan{}
	for _, s := range all {
		plan, found := s.Resolve(s.Cells(1)[0], subject.Reference, scenarios.Anywhere("sim"))
		if found.Failed() {
			panic(found)
		}
		if found.Inapplicable() == "" && sim.Runs(plan) == nil {
			plans[s.Name] = plan
		}
	}
	return plans
})

func outcomeOf(t *testing.T, plan ringproof.Plan) outcome {
	t.Helper()
	return hashed(t)(run(t, plan, sim.New(plan.Seed, &subject.Simulated[*sim.World, *sim.Machine]{})))
}

// run carries out the plan in its world.
func run(t *testing.T, plan ringproof.Plan, w *sim.World) (ringproof.History, sim.Trace, error) {
	t.Helper()
	h, err := harness.Run(t.Context(), plan, w, harness.Options{})
	h.Measures = w.Measures()
	return h, w.Trace, err
}

func hashed(t *testing.T) func(ringproof.History, sim.Trace, error) outcome {
	return func(h ringproof.History, trace sim.Trace, err error) outcome {
		t.Helper()
		require.NoError(t, err)
		sum := sha256.New()
		require.NoError(t, h.Write(sum))
		return outcome{trace, hex.EncodeToString(sum.Sum(nil))}
	}
}

// TestShortcutsChangeNothing: what a world leaves out for speed can't be told from
// its trace or its history. Only the questions that it spares are events.
func TestShortcutsChangeNothing(t *testing.T) {
	for _, name := range repeated {
		t.Run(name, func(t *testing.T) {
			plan := shipped()[name]
			alone := hashed(t)(run(t, plan, sim.OpenAlone(plan.Seed, &subject.Simulated[*sim.World, *sim.Machine]{})))
			assert.Equal(t, outcomeOf(t, plan), alone)
		})
	}
}

// TestExact: nor does a world that asks all that there is to ask come to another end.
func TestExact(t *testing.T) {
	for _, name := range repeated {
		t.Run(name, func(t *testing.T) {
			plan := shipped()[name]
			h, _, err := run(t, plan, sim.Open(plan.Seed, &subject.Simulated[*sim.World, *sim.Machine]{}, sim.Options{Exact: true}))
			require.NoError(t, err)
			for _, f := range checks.Judge(&h) {
				assert.NotEqual(t, ringproof.Fail, f.Verdict, "%s", f)
			}
		})
	}
}

func outcomes(t *testing.T, names []string) map[string]outcome {
	t.Helper()
	all := map[string]outcome{}
	for _, name := range names {
		all[name] = outcomeOf(t, shipped()[name])
	}
	return all
}

// writeOutcomes has the test binary write what its runs came to, in a process of
// its own, into the file that it names.
const writeOutcomes = "RINGPROOF_SIM_OUTCOMES"

// TestRunsRepeat: the same plan is the same run, event by event, in this process
// once more after all others, and in another process in another order, where
// maps are seeded and memory is laid out otherwise. Another seed is another run.
func TestRunsRepeat(t *testing.T) {
	backwards := slices.Clone(repeated)
	slices.Reverse(backwards)
	if file := os.Getenv(writeOutcomes); file != "" {
		text, err := json.Marshal(outcomes(t, backwards))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, text, 0o600))
		return
	}
	elsewhere := inAnotherProcess(t)
	first, again := outcomes(t, repeated), outcomes(t, repeated)
	for name, others := range map[string]func() map[string]outcome{
		"this process": func() map[string]outcome { return again }, "another process": elsewhere,
	} {
		other := others()
		for _, scenario := range repeated {
			a, b := first[scenario], other[scenario]
			from, to, parted := a.Trace.Parted(&b.Trace)
			assert.False(t, parted, "%s in %s differs in the events from %d up to %d", scenario, name, from, to)
			assert.Equal(t, a, b, "%s in %s", scenario, name)
		}
	}
	plan := shipped()["paused"]
	plan.Seed++
	assert.NotEqual(t, first["paused"].Trace.Hash, outcomeOf(t, plan).Trace.Hash)
}

// inAnotherProcess starts it, and returns how to wait for it.
func inAnotherProcess(t *testing.T) (wait func() map[string]outcome) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "outcomes.json")
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestRunsRepeat$")
	cmd.Env = append(os.Environ(), writeOutcomes+"="+file)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	return func() (all map[string]outcome) {
		require.NoError(t, cmd.Wait(), "%s", &said)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &all))
		return all
	}
}

// fickle is a subject whose agents count the milliseconds, and in which one of
// them does once what is not the same in every run.
type fickle struct {
	plant func(ctx context.Context, f *fickle, m *sim.Machine)
	world *sim.World
	at    ringproof.Instant // of what was planted
	drew  string            // by chance: where two differ in it, they part at once
}

var _ sim.Subject = (*fickle)(nil)

func (f *fickle) Seed(ctx context.Context, _ ringproof.Plan, w *sim.World) error {
	f.world = w
	return store.Init(ctx, w.Store(nil))
}

func (f *fickle) Agent(m *sim.Machine) func(context.Context) error {
	return func(ctx context.Context) error {
		for turn := 0; ; turn++ {
			if turn == 2500 && m.Name() == "m2" {
				f.at = f.world.Now()
				f.plant(ctx, f, m)
			}
			if err := m.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}
}

func (*fickle) Inject(ringproof.Seams, string) error { return nil }

func (*fickle) Ask(context.Context, ringproof.Op, []string) (string, error) {
	return "", ringproof.ErrRefused
}
func (*fickle) Hear(host.Line) (ringproof.Event, bool)           { return ringproof.Event{}, false }
func (*fickle) Credentials(context.Context) (*tls.Config, error) { return nil, nil }

type unheard struct{}

func (unheard) Record(ringproof.Event) {}

// watched runs the subject for five seconds, and returns every line of the trace.
func (f *fickle) watched(t *testing.T) (lines []string, trace sim.Trace) {
	t.Helper()
	w := sim.New(1, f)
	w.Trace.OnLine, w.Trace.To = func(line string) { lines = append(lines, line) }, math.MaxInt
	plan := ringproof.Plan{Ring: ringproof.RingSpec{Machines: 3}}
	require.NoError(t, w.Drive(t.Context(), func(ctx context.Context) {
		assert.NoError(t, w.Start(ctx, plan, unheard{}))
		assert.NoError(t, w.Sleep(ctx, 5*time.Second))
		assert.NoError(t, w.Close())
	}))
	return lines, w.Trace
}

// TestWhatIsNotRepeatedIsFound: of two runs that differ by a clock that was read,
// or by a map that was walked, the first event of which that is true is in the
// window that Parted names, and the trace's first line that differs tells of it.
func TestWhatIsNotRepeatedIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(ctx context.Context, f *fickle, m *sim.Machine)
		tells string
	}{
		"a clock": {func(ctx context.Context, f *fickle, m *sim.Machine) {
			d := time.Duration(time.Now().Nanosecond()%1e6 + 1)
			f.drew = d.String()
			_ = m.Sleep(ctx, d)
		}, " sleep process "},
		"a map": {func(ctx context.Context, f *fickle, m *sim.Machine) {
			keys := map[string]bool{}
			for i := range 20 {
				keys[fmt.Sprintf("planted/%d", i)] = true
			}
			for key := range keys { // order: none, and that is the bug
				if f.drew == "" {
					f.drew = key // two walks that begin alike part only later
				}
				_ = f.world.Store(m).Create(ctx, key, nil)
			}
		}, "create planted/"},
	} {
		a, b := &fickle{plant: c.plant}, &fickle{plant: c.plant}
		x, one := a.watched(t)
		y, other := b.watched(t)
		for range 100 {
			if a.drew != b.drew {
				break
			}
			b = &fickle{plant: c.plant}
			y, other = b.watched(t)
		}
		require.NotEqual(t, a.drew, b.drew, name)
		first := 0
		for x[first] == y[first] {
			first++
		}
		assert.Contains(t, x[first], c.tells, name)
		assert.Contains(t, y[first], c.tells, name)
		number, at := event(t, x[:first+1])
		from, to, parted := one.Parted(&other)
		require.True(t, parted, name)
		assert.LessOrEqual(t, from, number, name)
		assert.Less(t, number, to, name)
		assert.Less(t, to-from, 1025, name)
		assert.GreaterOrEqual(t, at, time.Duration(a.at), name)
		assert.Less(t, at, time.Duration(a.at)+50*time.Millisecond, name)
	}
}

// event is the last one of the lines: its number and time.
func event(t *testing.T, lines []string) (n int, at time.Duration) {
	t.Helper()
	for _, line := range slices.Backward(lines) {
		if !strings.HasPrefix(line, " ") {
			var when string
			_, err := fmt.Sscan(line, &n, &when)
			require.NoError(t, err)
			at, err = time.ParseDuration(when)
			require.NoError(t, err, line)
			return n, at
		}
	}
	return 0, 0
}

// TestEveryFaultIsRepeated holds the list to the faults that shipped scenarios inject.
func TestEveryFaultIsRepeated(t *testing.T) {
	done := func(names []string) []ringproof.FaultKind {
		kinds := map[ringproof.FaultKind]bool{}
		for _, name := range names {
			for _, step := range shipped()[name].Steps {
				if step.Fault != nil {
					kinds[step.Fault.Kind] = true
				}
			}
		}
		return slices.Sorted(maps.Keys(kinds))
	}
	assert.Equal(t, done(slices.Collect(maps.Keys(shipped()))), done(repeated))
}
