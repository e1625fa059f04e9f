// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/store"
)

// point is where an agent may be cut: an effect, one call by which it changes
// something outside of itself; an action, a change as the agent tells of it; or
// an action that is one effect and no more. Forms of effects are in package
// faults.
type point struct {
	action  string
	effect  string
	refusal error // what the real thing says when it does nothing

	late func(context.Context) error // what is done where it is late; nil: the same

	hide func(time.Duration) // has the agent's cache not show what was done, for so long; nil: it can't
}

func (p point) String() string {
	if p.effect != "" {
		return p.effect
	}
	return p.action
}

// gatedProcess is the machine's etcd, whose every start and stop is a point.
type gatedProcess struct {
	host.Process
	injector *injector
}

func (g gatedProcess) Start(ctx context.Context, args []string) error {
	p := point{action: "launch", effect: "start", refusal: fmt.Errorf("starting etcd: %w", syscall.EAGAIN)}
	return g.injector.around(ctx, p, func(ctx context.Context) error { return g.Process.Start(ctx, args) })
}

func (g gatedProcess) Stop(ctx context.Context, grace time.Duration) error {
	p := point{effect: "stop", refusal: fmt.Errorf("stopping etcd: %w", syscall.EAGAIN)}
	return g.injector.around(ctx, p, func(ctx context.Context) error { return g.Process.Stop(ctx, grace) })
}

// gatedDisk is the machine's disk, whose every change is a point. A write is
// atomic, so there is nothing between before and after.
type gatedDisk struct {
	host.Disk
	injector *injector
}

func (g gatedDisk) Write(name string, content []byte) error {
	return g.injector.around(context.Background(), onDisk("write", name), func(context.Context) error { return g.Disk.Write(name, content) })
}

func (g gatedDisk) Remove(name string) error {
	p := onDisk("remove", name)
	if name == launcher.DataDir {
		p.action = "clear"
	}
	return g.injector.around(context.Background(), p, func(context.Context) error { return g.Disk.Remove(name) })
}

func (g gatedDisk) Rename(old, new string) error {
	p := onDisk("rename", old)
	if old == launcher.DataDir {
		p.action = "clear"
	}
	return g.injector.around(context.Background(), p, func(context.Context) error { return g.Disk.Rename(old, new) })
}

func onDisk(verb, name string) point {
	return point{effect: verb + " " + name, refusal: &fs.PathError{Op: verb, Path: name, Err: syscall.EIO}}
}

// gatedStore is the store, whose every creation is a point.
type gatedStore struct {
	store.Store
	injector *injector
}

func (g gatedStore) Create(ctx context.Context, key string, value []byte) error {
	p := point{effect: "create " + series(key), refusal: fmt.Errorf("%s: %w", key, errOutage)}
	if key == bootstrapKey {
		p.action = "bootstrap"
	}
	return g.injector.around(ctx, p, func(ctx context.Context) error { return g.Store.Create(ctx, key, value) })
}

// series is what a record is one of: machines for machines/m1/00000001.json. A
// key without folders counts without its digits.
func series(key string) string {
	first, _, folder := strings.Cut(key, "/")
	if folder {
		return first
	}
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, key)
}
