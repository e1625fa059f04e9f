// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcdbin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

var errNoGo = errors.New("the go command, which builds etcd, is not on PATH; install Go, or give a build of your own with --etcd-bin DIR")

// goCommand runs the go command in dir, away from the settings of whatever
// project the person stands in. Its own temporary files stay in dir, so that
// they go with it. The checksum database is left on.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return "", errNoGo
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PWD="+dir, "GO111MODULE=on", "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0",
		"GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH, "GOTMPDIR="+dir)
	return run(ctx, cmd)
}

// run returns what cmd writes to stdout. When ctx ends it kills cmd and every
// process that cmd started: the go command leaves its compilers running.
func run(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	endTogether(cmd)
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	name := filepath.Base(cmd.Path)
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s was stopped: %w", name, whyEnded(ctx))
	case err != nil:
		return "", fmt.Errorf("%s %s: %w: %s", name, cmd.Args[1], err, ending(stderr.String()))
	}
	return stdout.String(), nil
}

// whyEnded tells the signal or the reason, and is still a context.Canceled or
// a context.DeadlineExceeded to those who look for one.
func whyEnded(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

// ending keeps the last lines of what a command complained about, without the
// go command's notes on its downloads.
func ending(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "go: downloading ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

// lock makes this the only build of v on the machine, until unlock. The file
// stays: removing it would let two builders lock two files of one name.
func (c Cache) lock(ctx context.Context, p part, say func(string)) (unlock func(), err error) {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("no folder to keep etcd releases in: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(c.Dir, ".lock-"+p.String()), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the cache of etcd releases: %w", err)
	}
	if err := wait(ctx, file, say); err != nil {
		file.Close()
		return nil, fmt.Errorf("cannot lock the cache of etcd releases: %w", err)
	}
	return func() { file.Close() }, nil
}

// wait polls, because a blocked flock cannot be cancelled.
func wait(ctx context.Context, file *os.File, say func(string)) error {
	for told := false; ; told = true {
		err := lock(file)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		if !told {
			say("waiting for another build of it")
		}
		select {
		case <-ctx.Done():
			return whyEnded(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
