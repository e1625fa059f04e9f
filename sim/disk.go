// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/sim/etcd"
)

// Times of a disk, about those of a cloud volume.
const (
	quickSync = 500 * time.Microsecond
	slowSync  = 3 * time.Millisecond
)

// block is what files are counted in. Certificates vary by a byte or two from
// run to run, as keys can't be repeated; blocks don't.
const block = 4096

// disk is one data filesystem. It outlives the processes on it, and may be put
// into another machine.
type disk struct {
	capacity int64             // bytes; 0: no end
	files    map[string][]byte // written and synced
	filed    int64             // bytes that they take: each sync asks for room
	folders  map[string]bool   // made by hand, with nothing in them
	data     map[string]*etcd.Dir
	full     map[string]bool          // by the steps that filled it up
	slow     map[string]time.Duration // by the steps that made its syncs slow: how much longer each takes
	home     *Machine                 // where it belongs
	foreign  map[string]bool          // data that no etcd here has written, or opened
	numbers  map[*Machine]int
}

func newDisk(capacity int64) *disk {
	return &disk{capacity: capacity, files: map[string][]byte{}, folders: map[string]bool{}, data: map[string]*etcd.Dir{}, numbers: map[*Machine]int{}, foreign: map[string]bool{}, full: map[string]bool{}, slow: map[string]time.Duration{}}
}

// copied is the disk as it is now, as a snapshot of the volume has it. Its logs are
// nobody's memory any more.
func (d *disk) copied() *disk {
	c := newDisk(d.capacity)
	c.files, c.filed, c.folders = maps.Clone(d.files), d.filed, maps.Clone(d.folders)
	for _, name := range slices.Sorted(maps.Keys(d.data)) {
		c.data[name], c.foreign[name] = d.data[name].Copy(), true
	}
	return c
}

// insert puts the disk into the machine. One that comes back is the one that it
// was there.
func (m *Machine) insert(d *disk) {
	m.disk = d
	d.home = cmp.Or(d.home, m)
	if d.numbers[m] == 0 {
		m.renumber()
	}
}

// renumber counts the machine's disk as a new one: another was put in, or
// whoever cleared a member's data has taken its disk as surely.
func (m *Machine) renumber() {
	m.disks++
	m.disk.numbers[m] = m.disks
}

// used is how many bytes are taken.
func (d *disk) used() int64 {
	n := d.filed
	for _, data := range d.data { // order: a sum
		n += data.Size()
	}
	return n
}

// put writes a file whole.
func (d *disk) put(name string, content []byte) {
	d.filed += blocks(content) - blocks(d.files[name])
	d.files[name] = content
}

// remove takes the files away whose names are such.
func (d *disk) remove(such func(string) bool) {
	maps.DeleteFunc(d.files, func(name string, content []byte) bool {
		if such(name) {
			d.filed -= blocks(content)
		}
		return such(name)
	})
}

func blocks(content []byte) int64 { return (int64(len(content)) + block - 1) / block * block }

// room returns the error of a write of n more bytes.
func (d *disk) room(op, name string, n int64) error {
	if len(d.full) > 0 || d.capacity > 0 && d.used()+n > d.capacity {
		return &fs.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
	}
	return nil
}

// sync is how long an fsync takes.
func (d *disk) sync(chance *stream) time.Duration {
	takes := chance.between(quickSync, slowSync)
	for _, longer := range d.slow { // order: a sum
		takes += longer
	}
	return takes
}

// powerLoss takes from each log a part of what was not synced, and may tear
// the last record that is left.
func (d *disk) powerLoss(chance *stream) {
	for _, name := range slices.Sorted(maps.Keys(d.data)) {
		data := d.data[name]
		keep := chance.below(data.Unsynced() + 1)
		data.PowerLoss(keep, chance.below(2) == 0)
	}
}

// open returns the etcd data directory of that name.
func (d *disk) open(name string) (*etcd.Dir, error) {
	if err := d.room("mkdir", name, block); err != nil && d.data[name] == nil {
		return nil, err
	}
	if d.data[name] == nil {
		d.data[name] = etcd.NewDir()
	}
	if d.data[name].Unopened() == "" {
		delete(d.foreign, name)
	}
	return d.data[name], nil
}

// root is where every machine's data filesystem is mounted.
const root = "/var/lib/ring"

// mount is a machine's disk as its agent sees it: every call takes time, and
// the agent may die in it.
type mount struct{ machine *Machine }

var _ host.Disk = mount{}

func (m mount) Path(name string) string { return path.Join(root, name) }

// touch lets the time of one access pass.
func (m mount) touch(lo, hi time.Duration) *disk {
	e := m.machine.world.engine
	_ = e.sleep(context.Background(), m.machine.delays.between(lo, hi))
	return m.machine.disk
}

func (m mount) Read(name string) ([]byte, error) {
	m.machine.world.engine.alive()
	content, ok := m.machine.disk.files[path.Clean(name)]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: m.Path(name), Err: fs.ErrNotExist}
	}
	return slices.Clone(content), nil
}

// Write replaces the file. An agent that is killed meanwhile leaves the old
// content or the new.
func (m mount) Write(name string, content []byte) error {
	m.machine.world.engine.trace.note("write " + name)
	d := m.touch(quickSync/2, slowSync/2)
	name = path.Clean(name)
	if err := d.room("write", m.Path(name), max(0, int64(len(content)-len(d.files[name])))); err != nil {
		return err
	}
	d.put(name, slices.Clone(content))
	m.touch(quickSync/2, slowSync/2)
	return nil
}

// Remove takes a tree away. An agent that is killed meanwhile leaves a part.
func (m mount) Remove(name string) error {
	m.machine.world.engine.trace.note("remove " + name)
	d := m.touch(quickSync/2, quickSync)
	name = path.Clean(name)
	if data := d.data[name]; data != nil {
		_, log, found := m.machine.readLog()
		data.Damage()
		d = m.touch(quickSync/2, quickSync)
		foreign := d.foreign[name]
		delete(d.data, name)
		delete(d.foreign, name)
		if found && !foreign {
			m.machine.world.cleared = append(m.machine.world.cleared, log)
			m.machine.renumber()
		}
	}
	inside := func(other string) bool { return other == name || strings.HasPrefix(other, name+"/") }
	d.remove(inside)
	maps.DeleteFunc(d.folders, func(other string, _ bool) bool { return inside(other) })
	return nil
}

// Rename moves files, and etcd's data; those are none of the running member's any
// more.
func (m mount) Rename(old, name string) error {
	m.machine.world.engine.trace.note("rename " + old + " " + name)
	d := m.touch(quickSync/2, quickSync)
	old, name = path.Clean(old), path.Clean(name)
	if there, _ := m.Exists(name); there {
		return &fs.PathError{Op: "rename", Path: m.Path(name), Err: fs.ErrExist}
	}
	if there, _ := m.Exists(old); !there {
		return &fs.PathError{Op: "rename", Path: m.Path(old), Err: fs.ErrNotExist}
	}
	if data := d.data[old]; data != nil {
		_, log, found := m.machine.readLog()
		delete(d.data, old)
		d.data[name], d.foreign[name] = data, true
		delete(d.foreign, old)
		if found {
			m.machine.world.cleared = append(m.machine.world.cleared, log)
			m.machine.renumber()
		}
	}
	moved := func(other string) (string, bool) {
		rest, in := strings.CutPrefix(other, old)
		return name + rest, in && (rest == "" || rest[0] == '/')
	}
	for _, other := range slices.Sorted(maps.Keys(d.files)) {
		if to, in := moved(other); in {
			d.files[to] = d.files[other]
			delete(d.files, other)
		}
	}
	for _, other := range slices.Sorted(maps.Keys(d.folders)) {
		if to, in := moved(other); in {
			d.folders[to] = true
			delete(d.folders, other)
		}
	}
	return nil
}

// Prepared reports whether the machine's data filesystem is mounted.
func (m mount) Prepared() (bool, error) {
	m.machine.world.engine.alive()
	return m.machine.away == nil, nil
}

func (m mount) Exists(name string) (bool, error) {
	m.machine.world.engine.alive()
	d := m.machine.disk
	name = path.Clean(name)
	if _, ok := d.files[name]; ok || d.folders[name] || d.data[name] != nil {
		return true, nil
	}
	below := func(other string) bool { return strings.HasPrefix(other, name+"/") }
	for other := range d.files { // order: any one is enough
		if below(other) {
			return true, nil
		}
	}
	for other := range d.folders { // order: any one is enough
		if below(other) {
			return true, nil
		}
	}
	for other := range d.data { // order: any one is enough
		if below(other) || strings.HasPrefix(name, other+"/member") {
			return true, nil
		}
	}
	return false, nil
}

// WAL reads whose log an etcd data directory holds.
func (m mount) WAL(dir string) (host.WAL, error) {
	m.machine.world.engine.alive()
	data := m.machine.disk.data[path.Clean(dir)]
	missing := fmt.Errorf("%s: %w", m.Path(dir)+"/member/wal", fs.ErrNotExist)
	if data == nil {
		return host.WAL{}, missing
	}
	member, cluster, last, found, err := data.Whose()
	switch {
	case err != nil:
		return host.WAL{}, fmt.Errorf("reading the WAL in %s: %w", dir, err)
	case !found:
		return host.WAL{}, missing
	case m.machine.unreadable():
		return host.WAL{}, fmt.Errorf("reading the WAL in %s: %w", dir, ioError(m.Path(dir)))
	}
	log := host.WAL{Member: member, Cluster: cluster, Last: last, V2: data.V2(), Unopened: data.Unopened()}
	if data.Cut() {
		log.Cut = "the log goes on behind its end for etcd"
	}
	return log.With(data.Changes()), nil
}
