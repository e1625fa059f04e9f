// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ringproof/ringproof/faults"
)

// rotate cuts the power of the targets, moves what is on each disk on to that of the
// next of them, and gives them power again.
func (w *World) rotate(ctx context.Context, step string, targets []string) (string, error) {
	var nodes []*node
	for _, name := range targets {
		if n := w.node(name); n != nil && !n.lost {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) < 2 {
		return "", errors.New("swapping disks takes two machines that are there")
	}
	from := map[*node]*node{}
	for i, n := range nodes {
		from[n] = nodes[(i+len(nodes)-1)%len(nodes)]
	}
	w.mark(nil, func() { w.swaps[step] = true })
	return "each disk went to the next of " + strings.Join(targets, " "), w.exchange(ctx, from)
}

// putBack ends a swap. Swaps that overlap end together: only then it is known which
// disk belongs where.
func (w *World) putBack(ctx context.Context, step string) error {
	over := false
	w.mark(nil, func() { delete(w.swaps, step); over = len(w.swaps) == 0 })
	if !over {
		return nil
	}
	in := map[string]string{}
	for _, n := range w.present() {
		if n.owner() != n {
			in[n.name] = n.owner().name
		}
	}
	from := map[*node]*node{}
	for machine, at := range faults.PutBack(in) { // order: each by itself
		if machine != at {
			from[w.node(machine)] = w.node(at)
		}
	}
	return w.exchange(ctx, from)
}

// exchange has each of the machines go on with the disk of another, while all are off.
func (w *World) exchange(ctx context.Context, from map[*node]*node) error {
	nodes := slices.DeleteFunc(w.present(), func(n *node) bool { return from[n] == nil })
	var err error
	for _, n := range nodes {
		w.mark(n, func() { n.swap = true })
		defer w.mark(n, func() { n.swap = false })
		if _, off := n.machine.PowerOff(); n.machine.On() {
			err = errors.Join(err, off)
		}
	}
	if err == nil {
		err = w.carry(nodes, from)
	}
	if err == nil {
		w.mark(nil, func() { handOver(nodes, from) })
	}
	for _, n := range nodes { // whatever went wrong: who was cut off comes back
		if !n.machine.On() {
			err = errors.Join(err, w.powerOn(ctx, n, 0))
		}
	}
	return err
}

// carry copies what is on the disks: each machine keeps its device.
func (w *World) carry(nodes []*node, from map[*node]*node) error {
	carried := func(n *node) string { return filepath.Join(w.dir, n.name+"-carried") }
	for _, n := range nodes {
		defer os.RemoveAll(carried(n))
		if err := copyTree(carried(n), n.machine.DataRoot()); err != nil {
			return fmt.Errorf("taking the disk out of %s: %w", n.name, err)
		}
	}
	for _, n := range nodes {
		if err := putTree(n.machine.DataRoot(), carried(from[n])); err != nil {
			return fmt.Errorf("putting the disk of %s into %s: %w", from[n].name, n.name, err)
		}
	}
	return nil
}

// handOver says whose disk is where, and counts it: one that comes back is the one that it
// was there.
func handOver(nodes []*node, from map[*node]*node) {
	homes := map[*node]*node{}
	for _, n := range nodes {
		homes[n] = from[n].owner()
		if n.numbers == nil {
			n.numbers = map[*node]int{}
		}
		n.numbers[n.owner()], n.had = n.disk, max(n.had, n.disk)
	}
	for _, n := range nodes {
		n.home, n.wal = homes[n], nil
		if n.disk = n.numbers[n.home]; n.disk == 0 {
			n.anotherDisk()
		}
	}
}

// owner is the machine whose disk is in this one.
func (n *node) owner() *node { return cmp.Or(n.home, n) }

// anotherDisk counts the disk as one that the machine has not had before.
func (n *node) anotherDisk() {
	n.had = max(n.had, n.disk) + 1
	n.disk, n.wal = n.had, nil
}
