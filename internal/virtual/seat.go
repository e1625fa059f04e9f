// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/lockstep"
)

// Seat is the program from which a world is seen, built for virtual time: where it is told
// what to try.
type Seat struct {
	Path  string
	Args  []string // after its name
	Seed  uint64   // of the world
	Trace func(line string)
	Log   func(name string, text []byte) // hears what the world's processes logged, if it ended badly
}

// Live lets a world live, for as long as the program in its seat. That is given the trial on
// its standard input, with a directory that is at the same place in each world, and writes
// to out. In a sandbox the directory is a filesystem in memory, which nobody else sees.
func (s Seat) Live(ctx context.Context, t Trial, out *os.File) (o lockstep.Outcome, err error) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread() // and it ends with this goroutine
		defer settle()()
		var dir string
		if dir, err = ground(); err != nil {
			return
		}
		defer tidy(dir)
		t.Dir = filepath.Join(dir, "world")
		if o, err = s.sit(ctx, t, out, dir); err != nil && s.Log != nil {
			for name, text := range local.LogsBelow(filepath.Join(t.Dir, "shared")) { // order: into a map
				s.Log(name, text)
			}
		}
	}()
	<-over
	return o, err
}

// ground makes the directory of a world.
func ground() (string, error) {
	if !machines.Inside() {
		return os.MkdirTemp("", "ringproof-")
	}
	const dir = "/dev/shm/ringproof"
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return "", fmt.Errorf("making a place for a world: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("ringproof", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700"))
}

// tidy takes the directory of a world away. What is mounted below it goes with it, and
// is not looked into: programs of this host are among that. What the filesystem was
// mounted on stays: other worlds have theirs there, and would lose it.
func tidy(dir string) {
	if machines.Inside() {
		_ = unix.Unmount(dir, unix.MNT_DETACH) // or it goes with this thread
		return
	}
	_ = os.RemoveAll(dir)
}

func (s Seat) sit(ctx context.Context, t Trial, out *os.File, dir string) (lockstep.Outcome, error) {
	job, err := json.Marshal(t)
	if err != nil {
		return lockstep.Outcome{}, err
	}
	file := filepath.Join(dir, "trial.json")
	if err := os.WriteFile(file, job, 0o600); err != nil {
		return lockstep.Outcome{}, err
	}
	in, err := os.Open(file)
	if err != nil {
		return lockstep.Outcome{}, err
	}
	defer in.Close()
	complaint, err := os.Create(filepath.Join(dir, "seat.log"))
	if err != nil {
		return lockstep.Outcome{}, err
	}
	defer complaint.Close()
	program := lockstep.Program{Path: s.Path, Args: append([]string{s.Path}, s.Args...), Env: environment(), Host: seat, Files: []*os.File{in, out, complaint}}
	o, err := lockstep.Run(ctx, lockstep.Options{Seed: s.Seed, Dir: filepath.Join(dir, "lockstep"), Trace: s.Trace}, program)
	if text, _ := os.ReadFile(complaint.Name()); len(text) > 0 && (err != nil || o.Status != 0) {
		err = errors.Join(err, fmt.Errorf("its seat ended with %d: %s", o.Status, bytes.TrimSpace(text[max(0, len(text)-100<<10):])))
	}
	return o, err
}

// environment is what the processes of a world have of this one's: what a shell has beside
// must not change what comes of a plan.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TZ=UTC"}
}

// processors are those on which no world lives.
var processors = sync.OnceValue(func() chan int {
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil {
		return nil
	}
	free := make(chan int, all.Count())
	for cpu := 0; len(free) < cap(free); cpu++ {
		if all.IsSet(cpu) {
			free <- cpu
		}
	}
	return free
})

// settle has this thread, and all that it starts, live on one processor: of a world one
// process runs at a time, and each switch to another processor costs as much as what is
// done there. What it returns gives the processor back. Where all are taken nothing is done.
func settle() func() {
	select {
	case cpu := <-processors():
		var one unix.CPUSet
		one.Set(cpu)
		_ = unix.SchedSetaffinity(0, &one) // without it a world is slower
		return func() { processors() <- cpu }
	default:
		return func() {}
	}
}
