// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/raftlog"
)

// unmount restarts the machine without its data filesystem.
func (w *World) unmount(ctx context.Context, n *node) (machines.Evidence, error) {
	e, err := n.machine.Unmount(ctx)
	if err != nil {
		return e, err
	}
	return e, w.afterBoot(ctx, n)
}

// remount ends that, with or without another restart.
func (w *World) remount(ctx context.Context, n *node, how string) error {
	if how == "reboot" && n.machine.On() {
		if _, err := n.machine.PowerOff(); err != nil {
			return err
		}
		if err := n.machine.Mount(ctx); err != nil {
			return err
		}
		if _, err := n.machine.PowerOn(ctx); err != nil {
			return err
		}
		return w.afterBoot(ctx, n)
	}
	return n.machine.Mount(ctx)
}

// data is where a machine's etcd keeps what it has.
func (w *World) data(n *node) string {
	return filepath.Join(n.machine.DataRoot(), w.Subject.Etcd().Dir)
}

// logged reports whether the machine's disk has a log.
func (w *World) logged(n *node) bool {
	logs, _ := filepath.Glob(filepath.Join(w.data(n), "member", "wal", "*.wal"))
	return len(logs) > 0
}

// logState changes with whatever is written to the machine's log; "" without one. When a
// file was changed says less: two writes within a tick of the kernel's have one time.
func (w *World) logState(n *node) (state string) {
	logs, _ := filepath.Glob(filepath.Join(w.data(n), "member", "wal", "*.wal"))
	for _, name := range logs {
		if text, err := os.ReadFile(name); err == nil {
			state += fmt.Sprintf("%s %x\n", filepath.Base(name), sha256.Sum256(text))
		}
	}
	return state
}

// foreign reports whether the machine's log is a copy that no etcd here has written
// to: it is nobody's memory.
func (w *World) foreign(n *node) bool { return n.copied != "" && n.copied == w.logState(n) }

// copyData puts a copy of a member's data on a disk that holds none.
func (w *World) copyData(ctx context.Context, n *node, name string) (machines.Evidence, error) {
	from := w.node(name)
	switch {
	case n.lost || !n.machine.On():
		return machines.Evidence{}, fmt.Errorf("%s is off", n.name)
	case from == nil || from == n || from.lost || !w.logged(from):
		return machines.Evidence{}, fmt.Errorf("%s holds no data to copy", name)
	case w.logged(n):
		return machines.Evidence{}, fmt.Errorf("%s holds data of its own", n.name)
	}
	if _, err := n.machine.PowerOff(); err != nil {
		return machines.Evidence{}, err
	}
	copied := copyTree(w.data(n), w.data(from))
	state := w.logState(n)
	w.mark(n, func() { n.copied = state })
	if _, err := n.machine.PowerOn(ctx); err != nil {
		return machines.Evidence{}, errors.Join(copied, err)
	}
	return machines.Evidence{What: n.name, Detail: "the data of " + from.name + " were copied to it"}, errors.Join(copied, w.afterBoot(ctx, n))
}

// putBackCopies puts the targets' disks back as they are now, when they have become old.
func (w *World) putBackCopies(ctx context.Context, s ringproof.Step, targets []string) (string, error) {
	copied := func(n *node) string { return filepath.Join(w.dir, n.name+"-before-"+s.Name) }
	_, err := w.each(targets, func(n *node) (machines.Evidence, error) {
		if n.lost {
			return machines.Evidence{}, fmt.Errorf("%s is lost", n.name)
		}
		return machines.Evidence{}, copyTree(copied(n), n.machine.DataRoot())
	})
	if err != nil {
		return "", err
	}
	if err := w.Sleep(ctx, s.Fault.Age()); err != nil {
		return "", err
	}
	return w.each(targets, func(n *node) (machines.Evidence, error) {
		return machines.Evidence{What: n.name, Detail: "its disk is back as it was"},
			w.whileOff(ctx, n, s.Fault.For.Std(), func() error { return putTree(n.machine.DataRoot(), copied(n)) })
	})
}

// spoilVolume leaves a log on the disk that may never run again.
func (w *World) spoilVolume(ctx context.Context, n *node, f ringproof.Fault) (machines.Evidence, error) {
	if !w.logged(n) {
		return machines.Evidence{}, fmt.Errorf("%s holds no log", n.name)
	}
	if f.Leave == ringproof.LeaveHoled {
		if tells, err := raftlog.TellsHole(w.data(n)); !tells {
			return machines.Evidence{}, cmp.Or(err, fmt.Errorf("the log of %s is too short: a hole in it could not be told from a write that was torn; let clients write first", n.name))
		}
	}
	how, said := raftlog.ForceNew, "its log is that of a ring of one"
	switch f.Leave {
	case ringproof.LeaveDamaged:
		how, said = raftlog.Damage, "its log is damaged"
	case ringproof.LeaveHoled:
		how, said = raftlog.Hole, "its log has a hole"
	case ringproof.LeaveGarbled:
		how, said = raftlog.Garble, "its keyspace is damaged"
	}
	return machines.Evidence{What: n.name, Detail: said}, w.whileOff(ctx, n, f.For.Std(), func() error { return how(w.data(n)) })
}

// whileOff does it to a machine's disk while the machine has no power, which it gets back
// after so long. What is on the disk then is nobody's memory.
func (w *World) whileOff(ctx context.Context, n *node, off time.Duration, do func() error) error {
	w.keepLog(n)
	w.mark(n, func() { n.anotherDisk(); n.swap = true })
	defer w.mark(n, func() { n.swap = false })
	if _, err := n.machine.PowerOff(); err != nil {
		return err
	}
	err := do()
	state := w.logState(n)
	w.mark(n, func() { n.copied = state })
	return errors.Join(err, w.powerOn(ctx, n, off))
}

// powerOn gives a machine that is off its power, at once or after so long.
func (w *World) powerOn(ctx context.Context, n *node, after time.Duration) error {
	on := func(ctx context.Context) error {
		if _, err := n.machine.PowerOn(ctx); err != nil {
			return err
		}
		return w.afterBoot(ctx, n)
	}
	if after == 0 {
		return on(ctx)
	}
	w.tasks.Go(func() {
		wait := time.NewTimer(after)
		defer wait.Stop()
		select {
		case <-w.over:
		case <-wait.C:
			gone := false
			w.mark(n, func() { gone = n.lost || n.taken || w.ending })
			if !gone && !n.machine.On() {
				_ = on(context.WithoutCancel(ctx)) // one that doesn't come on is seen to be off
			}
		}
	})
	return nil
}

// putTree makes a directory hold what another does, and nothing else.
func putTree(to, from string) error {
	there, err := os.ReadDir(to)
	if err != nil {
		return err
	}
	for _, entry := range there {
		if err := os.RemoveAll(filepath.Join(to, entry.Name())); err != nil {
			return err
		}
	}
	return copyAll(to, from)
}

// copyAll copies what is in a directory, with its modes: keys are private.
func copyAll(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.Chmod(filepath.Join(to, strings.TrimPrefix(path, from)), info.Mode().Perm())
	})
}

// copyTree copies a directory that etcd may be writing to: what it renames or
// removes meanwhile is looked for again.
func copyTree(to, from string) (err error) {
	for range 10 {
		if err = os.RemoveAll(to); err != nil {
			return err
		}
		if err = copyAll(to, from); err == nil || !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return err
}

// broken is why no etcd can start on a machine: each step's end of it.
type broken map[string]context.CancelFunc

// failStarts ends etcd, and each that is started from now on: its binary is
// replaced by one that fails, or it is killed as soon as it has a log.
func (w *World) failStarts(n *node, s ringproof.Step) (machines.Evidence, error) {
	ctx, cancel := context.WithCancel(context.Background())
	w.mark(n, func() {
		if n.broken == nil {
			n.broken = broken{}
		}
		n.broken[s.Name] = cancel
	})
	e := machines.Evidence{What: n.name, Detail: "no etcd can start, it ends as soon as it has a log"}
	if s.Fault.At == "after-log" {
		w.tasks.Go(func() { w.killOnSight(ctx, n) })
		return e, nil
	}
	e.Detail = "no etcd can start, its binary fails"
	if err := w.linkEtcd(n, false); err != nil {
		return e, err
	}
	if _, err := w.signalEtcd(n, syscall.SIGKILL); err != nil && w.etcd(n) != 0 {
		return e, err
	}
	return e, nil
}

// killOnSight kills the machine's etcd whenever it has a log.
func (w *World) killOnSight(ctx context.Context, n *node) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.over:
			return
		case <-tick.C:
			if w.logged(n) {
				_, _ = w.signalEtcd(n, syscall.SIGKILL) // there may be none
			}
		}
	}
}

// mendStarts lets etcd start again, unless another step keeps it from it.
func (w *World) mendStarts(n *node, step string) error {
	var cancel context.CancelFunc
	left := 0
	w.mark(n, func() { cancel = n.broken[step]; delete(n.broken, step); left = len(n.broken) })
	if cancel == nil {
		return nil
	}
	cancel()
	if left > 0 {
		return nil
	}
	return w.linkEtcd(n, true)
}

// binaries are the machine's own names of the releases' binaries, by version.
func (w *World) binaries(n *node) map[string]string {
	all := map[string]string{}
	for version := range w.Releases {
		if !slices.Contains(w.plan.Ring.Members[n.name].Lacks, version) {
			all[version] = filepath.Join(n.run, "bin", version, "etcd")
		}
	}
	return all
}

// etcdctls are the releases' etcdctls, by version; a build of one's own may have none.
func (w *World) etcdctls() map[string]string {
	all := map[string]string{}
	for version, r := range w.Releases { // order: into a map
		all[version] = r.Etcdctl
	}
	return all
}

// linkEtcd has the machine's names mean the binaries, or one that fails.
func (w *World) linkEtcd(n *node, whole bool) error {
	failing, err := exec.LookPath("false")
	if err != nil && !whole {
		return fmt.Errorf("a program that fails: %w", err)
	}
	for version, name := range w.binaries(n) {
		to := failing
		if whole {
			to = w.Releases[version].Etcd
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		next := name + ".next"
		if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := errors.Join(os.Symlink(to, next), os.Rename(next, name)); err != nil {
			return fmt.Errorf("giving %s its %s: %w", n.name, strings.TrimPrefix(name, n.run), err)
		}
	}
	return nil
}
