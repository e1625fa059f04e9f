// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sched

import (
	"context"
	"os"
	"sync"
	"time"
)

// between two syncs: a stall of the disk that begins after one is seen that much too late.
const between = Beat / 5

// Disk is the account of a disk that a host shares with others. etcd acknowledges no write
// before a sync has ended, so a disk that keeps syncs waiting keeps a ring waiting, and the
// account of processors says nothing of it. The zero value is ready.
type Disk struct {
	mu      sync.Mutex
	syncing bool
	since   time.Time
	most    time.Duration // that one has waited, since Lost was asked last
}

// Keep syncs a file of the directory now and then, until ctx ends.
func (d *Disk) Keep(ctx context.Context, dir string) error {
	file, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil { // nothing is left of it, however this process ends
		return err
	}
	return d.keep(ctx, func() error {
		if _, err := file.WriteAt([]byte{0}, 0); err != nil {
			return err
		}
		return file.Sync()
	})
}

func (d *Disk) keep(ctx context.Context, sync func() error) error {
	for {
		d.mark(true)
		err := sync()
		d.mark(false)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(between):
		}
	}
}

func (d *Disk) mark(syncing bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.account()
	d.syncing = syncing
}

// account counts what was waited until now. Its d is locked.
func (d *Disk) account() {
	now := time.Now()
	if d.syncing {
		d.most = max(d.most, now.Sub(d.since))
	}
	d.since = now
}

// Lost is how long since it was asked last the one sync has waited that waited longest: what
// each takes on a slow disk, however many there are, is nobody's stall.
func (d *Disk) Lost() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.account()
	lost := d.most
	d.most = 0
	return lost
}
