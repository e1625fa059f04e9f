// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// host is process 1 of a machine (in the fallback, the subreaper of its processes). It ends when the run
// does: in a PID namespace the kernel then ends the machine, in the fallback the host itself does.
type host struct {
	conn  *net.UnixConn
	young *nursery
	alone bool
}

func beHost() int {
	keepToSelf()
	conn, err := adopt(os.NewFile(3, "run"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "machines: a host without its run:", err)
		return 1
	}
	h := &host{conn: conn}
	h.young = newNursery(func(id uint64, pid int, s syscall.WaitStatus) {
		_ = send(conn, reply{ID: id, Ended: true, PID: pid, Status: uint32(s)})
	})
	h.serve()
	if !h.alone {
		raze(os.Getpid())
	}
	return 0
}

func (h *host) serve() {
	for {
		var q request
		files, err := receive(h.conn, &q)
		if err != nil {
			return
		}
		r := reply{ID: q.ID}
		if r.PID, err = h.obey(q, files); err != nil {
			r.Error = err.Error()
		}
		for _, f := range files {
			f.Close()
		}
		if send(h.conn, r) != nil {
			return
		}
	}
}

func (h *host) obey(q request, files []*os.File) (pid int, err error) {
	switch q.Do {
	case doSettle:
		return os.Getpid(), h.settle(q, files)
	case doStart:
		return h.start(q, files)
	case doVolume:
		// EINVAL: nothing was mounted there.
		if err := unix.Unmount(q.Dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return 0, fmt.Errorf("taking the old volume from %s: %w", q.Dir, err)
		}
		return 0, plug(files[0], q.Dir)
	}
	return 0, fmt.Errorf("a machine's host cannot %q", q.Do)
}

func (h *host) settle(q request, files []*os.File) error {
	h.alone = q.Alone
	if !q.Alone {
		return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := freshProc(); err != nil {
		return err
	}
	// With the run's private files go the volumes of all other machines, which would otherwise live as
	// long as this one.
	if err := unix.Unmount(private, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("hiding the run's private files: %w", err)
	}
	if err := freshPrivate(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(q.Name)); err != nil {
		return fmt.Errorf("naming the machine: %w", err)
	}
	data := func() error { return plug(files[0], q.Dir) }
	if q.Bare {
		data = func() error { return os.MkdirAll(q.Dir, 0o755) }
	}
	if err := errors.Join(data(), plug(files[1], q.Shared)); err != nil || !q.Named {
		return err
	}
	if err := unix.Mount(filepath.Join(q.Shared, hostsFile), "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting the lab's names over /etc/hosts: %w", err)
	}
	return nil
}

// plug attaches a volume that came as a detached mount.
func plug(mount *os.File, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.MoveMount(int(mount.Fd()), "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attaching the volume at %s: %w", dir, err)
	}
	return nil
}

// start gives no parent death signal, in the fallback either: it would end a launcher and leave its etcd,
// which Clean then could not find by its parent.
func (h *host) start(q request, files []*os.File) (int, error) {
	attr := &syscall.ProcAttr{Dir: q.Dir, Env: q.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	return h.young.start(q.ID, q.Args[0], q.Args, attr)
}
