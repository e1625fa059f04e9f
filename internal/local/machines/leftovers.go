// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// trace is the record of a fallback run, by which Clean finds what it left: a folder in the user's
// cache, with an owner file that is locked as long as the run lives, a file for every process started,
// named by pid and start time, and a link to every folder made.
type trace struct {
	dir  string
	lock *os.File
	// net is the lock of the run's loopback subnet.
	net net.Listener
}

// owner tells whose pids the record means.
type owner struct {
	PID       int    `json:"pid"`
	Started   uint64 `json:"started"`
	Boot      string `json:"boot"`
	Namespace string `json:"pidNamespace"`
}

const (
	ownerFile = "owner.json"
	procDir   = "processes"
	folderDir = "folders"
)

func runsDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a place to note what runs: %w; set XDG_CACHE_HOME or HOME", err)
	}
	return filepath.Join(cache, "ringproof", "runs"), nil
}

func thisOwner() owner {
	v, _ := readVital(os.Getpid())
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	ns, _ := os.Readlink("/proc/self/ns/pid")
	return owner{PID: v.pid, Started: v.ticks, Boot: string(bytes.TrimSpace(boot)), Namespace: ns}
}

func newTrace() (*trace, error) {
	runs, err := runsDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(runs, 0o755); err != nil {
		return nil, err
	}
	// Named at last, when it is locked: until then Clean leaves it alone for a minute.
	dir, err := os.MkdirTemp(runs, ".new-")
	if err != nil {
		return nil, err
	}
	t := &trace{dir: dir}
	if err := t.fill(); err != nil {
		return nil, errors.Join(fmt.Errorf("noting this run: %w", err), os.RemoveAll(dir))
	}
	t.dir = filepath.Join(runs, strings.TrimPrefix(filepath.Base(dir), ".new-"))
	return t, os.Rename(dir, t.dir)
}

func (t *trace) fill() error {
	for _, sub := range []string{procDir, folderDir} {
		if err := os.Mkdir(filepath.Join(t.dir, sub), 0o755); err != nil {
			return err
		}
	}
	o, err := json.Marshal(thisOwner())
	if err != nil {
		return err
	}
	path := filepath.Join(t.dir, ownerFile)
	if err := os.WriteFile(path, o, 0o644); err != nil {
		return err
	}
	t.lock, err = locked(path)
	return err
}

// locked takes the owner's lock. The kernel drops it when the owner dies, in any PID namespace.
func locked(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (t *trace) id() string { return filepath.Base(t.dir) }

// process and folder are best effort: what cannot be noted is still found by its environment, and by the
// folder above it.
func (t *trace) process(pid int) {
	if v, err := readVital(pid); err == nil {
		_ = os.WriteFile(filepath.Join(t.dir, procDir, v.life().String()), nil, 0o644)
	}
}

func (t *trace) folder(name, path string) {
	if full, err := filepath.Abs(path); err == nil {
		_ = os.Symlink(full, filepath.Join(t.dir, folderDir, name))
	}
}

func (t *trace) close() error {
	defer t.lock.Close()
	if t.net != nil {
		defer t.net.Close()
	}
	return os.RemoveAll(t.dir)
}

// claimSubnet takes the first of 127.0.77.0/24, 127.0.78.0/24, … that no other run has. An abstract socket
// is the lock: its names, like loopback addresses, belong to the network namespace, and it goes with its owner.
func (t *trace) claimSubnet() (netip.Prefix, error) {
	for n := byte(77); n < 255; n++ {
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, n, 0}), 24)
		l, err := net.Listen("unix", "@ringproof-"+subnet.String())
		if err == nil {
			t.net = l
			return subnet, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return netip.Prefix{}, fmt.Errorf("claiming a loopback subnet: %w", err)
		}
	}
	return netip.Prefix{}, errors.New("refused to open a lab: every loopback subnet is taken; close a run")
}

// Clean ends the processes and removes the folders that fallback runs left when they were killed, and
// names each. Runs that still live are left alone. A sandbox leaves nothing to clean.
func Clean() (removed []string, err error) {
	runs, err := runsDir()
	if err != nil {
		return nil, err
	}
	entries, _ := os.ReadDir(runs)
	var failed []error
	for _, e := range entries {
		gone, err := (&trace{dir: filepath.Join(runs, e.Name())}).sweep()
		removed = append(removed, gone...)
		failed = append(failed, err)
	}
	return removed, errors.Join(failed...)
}

func (t *trace) sweep() (removed []string, err error) {
	path := filepath.Join(t.dir, ownerFile)
	if t.lock, err = locked(path); err != nil {
		return nil, t.abandoned(err)
	}
	var o owner
	note, _ := os.ReadFile(path)
	if err := json.Unmarshal(note, &o); err != nil {
		return nil, fmt.Errorf("refused to clean %s: its owner is unreadable: %w; remove it by hand", t.dir, err)
	}
	here := thisOwner()
	switch {
	case o.Boot != here.Boot:
		// A reboot ended the processes.
	case o.Namespace != here.Namespace:
		return nil, t.lock.Close()
	default:
		if removed, err = t.bury(""); err != nil {
			return removed, err
		}
	}
	folders, err := t.clear()
	return append(removed, folders...), errors.Join(err, t.close())
}

// abandoned removes a record that was never finished; one that is locked has a living owner.
func (t *trace) abandoned(why error) error {
	if !errors.Is(why, os.ErrNotExist) {
		return nil
	}
	s, err := os.Stat(t.dir)
	if err != nil || time.Since(s.ModTime()) < time.Minute {
		return nil
	}
	return os.RemoveAll(t.dir)
}

// bury kills what is left of the run, or of one of its machines.
func (t *trace) bury(machine string) (killed []string, err error) {
	var last []Process
	known := map[life]bool{}
	done := within(patience, func() bool {
		last = t.survivors(machine)
		_ = killAll(last, syscall.SIGSTOP)
		_ = killAll(last, syscall.SIGKILL)
		for _, p := range last {
			if !known[p.life()] {
				known[p.life()] = true
				killed = append(killed, "process "+p.String())
			}
		}
		return len(last) == 0
	})
	if !done {
		return killed, fmt.Errorf("processes still live %v after SIGKILL: %s", patience, Roll(last))
	}
	return killed, nil
}

// survivors are processes that were noted, or carry the run's mark, and all below them.
func (t *trace) survivors(machine string) (ps []Process) {
	for _, v := range vitals() {
		if !v.dead() && v.pid != os.Getpid() && t.owns(v, machine) {
			ps = append(ps, describe(v, ""))
			ps = append(ps, below(v.pid)...)
		}
	}
	return ps
}

func (t *trace) owns(v vital, machine string) bool {
	if run, _ := environ(v.pid, envRun); run == t.id() {
		on, _ := environ(v.pid, envMachine)
		return machine == "" || on == machine
	}
	_, err := os.Lstat(filepath.Join(t.dir, procDir, v.life().String()))
	return err == nil && machine == ""
}

func (t *trace) clear() (removed []string, err error) {
	links, _ := os.ReadDir(filepath.Join(t.dir, folderDir))
	for _, l := range links {
		path, err := os.Readlink(filepath.Join(t.dir, folderDir, l.Name()))
		if err != nil {
			return removed, err
		}
		if err := os.RemoveAll(path); err != nil {
			return removed, fmt.Errorf("removing what machine %s left: %w", l.Name(), err)
		}
		removed = append(removed, "folder "+path)
	}
	return removed, nil
}
