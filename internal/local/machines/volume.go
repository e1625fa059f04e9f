// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Files that a full volume needs; the dot keeps them out of most programs' way.
const (
	ballast = ".ringproof-ballast"
	probe   = ".ringproof-probe"
)

// furnish makes a new empty volume and notes where it is.
func (m *Machine) furnish() error {
	dir, err := m.newVolume()
	if err != nil {
		return fmt.Errorf("making a volume for machine %s: %w", m.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.volume = dir
	return nil
}

func (m *Machine) newVolume() (string, error) {
	if m.lab.limits != nil {
		m.lab.trace.folder(m.name, filepath.Dir(m.DataDir()))
		return m.DataDir(), os.MkdirAll(m.DataDir(), 0o755)
	}
	// The machine mounts it here; it may be a place that machines and run share.
	if err := os.MkdirAll(m.DataDir(), 0o755); err != nil {
		return "", err
	}
	m.swaps++
	dir := filepath.Join(m.lab.volumes, fmt.Sprintf("%s-%d", m.name, m.swaps))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	size := fmt.Sprintf("mode=0755,size=%d", m.lab.opts.VolumeBytes)
	return dir, unix.Mount("ringproof-"+m.name, dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, size)
}

// detached is a second mount of the volume that is nowhere yet.
func detached(dir string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("copying the mount of a volume: %w", err)
	}
	return os.NewFile(uintptr(fd), "volume"), nil
}

// scrapVolume removes the volume at dir; processes may still hold it.
func (l *Lab) scrapVolume(dir string) error {
	if dir == "" {
		return nil
	}
	if l.limits == nil {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmounting a volume: %w", err)
		}
	}
	return os.RemoveAll(dir)
}

func (m *Machine) scrap() error {
	if err := m.lab.scrapVolume(m.DataRoot()); err != nil {
		return err
	}
	m.mu.Lock()
	m.volume = ""
	m.mu.Unlock()
	// The mount point and the machine's folder: only if empty, the caller may keep logs there.
	_ = os.Remove(m.DataDir())
	_ = os.Remove(filepath.Dir(m.DataDir()))
	return nil
}

// SwapVolume kills the processes that hold the volume and puts a new empty one in its place, as when a
// disk was lost and replaced. The old one's files are gone for good. The machine may be off. The new one
// holds nothing but the directories named, as after a repair that saved the tree and no file.
func (m *Machine) SwapVolume(ctx context.Context, directories ...string) (Evidence, error) {
	m.whole.Lock()
	defer m.whole.Unlock()
	hit, err := m.swap(ctx, directories)
	if err != nil {
		return Evidence{}, fmt.Errorf("losing the volume of machine %s: %w", m.name, err)
	}
	return Evidence{
		What:      "loss of the volume of machine " + m.name,
		Detail:    "the new one holds no file; dead: " + Roll(hit),
		Processes: hit,
	}, nil
}

// discard takes a directory out of the way at once, and then removes it: who was killed is
// started again meanwhile, and would write into what is being removed.
func discard(directory string) error {
	lost := directory + ".lost"
	if err := os.Rename(directory, lost); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return os.RemoveAll(lost)
}

// LoseDirectory kills the processes that hold the volume and removes one directory from it, as a repair of
// the filesystem does, or a person. All else stays.
func (m *Machine) LoseDirectory(directory string) (Evidence, error) {
	m.whole.Lock()
	defer m.whole.Unlock()
	hit, err := m.evict(m.holder(m.DataRoot()))
	if err == nil {
		err = discard(filepath.Join(m.DataRoot(), directory))
	}
	if err != nil {
		return Evidence{}, fmt.Errorf("losing %s on machine %s: %w", directory, m.name, err)
	}
	return Evidence{
		What:      "loss of the volume of machine " + m.name,
		Detail:    "of what it held, " + directory + " is gone; dead: " + Roll(hit),
		Processes: hit,
	}, nil
}

func (m *Machine) swap(ctx context.Context, directories []string) (hit []Process, err error) {
	old := m.DataRoot()
	holds := m.holder(old)
	if hit, err = m.evict(holds); err != nil {
		return nil, err
	}
	if m.lab.limits != nil {
		// Renamed, what restarts meanwhile finds the new one and never half of the old.
		aside := old + ".lost"
		if err := os.Rename(old, aside); err != nil {
			return nil, err
		}
		old, holds = aside, m.holder(aside)
	}
	if err := m.furnish(); err != nil {
		return nil, err
	}
	if err := m.prepare(directories); err != nil {
		return nil, err
	}
	if err := m.replug(ctx); err != nil {
		return nil, err
	}
	// A supervisor may have started something on the old one in between.
	late, err := m.evict(holds)
	if err != nil {
		return nil, err
	}
	return append(hit, late...), m.lab.scrapVolume(old)
}

// Unmount restarts the machine without its volume: programs find an empty directory in its place, on the
// machine's root filesystem. It starts no command.
func (m *Machine) Unmount(ctx context.Context) (Evidence, error) {
	switch {
	case m.lab.limits != nil:
		return Evidence{}, fmt.Errorf("unmounting the volume of machine %s: %w", m.name, m.lab.limits)
	case !m.On():
		return Evidence{}, fmt.Errorf("unmounting the volume of machine %s: %w", m.name, errOff)
	case m.unmounted():
		return Evidence{}, fmt.Errorf("the volume of machine %s isn't mounted already", m.name)
	}
	off, err := m.PowerOff()
	if err != nil {
		return Evidence{}, err
	}
	m.mounted(false)
	_, err = m.PowerOn(ctx)
	return Evidence{What: "restart of machine " + m.name + " without its volume", Detail: off.Detail, Processes: off.Processes}, err
}

// Mount puts the volume back, while the machine runs or is off.
func (m *Machine) Mount(ctx context.Context) error {
	if !m.unmounted() {
		return nil
	}
	m.whole.Lock()
	defer m.whole.Unlock()
	m.mounted(true)
	if !m.On() {
		return nil
	}
	return m.replug(ctx)
}

// unmounted reports whether the machine is without its volume.
func (m *Machine) unmounted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bare
}

func (m *Machine) mounted(is bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bare = !is
}

// prepare looks that the new volume is empty, before anything on the machine can write to it, and makes
// the directories.
func (m *Machine) prepare(directories []string) error {
	left, err := os.ReadDir(m.DataRoot())
	if err != nil {
		return err
	}
	if len(left) > 0 && m.lab.limits == nil {
		return fmt.Errorf("%d entries are in the new volume", len(left))
	}
	for _, d := range directories {
		if err := os.MkdirAll(filepath.Join(m.DataRoot(), d), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// replug tells a machine that is on of its new volume.
func (m *Machine) replug(ctx context.Context) error {
	t, err := m.powered()
	if err != nil || m.lab.limits != nil {
		return nil
	}
	mount, err := detached(m.DataRoot())
	if err != nil {
		return err
	}
	defer mount.Close()
	_, err = t.call(ctx, request{ID: t.number(), Do: doVolume, Dir: m.DataDir()}, mount)
	return err
}

// evict kills what holds a volume, until nothing does.
func (m *Machine) evict(holds func(Process) bool) (hit []Process, err error) {
	known := map[life]bool{}
	free := within(patience, func() bool {
		none := true
		ps, _ := m.Processes()
		for _, p := range ps {
			if !holds(p) {
				continue
			}
			none = false
			_ = p.kill(syscall.SIGKILL)
			if !known[p.life()] {
				known[p.life()] = true
				hit = append(hit, p)
			}
		}
		return none
	})
	if !free {
		return hit, fmt.Errorf("processes still hold it %v after SIGKILL: %s", patience, Roll(hit))
	}
	return hit, nil
}

// holder reports whether a process has a file, a mapping or its working directory on the volume at dir. A
// volume of its own is known by its device; the fallback has only the path.
func (m *Machine) holder(dir string) func(Process) bool {
	if m.lab.limits != nil {
		return func(p Process) bool {
			return maps(p, " "+dir+"/") || anyLink(p, func(link string) bool {
				to, err := os.Readlink(link)
				return err == nil && (to == dir || strings.HasPrefix(to, dir+"/"))
			})
		}
	}
	var volume unix.Stat_t
	_ = unix.Stat(dir, &volume)
	device := fmt.Sprintf(" %02x:%02x ", unix.Major(volume.Dev), unix.Minor(volume.Dev))
	return func(p Process) bool {
		return maps(p, device) || anyLink(p, func(link string) bool {
			var s unix.Stat_t
			return unix.Stat(link, &s) == nil && s.Dev == volume.Dev
		})
	}
}

func anyLink(p Process, is func(string) bool) bool {
	dir := fmt.Sprintf("/proc/%d/", p.PID)
	if is(dir + "cwd") {
		return true
	}
	entries, _ := os.ReadDir(dir + "fd")
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return is(dir + "fd/" + e.Name()) })
}

// maps looks for a device or a path among the mappings: a mapped file may be closed.
func maps(p Process, part string) bool {
	all, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.PID))
	return strings.Contains(string(all), part)
}

// FillVolume writes until the kernel says that no space is left, for every program on the machine. It
// works with the machine frozen or off. Space that a program frees later is free again.
func (m *Machine) FillVolume() (Evidence, error) {
	m.whole.Lock()
	defer m.whole.Unlock()
	if err := m.lab.limits; err != nil {
		return Evidence{}, fmt.Errorf("refused to fill the volume of machine %s: %w", m.name, err)
	}
	return Fill(m.name, m.DataRoot())
}

// Fill fills the volume of a machine at dir, which must be a filesystem of its own.
func Fill(machine, dir string) (Evidence, error) {
	written, err := stuff(filepath.Join(dir, ballast))
	if err != nil {
		return Evidence{}, fmt.Errorf("filling the volume of machine %s: %w", machine, err)
	}
	err = tryWrite(dir)
	if !errors.Is(err, unix.ENOSPC) {
		return Evidence{}, fmt.Errorf("full volume did not land on machine %s: a probe was told %v; fill it again", machine, err)
	}
	return Evidence{
		What:   "full volume of machine " + machine,
		Detail: fmt.Sprintf("%d bytes of ballast, %d free; a probe was told: %v", written, available(dir), err),
	}, nil
}

// FreeVolume takes the ballast away.
func (m *Machine) FreeVolume() (Evidence, error) {
	m.whole.Lock()
	defer m.whole.Unlock()
	if err := m.lab.limits; err != nil {
		return Evidence{}, fmt.Errorf("refused to free the volume of machine %s: %w", m.name, err)
	}
	return Free(m.name, m.DataRoot())
}

// Free takes the ballast of [Fill] away.
func Free(machine, dir string) (Evidence, error) {
	if err := os.Remove(filepath.Join(dir, ballast)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Evidence{}, fmt.Errorf("freeing the volume of machine %s: %w", machine, err)
	}
	if err := tryWrite(dir); err != nil {
		return Evidence{}, fmt.Errorf("freeing the volume of machine %s did not help: %w", machine, err)
	}
	return Evidence{What: "free volume of machine " + machine, Detail: fmt.Sprintf("%d bytes free; a probe was written", available(dir))}, nil
}

func available(dir string) uint64 {
	var s unix.Statfs_t
	_ = unix.Statfs(dir, &s)
	return s.Bavail * uint64(s.Bsize)
}

// stuff takes the bulk by reservation, which costs no copying, and the rest by writing, to be told
// ENOSPC by the kernel itself.
func stuff(path string) (written int64, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if at, err := f.Seek(0, 2); err == nil {
		_ = unix.Fallocate(int(f.Fd()), 0, at, int64(available(filepath.Dir(path))))
	}
	for page := make([]byte, 4096); err == nil; {
		_, err = f.Write(page)
	}
	if !errors.Is(err, unix.ENOSPC) {
		return 0, err
	}
	s, err := f.Stat()
	return s.Size(), err
}

func tryWrite(dir string) error {
	path := filepath.Join(dir, probe)
	defer os.Remove(path)
	return os.WriteFile(path, []byte{0}, 0o600)
}
