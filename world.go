// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrHost marks what this host can't do and another could: a cell that needs it is
// skipped here, where one that its world can't do anywhere is not applicable.
var ErrHost = errors.New("this host can't do it")

// ErrRefused marks a request that etcd surely didn't apply.
var ErrRefused = errors.New("refused")

// ErrConflict marks a request that another one came before: whoever asked looks
// at what there is now, and asks again.
var ErrConflict = errors.New("another request came first")

// Tasks is time and concurrency as the world has them. Code that runs in sim
// uses these and nothing else: no go statement, select, time.Now or
// context.WithTimeout.
type Tasks interface {
	Now() Instant
	// Sleep returns early with ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
	Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// Go runs f as a task of the world. A world isn't closed before its tasks
	// have returned; they return when ctx ends.
	Go(ctx context.Context, name string, f func(context.Context))
}

// World is where a plan happens. Its methods may be called from several tasks at once.
type World interface {
	Tasks
	// Name is what reports and plans call it: "sim", "local".
	Name() string
	// Supports returns nil, or why this world can't do the step.
	Supports(Step) error
	// Start brings up the machines and the subject on them, which makes the
	// ring. The world tells the recorder what it and the subject do.
	Start(context.Context, Plan, Recorder) error
	// Do carries out an operation, or applies a fault to the targets (machine
	// names), and returns the evidence that it landed. The error is a
	// [PartialError] if it landed on some of them.
	Do(ctx context.Context, step Step, targets []string) (evidence string, err error)
	// Heal takes the step's fault away from the targets.
	Heal(ctx context.Context, step Step, targets []string) error
	// Observe looks at the ring and its machines. It returns what could be seen, and
	// in it what couldn't; the error says that nothing could.
	Observe(context.Context) (Observation, error)
	// Client opens client i, which prefers machine i (modulo the machines).
	Client(ctx context.Context, i int) (Client, error)
	// Evidence reads disks and members once, when the run is over.
	Evidence(context.Context) (Evidence, error)
	// Tools are the programs and releases that it runs, for the history.
	Tools() Tools
	// Close ends all that runs in it. The error names what was left running, which
	// the check no-leftovers judges.
	Close() error
}

// Deleter is a world whose ring can be deleted for good.
type Deleter interface {
	// Delete asks for it, and waits for nothing.
	Delete(context.Context) error
	// Left names the objects of the ring's that are there still, as kubectl does.
	Left(context.Context) ([]string, error)
}

// Recorder takes events; it stamps their sequence and, if zero, their time.
type Recorder interface{ Record(Event) }

// PartialError says that a fault hit only some of its targets: on the others there
// was nothing to hit, as no etcd runs on a spare machine that is to be killed.
type PartialError struct {
	Hit []string // machine names
	Err error    // why it did not hit the others
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("only %s: %v", strings.Join(e.Hit, ", "), e.Err)
}

func (e *PartialError) Unwrap() error { return e.Err }

// Partial is the error of a fault on several targets. failures[i] says why targets[i] was
// not hit, nil that it was; both are of the same length. It returns nil if all were hit, a
// [PartialError] if some were, and else all failures, joined.
func Partial(targets []string, failures []error) error {
	err := errors.Join(failures...)
	var hit []string
	for i, target := range targets {
		if failures[i] == nil {
			hit = append(hit, target)
		}
	}
	if err == nil || len(hit) == 0 {
		return err
	}
	return &PartialError{hit, err}
}
