// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// grace is how long a cancelled sandbox may tidy up before it is killed.
const grace = 10 * time.Second

// settled is what machines-init writes once its namespaces are ready. Anything else is its complaint.
const settled = "settled"

// sandbox is one call of this executable in namespaces of its own.
type sandbox struct {
	args, env      []string
	stdin          io.Reader
	stdout, stderr io.Writer
}

// Sandbox runs this executable again, with args, in new PID, network, mount, UTS and IPC namespaces (and
// a user namespace where that is needed), and returns its exit code. SIGINT, SIGTERM and SIGHUP are
// passed on; when ctx ends, SIGTERM is sent, and SIGKILL ten seconds later. When this process dies,
// however it dies, so does all that is inside. All files are those of the host, but for /proc and
// /dev/shm; there is no network but the lab's.
//
// The error wraps errors.ErrUnsupported if this host has no namespaces for us: nothing was started then,
// and the caller may go on without a sandbox, where NewLab falls back.
func Sandbox(ctx context.Context, args, env []string) (code int, err error) {
	return sandbox{args, env, os.Stdin, os.Stdout, os.Stderr}.run(ctx)
}

func (s sandbox) run(ctx context.Context) (int, error) {
	if os.Getenv(withoutNamespaces) == "1" {
		return 0, unsupported("namespaces are switched off by %s=1: unset it", withoutNamespaces)
	}
	if Inside() {
		return 0, errors.New("refused to start a sandbox inside a sandbox: call Sandbox only when Inside is false")
	}
	// Real root needs no user namespace, and in some containers may not make one.
	var refused []string
	for _, user := range []bool{false, true} {
		if !user && os.Geteuid() != 0 {
			continue
		}
		code, err := s.try(ctx, user)
		if !errors.Is(err, errors.ErrUnsupported) {
			return code, err
		}
		refused = append(refused, strings.TrimSuffix(err.Error(), ": "+errors.ErrUnsupported.Error()))
	}
	return 0, unsupported("%s", strings.Join(refused, "; "))
}

func (s sandbox) try(ctx context.Context, user bool) (int, error) {
	alive, leash, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("opening the sandbox's leash: %w", err)
	}
	defer leash.Close()
	answer, verdict, err := os.Pipe()
	if err != nil {
		alive.Close()
		return 0, fmt.Errorf("opening the sandbox's verdict: %w", err)
	}
	defer answer.Close()

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	cmd := s.command(user, alive, verdict)
	started, ended := launch(cmd)
	err = <-started
	alive.Close()
	verdict.Close()
	if err != nil {
		return 0, unsupported("cannot make namespaces (%s): %v", flavour(user), err)
	}
	said, _ := io.ReadAll(answer)
	if string(said) != settled {
		leash.Close()
		<-ended
		return 0, unsupported("cannot furnish the namespaces (%s): %s", flavour(user), said)
	}
	return attend(ctx, cmd, signals, ended)
}

func (s sandbox) command(user bool, alive, verdict *os.File) *exec.Cmd {
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
		// A terminal's Ctrl-C goes to a whole process group: apart, the run gets it once, from us.
		Setpgid: true,
	}
	if user {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return &exec.Cmd{
		Path: self, Args: append([]string{os.Args[0], asInit}, s.args...), Env: s.env,
		Stdin: s.stdin, Stdout: s.stdout, Stderr: s.stderr,
		ExtraFiles: []*os.File{alive, verdict}, SysProcAttr: attr,
	}
}

// launch starts cmd from a thread that outlives it: the parent death signal is sent when the thread that
// forked dies, and Go ends idle threads at will.
func launch(cmd *exec.Cmd) (started, ended chan error) {
	started, ended = make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	return started, ended
}

// attend passes signals on until the sandbox has ended. A signal commonly cancels ctx too: the run is
// told once, for the second signal that it gets ends it at once, with its cleaning up undone.
func attend(ctx context.Context, cmd *exec.Cmd, signals <-chan os.Signal, ended <-chan error) (int, error) {
	cancelled := ctx.Done()
	var told, again bool
	for {
		select {
		case sig := <-signals:
			if !again {
				_ = cmd.Process.Signal(sig)
			}
			told, again = true, false
		case <-cancelled:
			cancelled = nil
			if !told {
				_ = cmd.Process.Signal(syscall.SIGTERM)
				again = true
			}
			defer time.AfterFunc(grace, func() { _ = cmd.Process.Kill() }).Stop()
		case err := <-ended:
			var failed *exec.ExitError
			if err != nil && !errors.As(err, &failed) {
				return 0, fmt.Errorf("waiting for the sandbox: %w", err)
			}
			return exitCode(cmd.ProcessState.Sys().(syscall.WaitStatus)), nil
		}
	}
}

func flavour(user bool) string {
	if user {
		return "with a user namespace"
	}
	return "as root"
}
