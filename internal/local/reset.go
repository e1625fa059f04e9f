// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/trial"
)

// reset ends the machine's agent in order, has the subject empty its disk, and
// starts the agent again.
func (w *World) reset(ctx context.Context, op ringproof.Op, n *node) (said string, err error) {
	if n == nil || n.lost || n.taken || !n.machine.On() {
		return "", fmt.Errorf("%s is off", op.Target)
	}
	tag := w.tool("reset")
	w.hold(n, tag)
	defer func() {
		if failed := w.letGo(context.WithoutCancel(ctx), n, tag); err == nil {
			err = failed
		}
	}()
	if _, err := w.end(ctx, n, op); err != nil {
		return "", err
	}
	return w.Subject.Reset(ctx, w.place(n), op.Endpoint, w.runner(ctx))
}

// tool names a command of an operator's.
func (w *World) tool(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tools++
	return fmt.Sprintf("%s-%d", name, w.tools)
}

// runner runs programs on machines, as long as ctx lasts.
func (w *World) runner(ctx context.Context) trial.Run {
	return func(machine string, program func(trial.Machine) trial.Program) (string, error) {
		n := w.node(w.plan.Ring.Machine(machine))
		if machine == "" {
			n = w.someone()
		}
		if n == nil {
			return "", errors.New(strings.TrimSpace("there is no machine "+machine) + " on which a person could sit")
		}
		return w.run(ctx, n, program(w.place(n)))
	}
}

// someone is the first machine at which a person could sit; nil: none is on.
func (w *World) someone() *node {
	for _, n := range w.present() {
		if n.machine.On() && !n.taken && !n.paused {
			return n
		}
	}
	return nil
}

// run runs a program on the machine, and returns what it printed.
func (w *World) run(ctx context.Context, n *node, p trial.Program) (string, error) {
	var mu sync.Mutex
	var lines []string
	hear := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}
	tag := w.tool("command")
	if err := n.machine.Start(ctx, machines.Command{Tag: tag, Args: p.Args, Env: p.Environment(), Stdout: hear, Stderr: hear}); err != nil {
		return "", err
	}
	e, err := n.machine.Wait(ctx, tag)
	if err != nil {
		_, _ = n.machine.Signal(tag, syscall.SIGKILL) // nobody waits for it any more
	}
	mu.Lock()
	defer mu.Unlock()
	said := strings.Join(lines, " ")
	if err == nil && e.Code != 0 {
		err = trial.Failure{Program: strings.Join(slices.Concat([]string{filepath.Base(p.Args[0])}, p.Args[1:]), " "), Code: e.Code, Said: said}
	}
	return said, err
}
