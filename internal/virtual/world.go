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
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/lockstep"
	"github.com/ringproof/ringproof/internal/trial"
)

// Trial is what the seat is told, in JSON on its standard input.
type Trial struct {
	Plan     ringproof.Plan             `json:"plan"`
	Releases map[string]etcdbin.Release `json:"releases"` // by version: at least those of the plan
	Ringadm  string                     `json:"ringadm"`
	Dir      string                     `json:"dir"` // where the machines are made

	Journal    bool   `json:"journal,omitempty"`    // the subject is to keep one
	Kubernetes string `json:"kubernetes,omitempty"` // the control plane's programs, in one; "": machines are no nodes
	Program    string `json:"program,omitempty"`    // somebody's, that was built of its main package; "": none is on trial

	shipped  trial.Shipped  // who has images of its own; nil: the subject hasn't
	proxying trial.Proxying // who stands before the API server; nil: nobody does
}

// Said is a line of what the seat says: an event, a log, an error, or that the history
// follows, which is the rest.
type Said struct {
	Event   *ringproof.Event `json:"event,omitempty"`
	Log     string           `json:"log,omitempty"` // its name
	Text    []byte           `json:"text,omitempty"`
	Error   string           `json:"error,omitempty"`
	Journal json.RawMessage  `json:"journal,omitempty"`
	History bool             `json:"history,omitempty"`
}

// World is a plan that is carried out in virtual time. All that a world does it does in
// other processes, so nothing can be asked of it but to carry the plan out.
type World struct {
	ringproof.World // none
	Kit             Kit
	Releases        map[string]etcdbin.Release
	Program         string   // somebody's, that was built of its main package; "": none is on trial
	Seat            []string // the arguments by which this program is the seat
	Trace           func(line string)

	journal *json.RawMessage // where the subject's is put; nil: it keeps none

	mu   sync.Mutex
	logs map[string][]byte
}

// Record has the subject keep a journal, and puts it there in JSON, as it tells it.
func (w *World) Record(into *json.RawMessage) { w.journal = into }

// Name returns virtual.
func (*World) Name() string { return "virtual" }

// Logs are what the world's processes logged, by the names of their files, once it is over.
func (w *World) Logs() map[string][]byte { return w.logs }

// CarryOut runs the plan. The history's trace is the hash of all that happened.
func (w *World) CarryOut(ctx context.Context, plan ringproof.Plan, told func(ringproof.Event)) (h ringproof.History, err error) {
	in, out, err := os.Pipe()
	if err != nil {
		return h, err
	}
	defer in.Close()
	heard := make(chan error, 1)
	go func() {
		var err error
		h, err = w.hear(in, told)
		_, _ = io.Copy(io.Discard, in) // what is said after it must not keep the seat waiting
		heard <- err
	}()
	began := time.Now()
	outcome, err := w.live(ctx, plan, out)
	out.Close()
	said := <-heard
	if err != nil {
		return h, fmt.Errorf("in virtual time: %w", err)
	}
	if said != nil {
		return h, said
	}
	h.Trace, h.Tools.Virtual = fmt.Sprintf("%016x", outcome.Hash), true
	if h.Measures == nil {
		h.Measures = map[string]float64{}
	}
	h.Measures["virtualSeconds"], h.Measures["frames"], h.Measures["grants"] = outcome.Virtual.Seconds(), float64(outcome.Frames), float64(outcome.Grants)
	h.Measures["virtualPerSecond"] = outcome.Virtual.Seconds() / time.Since(began).Seconds()
	return h, nil
}

// hear reads what the seat says.
func (w *World) hear(in io.Reader, told func(ringproof.Event)) (h ringproof.History, err error) {
	d := json.NewDecoder(in)
	for {
		var s Said
		err := d.Decode(&s)
		switch {
		case errors.Is(err, io.EOF):
			return h, errors.New("the run ended before it was over; its seat said no word")
		case err != nil:
			return h, fmt.Errorf("reading what the seat says: %w", err)
		case s.Error != "":
			return h, errors.New(s.Error)
		case s.Event != nil && told != nil:
			told(*s.Event)
		case s.Journal != nil:
			*w.journal = s.Journal
		case s.Log != "":
			w.keep(s)
		case s.History:
			return ringproof.ReadHistory(io.MultiReader(d.Buffered(), in))
		}
	}
}

// keep keeps a log.
func (w *World) keep(s Said) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logs == nil {
		w.logs = map[string][]byte{}
	}
	w.logs[s.Log] = s.Text
}

// live lets the world live, in a thread of its own: in a sandbox that thread and all below
// it see a filesystem in memory, which is at the same place in each world.
func (w *World) live(ctx context.Context, plan ringproof.Plan, out *os.File) (o lockstep.Outcome, err error) {
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
		if o, err = w.sit(ctx, plan, out, dir); err != nil {
			for name, text := range local.LogsBelow(filepath.Join(dir, "world", "shared")) { // order: into a map
				w.keep(Said{Log: name, Text: text})
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

// kubernetes is the control plane that the plan's ring needs.
func (w *World) kubernetes(p ringproof.Plan) string {
	if p.Ring.On == ringproof.OnKubernetes {
		return w.Kit.Kubernetes
	}
	return ""
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

func (w *World) sit(ctx context.Context, plan ringproof.Plan, out *os.File, dir string) (lockstep.Outcome, error) {
	job, err := json.Marshal(Trial{Plan: plan, Releases: w.Releases, Ringadm: w.Kit.Ringadm, Dir: filepath.Join(dir, "world"), Journal: w.journal != nil, Kubernetes: w.kubernetes(plan), Program: w.Program})
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
	program := lockstep.Program{Path: w.Kit.Self, Args: append([]string{w.Kit.Self}, w.Seat...), Env: environment(), Host: seat, Files: []*os.File{in, out, complaint}}
	o, err := lockstep.Run(ctx, lockstep.Options{Seed: plan.Seed, Dir: filepath.Join(dir, "lockstep"), Trace: w.Trace}, program)
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

// Sit makes the world inside: in the seat, where the subject is known.
func (t Trial) Sit(subject trial.Subject, version string) *local.World {
	w := &local.World{Releases: t.Releases, Subject: subject, Version: version, As: "virtual", Virtual: true, Labs: newLab(t.Dir)}
	t.shipped, _ = subject.(trial.Shipped)
	if slices.ContainsFunc(t.Plan.Steps, faults.AtSeam) {
		t.proxying, _ = subject.(trial.Proxying)
	}
	if t.Kubernetes != "" {
		w.Labs = newCluster(t)
	}
	return w
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
