// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/lockstep"
)

// The numbers of machines: that at which the run sits, where clients live, and the first of
// the lab's.
const (
	seat  = 1
	first = 11
)

// lab is a set of machines in a world in lockstep. A machine is a number of that world,
// with an address, and a directory: a filesystem of its own size in a sandbox.
type lab struct {
	machines.Options
	orders *lockstep.Orders
	names  machines.Names // of whoever is started on a machine
	dir    string         // what the run and all machines share

	mu    sync.Mutex
	added byte
	aged  time.Duration // that all wall clocks went on by
	hosts map[byte]*host
}

// newLab makes machines below the directory of the run's world.
func newLab(dir string) func(context.Context, machines.Options) (local.Lab, error) {
	return func(ctx context.Context, o machines.Options) (local.Lab, error) {
		orders, err := lockstep.Order(ctx)
		if err != nil {
			return nil, err
		}
		l := &lab{Options: o, orders: orders, dir: filepath.Join(dir, "shared"), hosts: map[byte]*host{}}
		l.WorkDir = filepath.Join(dir, "machines")
		if l.VolumeBytes == 0 {
			l.VolumeBytes = machines.DefaultVolume
		}
		l.names = machines.Names{File: filepath.Join(l.dir, "hosts"), Domain: l.Domain}
		return l, errors.Join(os.MkdirAll(l.dir, 0o700), os.MkdirAll(l.WorkDir, 0o700), l.publish())
	}
}

// publish gives whoever is started from now on the lab's names.
func (l *lab) publish() error {
	if l.Domain == "" {
		return nil
	}
	return l.orders.Do(lockstep.Deed{Do: lockstep.DoNames, Path: l.names.File})
}

// Heard lists who has spoken to which port of another machine, and how.
func (l *lab) Heard() ([]local.Heard, error) {
	heard, err := l.orders.Heard()
	all := make([]local.Heard, len(heard))
	for i, h := range heard {
		all[i] = local.Heard{From: lockstep.Address(h.From), To: netip.AddrPortFrom(lockstep.Address(h.To), h.Port), Plain: spoken(h.Plain), TLS: spoken(h.TLS)}
	}
	return all, err
}

// spoken is a time as the switchboard tells it.
func spoken(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, at)
}

// Shared is the directory that all see.
func (l *lab) Shared() string { return l.dir }

// Gateway is the run's own address.
func (l *lab) Gateway() netip.Addr { return lockstep.Address(seat) }

// Add makes a machine with an empty volume, and powers it on.
func (l *lab) Add(_ context.Context, name string) (local.Host, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &host{lab: l, name: name, number: first + l.added, on: true, tasks: map[string]*task{}, pids: map[int]string{}}
	l.hosts[h.number] = h
	l.added++
	return h, errors.Join(l.Resolve(name, h.Addr()), h.furnish())
}

// Resolve has every machine resolve the name of one to the address from now on; the zero Addr: to
// nothing.
func (l *lab) Resolve(name string, to netip.Addr) error { return l.names.Set(name, to) }

// Close ends every process on every machine, and removes the volumes.
func (l *lab) Close() error {
	l.mu.Lock()
	all := maps.Clone(l.hosts)
	l.mu.Unlock()
	var errs []error
	for _, n := range slices.Sorted(maps.Keys(all)) {
		h := all[n]
		_, err := h.Destroy()
		errs = append(errs, err)
	}
	return errors.Join(append(errs, l.orders.Close())...)
}

// Left are all that run on any machine: nobody else's do.
func (l *lab) Left([]string) (left []string) {
	for n := byte(seat + 1); n < lockstep.Machines; n++ {
		pids, table := lockstep.Running(n)
		for _, pid := range pids {
			exe, _ := os.Readlink(filepath.Join(table, strconv.Itoa(pid), "exe"))
			left = append(left, fmt.Sprintf("%s %d", filepath.Base(exe), pid))
		}
	}
	return left
}

// at are the numbers of the machine with this address, and of all that lives on it; none:
// it is no machine.
func (l *lab) at(a netip.Addr) []byte {
	if !a.Is4() || lockstep.Address(a.As4()[3]) != a {
		return nil
	}
	n := a.As4()[3]
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.hosts { // order: one at most has the number
		if all := h.numbers(); slices.Contains(all, n) {
			return all
		}
	}
	return []byte{n}
}

// furnish gives the machine an empty volume, with these directories in it.
func (h *host) furnish(directories ...string) error {
	if err := os.MkdirAll(h.DataDir(), 0o755); err != nil {
		return err
	}
	if machines.Inside() {
		size := fmt.Sprintf("mode=0755,size=%d", h.lab.VolumeBytes)
		if err := unix.Mount("ringproof-"+h.name, h.DataDir(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, size); err != nil {
			return fmt.Errorf("making a volume for machine %s: %w", h.name, err)
		}
	}
	var errs []error
	for _, d := range directories {
		errs = append(errs, os.MkdirAll(filepath.Join(h.DataDir(), d), 0o700))
	}
	return errors.Join(errs...)
}

// scrap takes the volume away. One that is not mounted lies aside.
func (h *host) scrap() error {
	if !machines.Inside() {
		return os.RemoveAll(h.DataDir())
	}
	if h.aside() {
		if err := unix.Unmount(h.spare(), unix.MNT_DETACH); err != nil {
			return err
		}
		return os.RemoveAll(h.DataDir())
	}
	if err := unix.Unmount(h.DataDir(), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmounting the volume of machine %s: %w", h.name, err)
	}
	return os.RemoveAll(h.DataDir())
}

// spare is where the volume is while it isn't mounted on the machine.
func (h *host) spare() string { return h.DataDir() + ".aside" }

func (h *host) aside() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bare
}

// DataRoot is the volume as the run sees it.
func (h *host) DataRoot() string {
	if h.aside() {
		return h.spare()
	}
	return h.DataDir()
}

// move moves a mounted volume.
func move(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return unix.Mount(from, to, "", unix.MS_MOVE, "")
}

// SwapVolume puts an empty volume in, and kills those that held the old one.
func (h *host) SwapVolume(_ context.Context, directories ...string) (machines.Evidence, error) {
	hit, err := h.evict()
	if err = errors.Join(err, h.scrap()); err == nil {
		h.mark(func() { h.bare = false })
		err = h.furnish(directories...)
	}
	if err != nil {
		return machines.Evidence{}, fmt.Errorf("losing the volume of machine %s: %w", h.name, err)
	}
	return machines.Evidence{What: "loss of the volume of machine " + h.name, Detail: "the new one holds no file; dead: " + machines.Roll(hit), Processes: hit}, nil
}

// LoseDirectory removes one directory from the volume, and kills those that held it.
func (h *host) LoseDirectory(directory string) (machines.Evidence, error) {
	hit, err := h.evict()
	if err = errors.Join(err, os.RemoveAll(filepath.Join(h.DataRoot(), directory))); err != nil {
		return machines.Evidence{}, fmt.Errorf("losing %s on machine %s: %w", directory, h.name, err)
	}
	return machines.Evidence{What: "loss of the volume of machine " + h.name, Detail: "of what it held, " + directory + " is gone; dead: " + machines.Roll(hit), Processes: hit}, nil
}

// evict kills those that hold the volume.
func (h *host) evict() ([]machines.Process, error) {
	before, err := h.Processes()
	if err != nil { // it is off
		return nil, nil
	}
	if err := h.lab.orders.Do(lockstep.Deed{Do: lockstep.DoEvict, Machines: h.numbers(), Path: h.DataDir()}); err != nil {
		return nil, err
	}
	return h.gone(before), nil
}

// Unmount restarts the machine without its volume: programs find an empty directory in its
// place. It starts no command.
func (h *host) Unmount(ctx context.Context) (machines.Evidence, error) {
	if !machines.Inside() {
		return machines.Evidence{}, fmt.Errorf("unmounting the volume of machine %s: %w", h.name, errors.ErrUnsupported)
	}
	if h.aside() {
		return machines.Evidence{}, fmt.Errorf("the volume of machine %s isn't mounted already", h.name)
	}
	off, err := h.PowerOff()
	if err != nil {
		return machines.Evidence{}, err
	}
	if err := move(h.DataDir(), h.spare()); err != nil {
		return machines.Evidence{}, fmt.Errorf("unmounting the volume of machine %s: %w", h.name, err)
	}
	h.mark(func() { h.bare = true })
	_, err = h.PowerOn(ctx)
	return machines.Evidence{What: "restart of machine " + h.name + " without its volume", Detail: off.Detail, Processes: off.Processes}, err
}

// Mount puts the volume back, while the machine runs or is off.
func (h *host) Mount(context.Context) error {
	if !h.aside() {
		return nil
	}
	if err := move(h.spare(), h.DataDir()); err != nil {
		return fmt.Errorf("mounting the volume of machine %s: %w", h.name, err)
	}
	h.mark(func() { h.bare = false })
	return nil
}

// FillVolume writes until the kernel says that no space is left.
func (h *host) FillVolume() (machines.Evidence, error) { return machines.Fill(h.name, h.DataRoot()) }

// FreeVolume takes that away.
func (h *host) FreeVolume() (machines.Evidence, error) { return machines.Free(h.name, h.DataRoot()) }

// Block drops what comes to this machine from the others, or the gateway. What was sent
// meanwhile comes when the block is lifted, as TCP sends it again.
func (h *host) Block(t machines.Traffic, from ...netip.Addr) (machines.Evidence, error) {
	e := machines.Evidence{What: "block on machine " + h.name}
	for _, a := range from {
		other := h.lab.at(a)
		if len(other) == 0 || other[0] == h.number {
			return e, fmt.Errorf("refused to block %v on machine %s: give the address of another machine, or the gateway", a, h.name)
		}
		cut := lockstep.Deed{Do: lockstep.DoCut, Machines: other, To: h.numbers(), Port: t.Port, But: t.But}
		if err := h.lab.orders.Do(cut); err != nil {
			return e, err
		}
		h.mark(func() { h.blocked = append(h.blocked, cut) })
		e.Detail += fmt.Sprintf("%sfrom %v ", t, a)
	}
	return e, nil
}

// Unblock lifts every block on this machine.
func (h *host) Unblock(context.Context) (machines.Evidence, error) {
	var blocked []lockstep.Deed
	h.mark(func() { blocked, h.blocked = h.blocked, nil })
	e := machines.Evidence{What: "unblock of machine " + h.name}
	for _, d := range blocked {
		d.Do, d.To = lockstep.DoMend, h.numbers()
		if err := h.lab.orders.Do(d); err != nil {
			return e, err
		}
		e.Detail += fmt.Sprintf("from %v ", lockstep.Address(d.Machines[0]))
	}
	return e, nil
}

// DialContext connects from the machine.
func (h *host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: h.Addr().AsSlice()}}).DialContext(ctx, network, address)
}

// Skew has the machine's wall clock jump.
func (h *host) Skew(by time.Duration) (machines.Evidence, error) {
	h.mark(func() { h.skew += by })
	e := machines.Evidence{What: "clock of machine " + h.name, Detail: fmt.Sprintf("it jumps by %v, and is off by %v", by, h.skew)}
	return e, h.setWall()
}

// setWall sets the machine's wall clock.
func (h *host) setWall() error {
	var off time.Duration
	h.mark(func() { off = h.skew + h.lab.aged })
	return h.lab.orders.Do(lockstep.Deed{Do: lockstep.DoWall, Machines: h.numbers(), By: off})
}

// Age has all wall clocks go on by so much: the machines', and the run's.
func (l *lab) Age(by time.Duration) error {
	l.mu.Lock()
	l.aged += by
	all := maps.Clone(l.hosts)
	l.mu.Unlock()
	err := l.orders.Do(lockstep.Deed{Do: lockstep.DoWall, Machines: []byte{seat}, By: l.aged})
	for _, n := range slices.Sorted(maps.Keys(all)) {
		err = errors.Join(err, all[n].setWall())
	}
	return err
}

// Mute has so many of 100 replies lost that come from or to the machine, on what was dialled at the port.
func (h *host) Mute(percent int, port uint16) (machines.Evidence, error) {
	e := machines.Evidence{What: "network of machine " + h.name, Detail: fmt.Sprintf("%d of 100 replies are lost", percent)}
	return e, h.lab.orders.Do(lockstep.Deed{Do: lockstep.DoMute, Machines: h.numbers(), Percent: percent, Port: port})
}

// Lose has so many of 100 packets lost between the machine and others, but the run and its clients.
func (h *host) Lose(percent int) (machines.Evidence, error) {
	e := machines.Evidence{What: "network of machine " + h.name, Detail: fmt.Sprintf("%d of 100 packets are lost", percent)}
	return e, h.lab.orders.Do(lockstep.Deed{Do: lockstep.DoLose, Machines: h.numbers(), To: []byte{seat}, Percent: percent})
}

// Suspend has the machine sleep: nothing runs there, and its monotonic clock stands still.
func (h *host) Suspend() (machines.Evidence, error) {
	e := machines.Evidence{What: "suspension of machine " + h.name, Detail: "its monotonic clock stands still"}
	return e, h.lab.orders.Do(lockstep.Deed{Do: lockstep.DoSleep, Machines: h.numbers()})
}

// Wake has it go on where it stood.
func (h *host) Wake() (machines.Evidence, error) {
	e := machines.Evidence{What: "end of the suspension of machine " + h.name}
	return e, h.lab.orders.Do(lockstep.Deed{Do: lockstep.DoWake, Machines: h.numbers()})
}

// SlowDisk has the machine's disk take longer to sync.
func (h *host) SlowDisk(by time.Duration) (machines.Evidence, error) {
	h.mark(func() { h.sluggish += by })
	e := machines.Evidence{What: "disk of machine " + h.name, Detail: fmt.Sprintf("each sync takes %v longer", h.sluggish)}
	return e, h.lab.orders.Do(lockstep.Deed{Do: lockstep.DoDisk, Machines: h.numbers(), By: h.sluggish})
}

// Slow has what comes from and to the machine take longer, but for the run and its clients.
func (h *host) Slow(by time.Duration) (machines.Evidence, error) {
	h.mark(func() { h.slow += by })
	e := machines.Evidence{What: "network of machine " + h.name, Detail: fmt.Sprintf("packets take %v longer", h.slow)}
	return e, h.lab.orders.Do(lockstep.Deed{Do: lockstep.DoSlow, Machines: h.numbers(), To: []byte{seat}, By: h.slow})
}
