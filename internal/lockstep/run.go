// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package lockstep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"time"
)

// Options are the choices of a world. Dir is needed, all else has a default.
type Options struct {
	Seed     uint64
	Dir      string        // what the coordinator keeps of the machines; it is made, and removed in the end
	Latency  time.Duration // the least that a frame is under way; 500 µs
	Jitter   time.Duration // by up to as much more; 200 µs
	Sync     time.Duration // a quarter of it a disk takes to sync, and up to as much more; 1 ms
	Patience time.Duration // of a processor, for a process to become idle; 60 s
	Memory   int64         // bytes that a process may have of its own; 4 GiB
	Trace    func(line string)
}

// Program is the one that a world begins with, and ends with.
type Program struct {
	Path      string
	Args, Env []string
	Host      byte // the machine it runs on
	Files     []*os.File
}

// Outcome is what became of a world.
type Outcome struct {
	Status    int           // the exit code of its first program; -1: a signal ended it
	Virtual   time.Duration // how long it lived
	Hash      uint64        // over all frames, with their contents and times, and all starts and ends
	Frames    uint64
	Grants    uint64
	Processes uint64
}

// ErrStuck marks a world that couldn't go on: a process that doesn't become idle, or takes too
// much memory, or one in which nobody waits for anything any more. The error's text has what each goroutine waits for.
var ErrStuck = errors.New("the world is stuck")

// Run runs the program and whatever it starts in lockstep, until the program ends or ctx
// does. Nothing of it is left then. The error says that the world could not go on. Call it in
// a goroutine of its own: it keeps the thread, with which all processes would end.
func Run(ctx context.Context, o Options, first Program) (Outcome, error) {
	runtime.LockOSThread()
	w := newWorld(o)
	defer w.tidy()
	if err := os.MkdirAll(w.Dir, 0o700); err != nil {
		return Outcome{}, err
	}
	defer os.RemoveAll(w.Dir)
	seat := &process{host: first.Host, name: "seat"}
	w.first = seat
	forks.RLock()
	err := w.start(seat, order{Name: first.Path, Args: first.Args, Env: first.Env}, first.Files, epoch)
	forks.RUnlock()
	if err != nil {
		return Outcome{}, fmt.Errorf("starting %s in lockstep: %w", first.Path, err)
	}
	err = w.run(ctx)
	return w.outcome(), err
}

// epoch is when a bubble of Go begins: 2000-01-01 in nanoseconds.
const epoch = 946684800000000000

// world is the clock, the switchboard and the process table of a world.
type world struct {
	Options
	now       int64
	first     *process
	processes []*process // alive, in the order of their start
	lives     uint16
	network
	orders []frame // for the coordinator itself, in the order of their arrival

	failed    error
	status    int
	hash      uint64
	frames    uint64
	grants    uint64
	processed uint64
}

func newWorld(o Options) *world {
	for d, is := range map[*time.Duration]time.Duration{&o.Latency: 500 * time.Microsecond, &o.Jitter: 200 * time.Microsecond, &o.Sync: time.Millisecond, &o.Patience: time.Minute} { // order: each by itself
		if *d == 0 {
			*d = is
		}
	}
	o.Memory = cmp.Or(o.Memory, 4<<30)
	return &world{Options: o, now: epoch, network: newNetwork()}
}

func (w *world) outcome() Outcome {
	return Outcome{Status: w.status, Virtual: time.Duration(w.now - epoch), Hash: w.hash, Frames: w.frames, Grants: w.grants, Processes: w.processed}
}

// tidy ends what still runs.
func (w *world) tidy() {
	for _, p := range w.processes {
		p.reap()
	}
}

// run lets everybody go on, again and again, until the next thing that can reach them:
// whatever anybody does from then on arrives no sooner than the least latency.
func (w *world) run(ctx context.Context) error {
	for w.first.alive() && w.failed == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		next := w.next()
		if next == math.MaxInt64 {
			return w.stuck("nobody waits for anything", w.processes...)
		}
		until := next + int64(w.Latency) - 1
		for _, p := range w.turn() {
			if p.alive() && p.due() <= until {
				w.grant(p, until)
			}
		}
		w.now = until
		w.obey()
	}
	return w.failed
}

// turn are all processes, in the order in which they have something to do. What they share
// beside the network, which are files, they come to in this order: each runs as long as it
// may before the next does, so that one is ahead of another by less than the least latency.
func (w *world) turn() []*process {
	all := slices.Clone(w.processes)
	slices.SortStableFunc(all, func(a, b *process) int { return cmp.Compare(a.due(), b.due()) })
	return all
}

// next is when the next thing happens.
func (w *world) next() int64 {
	next := int64(math.MaxInt64)
	for _, p := range w.processes {
		next = min(next, p.due())
	}
	if len(w.orders) > 0 {
		next = min(next, w.orders[0].At)
	}
	return next
}

// stuck is the error of a world that can't go on, with what the processes wait for: asked
// to quit, each prints its goroutines.
func (w *world) stuck(why string, who ...*process) error {
	err := fmt.Errorf("%w: %s", ErrStuck, why)
	for _, p := range who {
		err = fmt.Errorf("%w\n%s on machine %d:\n%s", err, p.name, p.host, p.quit())
	}
	return err
}

// note puts into the hash what is no frame.
func (w *world) note(at int64, what string, p *process, number int) {
	w.hash = mix(w.hash, uint64(at), uint64(p.life), uint64(p.host), uint64(number), digest([]byte(what)))
	if w.Trace != nil {
		w.Trace(fmt.Sprintf("%d %s %s %d", at-epoch, what, p.name, number))
	}
}

// mix is a hash of numbers, after splitmix64.
func mix(numbers ...uint64) uint64 {
	z := uint64(0x9e3779b97f4a7c15)
	for _, n := range numbers {
		z ^= n
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
		z = (z ^ (z >> 27)) * 0x94d049bb133111eb
		z ^= z >> 31
	}
	return z
}
