// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	_ "github.com/ringproof/ringproof/internal/needs" // the seed, in CI
)

// simulate runs f as the only task of an engine, and returns its trace.
func simulate(t require.TestingT, seed uint64, f func(*engine)) Trace {
	e := newEngine(seed)
	defer e.possess()()
	over := false
	e.spawn(nil, "test", func() { defer func() { over = true }(); f(e) })
	require.NoError(t, e.drive(context.Background(), func() bool { return over }))
	return e.trace
}

// TestEventsInOrder: by time, then priority, then as they were made, also those
// that are made on the way. A heap that forgot the last would still pass most
// runs; what is near, in the wheel and beyond must be one at the edges. Of those
// that are stopped none comes.
func TestEventsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newEngine(1)
		type mark struct {
			at   time.Duration
			prio uint8
			n    int
			born int // how many events had been by then
		}
		times := rapid.SampledFrom([]time.Duration{0, 1, 2, 3, tick - 1, tick, tick + 1, 2 * tick, 3*tick + 1,
			(ticks-1)*tick - 1, (ticks - 1) * tick, ticks*tick - 1, ticks * tick, ticks*tick + 1, 2*ticks*tick + 1})
		var got []mark
		made := 0
		var add func(more int)
		add = func(more int) {
			d := times.Draw(t, "after")
			m := mark{time.Duration(e.now) + d, uint8(rapid.IntRange(0, 2).Draw(t, "priority")), made, len(got)}
			made++
			event := e.after(d, m.prio, kindTimer, nil, func() {
				got = append(got, m)
				for range more {
					add(0)
				}
			})
			if event.dead = rapid.IntRange(0, 9).Draw(t, "stopped") == 0; event.dead {
				made--
			}
		}
		for range rapid.IntRange(1, 100).Draw(t, "events") {
			add(rapid.IntRange(0, 2).Draw(t, "made on the way"))
		}
		for e.step() { // until nothing is left
		}
		require.Len(t, got, made)
		for i := 1; i < len(got); i++ {
			a, b := got[i-1], got[i]
			ordered := a.at < b.at || a.at == b.at && (a.prio < b.prio || a.prio == b.prio && a.n < b.n)
			late := a.at == b.at && b.born >= i // a made it, or what came after a
			require.True(t, ordered || late, "%v before %v", a, b)
		}
	})
}

// TestFarAndNearMeet: what lay beyond the wheel comes before what was hung up
// later for the same instant.
func TestFarAndNearMeet(t *testing.T) {
	e := newEngine(1)
	var got []string
	tell := func(what string) func() { return func() { got = append(got, what) } }
	e.after(ticks*tick, prioTimer, kindTimer, nil, tell("far"))
	e.after(0, prioTimer, kindTimer, nil, func() { e.after(ticks*tick, prioTimer, kindTimer, nil, tell("hung up")) })
	for e.step() { // until nothing is left
	}
	require.Equal(t, []string{"far", "hung up"}, got)
}

func TestSleepTakesNoTime(t *testing.T) {
	trace := simulate(t, 1, func(e *engine) {
		require.NoError(t, e.sleep(context.Background(), 1000*time.Hour))
		assert.Equal(t, ringproof.Instant(1000*time.Hour), e.now)
	})
	assert.Equal(t, 2, trace.Events, "the beginning and the waking")
}

func TestTimeouts(t *testing.T) {
	simulate(t, 1, func(e *engine) {
		ctx, cancel := e.timeout(context.Background(), time.Second)
		defer cancel()
		child, stop := context.WithCancel(ctx)
		defer stop()
		require.ErrorIs(t, e.sleep(child, time.Minute), context.DeadlineExceeded, "a context made of one with a deadline")
		assert.Equal(t, ringproof.Instant(time.Second), e.now)
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		early, cancel := e.timeout(context.Background(), time.Second)
		cancel()
		require.ErrorIs(t, early.Err(), context.Canceled)
		require.ErrorIs(t, e.sleep(early, time.Minute), context.Canceled)
		assert.Equal(t, ringproof.Instant(time.Second), e.now, "nobody sleeps under a context that has ended")
	})
}

// TestATimeoutIsAContext: whoever asks, whenever, and through whatever was made
// of it, hears of the same end.
func TestATimeoutIsAContext(t *testing.T) {
	type key struct{}
	type asking string
	simulate(t, 1, func(e *engine) {
		ends := map[string]struct {
			end  func(outer, stop context.CancelFunc)
			want error
		}{
			"it is stopped":      {func(_, stop context.CancelFunc) { stop() }, context.Canceled},
			"its parent ends":    {func(outer, _ context.CancelFunc) { outer() }, context.Canceled},
			"its time is over":   {func(context.CancelFunc, context.CancelFunc) { _ = e.sleep(context.Background(), time.Minute) }, context.DeadlineExceeded},
			"the first end says": {func(outer, stop context.CancelFunc) { _ = e.sleep(context.Background(), time.Minute); outer(); stop() }, context.DeadlineExceeded},
		}
		for name, c := range ends {
			for _, asked := range []string{"before", "after"} {
				parent, outer := context.WithCancel(context.WithValue(context.Background(), key{}, "v"))
				ctx, stop := e.timeout(parent, time.Second)
				var child context.Context
				if asked == "before" {
					child = context.WithValue(ctx, asking(asked), asked)
					assert.NotNil(t, ctx.Done())
				}
				require.NoError(t, ctx.Err())
				c.end(outer, stop)
				if asked == "after" {
					child = context.WithValue(ctx, asking(asked), asked)
				}
				for _, x := range []context.Context{ctx, child} {
					assert.ErrorIs(t, x.Err(), c.want, "%s, asked %s", name, asked)
					assert.ErrorIs(t, context.Cause(x), c.want, "%s, asked %s", name, asked)
					assert.Equal(t, "v", x.Value(key{}))
					select {
					case <-x.Done():
					default:
						t.Errorf("%s, asked %s: its channel is open", name, asked)
					}
				}
				outer()
				stop()
			}
		}
	})
}

// TestACancelWakes: whoever waits under a context, or under one made of it in any
// way, is woken at the instant when another task ends it, and nobody else is.
func TestACancelWakes(t *testing.T) {
	child := func(c context.Context) context.Context {
		c, stop := context.WithCancel(c)
		t.Cleanup(stop)
		return c
	}
	type key struct{}
	made := map[string]func(*engine, context.Context) context.Context{
		"itself":                     func(_ *engine, c context.Context) context.Context { return c },
		"a child":                    func(_ *engine, c context.Context) context.Context { return child(c) },
		"a deadline":                 func(e *engine, c context.Context) context.Context { return limit(e, c) },
		"a deadline's child":         func(e *engine, c context.Context) context.Context { return child(limit(e, c)) },
		"a deadline of its deadline": func(e *engine, c context.Context) context.Context { return limit(e, limit(e, c)) },
		"a value":                    func(e *engine, c context.Context) context.Context { return context.WithValue(limit(e, c), key{}, "v") },
	}
	for name, make := range made {
		for _, stopped := range []bool{false, true} {
			simulate(t, 1, func(e *engine) {
				root, end := context.WithCancel(context.Background())
				if stopped {
					root, end = e.timeout(context.Background(), time.Hour)
				}
				before, other := child(context.Background()), child(context.Background())
				woken := map[string]ringproof.Instant{}
				sleep := func(name string, ctx context.Context) {
					e.spawn(nil, name, func() {
						assert.NoError(t, e.sleep(before, time.Second), "it waits under another first")
						if e.sleep(ctx, time.Minute) != nil {
							woken[name] = e.now
						}
					})
				}
				under := make(e, root)
				sleep("sleeper", under)
				sleep("bystander", make(e, other))
				e.spawn(nil, "guest", func() { assert.NoError(t, e.sleep(under, 2*time.Second), "it leaves before the end") })
				require.NoError(t, e.sleep(context.Background(), 3*time.Second))
				end()
				require.NoError(t, e.sleep(context.Background(), time.Nanosecond))
				assert.Equal(t, map[string]ringproof.Instant{"sleeper": ringproof.Instant(3 * time.Second)}, woken, "under %s, a deadline is stopped: %v", name, stopped)
			})
		}
	}
}

func limit(e *engine, c context.Context) context.Context {
	c, _ = e.timeout(c, time.Hour)
	return c
}

// TestKilledAtAnyYield: a killed process goes no further, and what it deferred
// finds the seams closed, also when it recovers.
func TestKilledAtAnyYield(t *testing.T) {
	for kill := range 5 {
		simulate(t, 1, func(e *engine) {
			p := &process{name: "victim", number: 1, engine: e}
			var reached []string
			touch := func(name string) {
				_ = e.sleep(context.Background(), time.Second)
				reached = append(reached, name)
			}
			e.spawn(p, "victim", func() {
				defer touch("deferred")
				defer func() { _ = recover(); touch("recovered") }()
				for i := range 10 {
					touch(fmt.Sprint(i))
				}
			})
			require.NoError(t, e.sleep(context.Background(), time.Duration(kill)*time.Second+time.Millisecond))
			p.end()
			require.NoError(t, e.sleep(context.Background(), time.Minute))
			assert.Len(t, reached, kill, "%v", reached)
			assert.NotContains(t, strings.Join(reached, " "), "e", "deferred or recovered code reached the world")
		})
	}
}

// TestAPausedProcessMissesNothing: what comes meanwhile comes when it goes on.
func TestAPausedProcessMissesNothing(t *testing.T) {
	simulate(t, 1, func(e *engine) {
		p := &process{name: "slow", number: 1, engine: e}
		var heard []int
		for i := range 3 {
			e.after(time.Duration(i+1)*time.Second, prioArrival, kindPacket, p, func() { heard = append(heard, i) })
		}
		p.paused = true
		require.NoError(t, e.sleep(context.Background(), 10*time.Second))
		require.Empty(t, heard)
		p.proceed()
		require.NoError(t, e.sleep(context.Background(), time.Nanosecond))
		assert.Equal(t, []int{0, 1, 2}, heard)
	})
}

func TestAPanicOfTheHarnessEndsTheRun(t *testing.T) {
	e := newEngine(1)
	e.spawn(nil, "broken", func() { panic("oh") })
	err := e.drive(context.Background(), func() bool { return false })
	require.ErrorContains(t, err, `task "broken" panicked: oh`)
	require.ErrorContains(t, err, "TestAPanicOfTheHarness", "the stack says where")
}

func TestADeadlockIsTold(t *testing.T) {
	e := newEngine(1)
	e.spawn(nil, "waits", func() { _ = e.pause(e.begin(context.Background())) })
	require.ErrorContains(t, e.drive(context.Background(), func() bool { return false }), "nothing is left to happen")
	for _, task := range e.own {
		task.kill()
	}
}

// TestChanceIsKeyed: a stream's draws are its own, whatever others draw.
func TestChanceIsKeyed(t *testing.T) {
	alone, among := newEngine(7), newEngine(7)
	for range 100 {
		among.chance("other").draw()
		require.Equal(t, alone.chance("network").draw(), among.chance("network").draw())
	}
	assert.NotEqual(t, newEngine(8).chance("network").draw(), newEngine(7).chance("network").draw())
	assert.NotEqual(t, newEngine(7).chance("a").draw(), newEngine(7).chance("b").draw())
}

// TestEntropyIsPossessed: crypto/rand answers from the world, and is itself
// again afterwards.
func TestEntropyIsPossessed(t *testing.T) {
	read := func() (b [8]byte) { _, _ = rand.Reader.Read(b[:]); return b }
	var first, again [8]byte
	simulate(t, 3, func(*engine) { first = read() })
	simulate(t, 3, func(*engine) { again = read() })
	assert.Equal(t, first, again)
	assert.NotEqual(t, first, read())
}

// TestTracesPart: equal runs have equal traces, and two that differ in one
// event say where.
func TestTracesPart(t *testing.T) {
	run := func(odd int) Trace {
		return simulate(t, 1, func(e *engine) {
			for i := range 5000 {
				d := time.Millisecond
				if i == odd {
					d++
				}
				if err := e.sleep(context.Background(), d); err != nil {
					panic(errors.New("a sleep ended early"))
				}
			}
		})
	}
	a, b, c := run(-1), run(-1), run(3000)
	_, _, parted := a.Parted(&b)
	assert.False(t, parted)
	from, to, parted := a.Parted(&c)
	require.True(t, parted)
	assert.LessOrEqual(t, from, 3001+1)
	assert.GreaterOrEqual(t, to, 3001)
	assert.LessOrEqual(t, to-from, markEvery)
}

func BenchmarkEvents(b *testing.B) {
	e := newEngine(1)
	var again func()
	again = func() { e.after(time.Microsecond, prioTimer, kindTimer, nil, again) }
	for range 64 {
		again()
	}
	for b.Loop() {
		e.step()
	}
}

func BenchmarkSleep(b *testing.B) {
	e := newEngine(1)
	e.spawn(nil, "sleeper", func() {
		for {
			if e.sleep(context.Background(), time.Millisecond) != nil {
				return
			}
		}
	})
	for b.Loop() {
		e.step()
	}
	for _, t := range e.own {
		t.kill()
	}
}
