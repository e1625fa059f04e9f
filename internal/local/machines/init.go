// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// private is where the sandbox keeps its own files: a new IPC namespace wants a new /dev/shm anyway, and
// no directory has to be made for it on the host.
const private = "/dev/shm"

// beInit is process 1 of the sandbox. When it returns, the kernel ends all that is inside.
func beInit(args []string) int {
	leash, verdict := os.NewFile(3, "leash"), os.NewFile(4, "verdict")
	keepToSelf()
	go func() {
		// Nobody writes to the leash: a read returns when the process outside is gone.
		_, _ = leash.Read(make([]byte, 1))
		os.Exit(128 + int(syscall.SIGKILL))
	}()
	if err := furnish(); err != nil {
		fmt.Fprint(verdict, err)
		return 1
	}
	fmt.Fprint(verdict, settled)
	verdict.Close()
	return raise(append([]string{os.Args[0]}, args...))
}

// keepToSelf marks every open file but the standard three as not for programs: whoever started us may have
// left some open.
func keepToSelf() {
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // since Linux 5.11
}

func furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := freshProc(); err != nil {
		return err
	}
	if err := freshPrivate(); err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the loopback device: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bringing the loopback device up: %w", err)
	}
	return nil
}

func freshProc() error {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting a fresh /proc: %w", err)
	}
	return nil
}

func freshPrivate() error {
	if err := unix.Mount("ringproof", private, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mounting a private %s: %w", private, err)
	}
	return nil
}

// raise starts the run, passes signals on to it and returns its exit code.
func raise(args []string) int {
	end := make(chan int, 1)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	n := newNursery(func(_ uint64, _ int, s syscall.WaitStatus) { end <- exitCode(s) })
	pid, err := n.start(1, self, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		fmt.Fprintf(os.Stderr, "machines: starting the run in its sandbox: %v\n", err)
		return 1
	}
	for {
		select {
		case sig := <-signals:
			_ = syscall.Kill(pid, sig.(syscall.Signal))
		case code := <-end:
			return code
		}
	}
}
