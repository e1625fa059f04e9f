// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"context"
	"errors"
	"time"
)

// ErrRefused marks a request that etcd surely didn't apply.
var ErrRefused = errors.New("refused")

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

// World is where a plan happens.
type World interface {
	Tasks
	Name() string
	// Supports returns nil, or why this world can't do the step.
	Supports(Step) error
	// Start brings up the machines and the subject on them, which makes the
	// ring. The world tells the recorder what it and the subject do.
	Start(context.Context, Plan, Recorder) error
	// Do carries out an operation, or applies a fault to the targets (machine
	// names), and returns the evidence that it landed.
	Do(ctx context.Context, step Step, targets []string) (evidence string, err error)
	// Heal takes the step's fault away from the targets.
	Heal(ctx context.Context, step Step, targets []string) error
	Observe(context.Context) (Observation, error)
	// Client opens client i, which prefers machine i (modulo the machines).
	Client(ctx context.Context, i int) (Client, error)
	// Evidence reads disks and members once, when the run is over.
	Evidence(context.Context) (Evidence, error)
	Tools() Tools
	Close() error
}

// Recorder takes events; it stamps their sequence and, if zero, their time.
type Recorder interface{ Record(Event) }
