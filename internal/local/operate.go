// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/observe"
)

// operate carries out what an operator asks.
func (w *World) operate(ctx context.Context, op ringproof.Op, targets []string) (string, error) {
	ask := func() (string, error) { return w.Subject.Ask(ctx, op, targets, w.runner(ctx)) }
	switch op.Kind {
	case ringproof.OpRestart:
		if op.Changes() {
			if _, err := ask(); err != nil {
				return "", err
			}
		}
		return w.restart(ctx, w.node(targets[0]), op)
	case ringproof.OpRoll:
		return observe.Roll(ctx, w.Observe, func(ctx context.Context, machine string) (string, error) {
			return w.restart(ctx, w.node(machine), op)
		})
	case ringproof.OpReset:
		return w.reset(ctx, op, w.node(targets[0]))
	case ringproof.OpSnapshot:
		return w.backUp(ctx)
	}
	return ask()
}

// backUp has the subject write what the ring holds into a file, and reads that.
func (w *World) backUp(ctx context.Context) (string, error) {
	file := filepath.Join(w.dir, w.tool("snapshot")+".db")
	b, err := observe.Backup(w.Now, func() ([]byte, error) {
		if _, err := w.Subject.Snapshot(ctx, file, w.runner(ctx)); err != nil {
			return nil, err
		}
		return os.ReadFile(file)
	}, func([]byte) (int64, []ringproof.KV, error) { return readSnapshot(file) })
	if err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backups = append(w.backups, b)
	return b.String(), nil
}

// restart ends in order what the operation says, and waits until the subject has
// the member serving again, or the ring has let it go meanwhile.
func (w *World) restart(ctx context.Context, n *node, op ringproof.Op) (string, error) {
	if n == nil {
		return "", errors.New("there is no such machine")
	}
	etcd, life := w.etcd(n), w.life(n)
	said, err := w.end(ctx, n, op)
	if err != nil {
		return "", err
	}
	for ctx.Err() == nil {
		if err := w.Sleep(ctx, 100*time.Millisecond); err != nil {
			break
		}
		o, err := w.Observe(ctx)
		m, on := o.On(n.name)
		now := w.life(n)
		again := w.etcd(n) != etcd || op.Scope == "agent" && now != 0 && now != life
		switch {
		case err == nil && o.Fresh && !on:
			return said + ", and its member has left meanwhile", nil
		case err == nil && on && m.Serving && again:
			return said, nil
		}
	}
	return "", fmt.Errorf("restarting %s: its member does not serve again: %w", n.name, ctx.Err())
}

// end ends what the operation says, and tells what heard of it.
func (w *World) end(ctx context.Context, n *node, op ringproof.Op) (string, error) {
	if !op.Ends() {
		e, err := w.signalEtcd(n, syscall.SIGTERM)
		return e.String(), err
	}
	said, err := w.stop(ctx, n, op)
	if err != nil {
		return "", err
	}
	if op.Scope != "machine" {
		return said, nil
	}
	e, err := n.machine.PowerOff()
	err = errors.Join(err, w.Sleep(ctx, op.For.Std()))
	if err != nil {
		return "", err
	}
	if _, err := n.machine.PowerOn(ctx); err != nil {
		return "", err
	}
	return said + "; " + e.String(), w.afterBoot(ctx, n)
}

// stop ends the agent as an init system does, and with it the etcd of a service: it is
// told to, and killed when it takes too long.
func (w *World) stop(ctx context.Context, n *node, op ringproof.Op) (said string, err error) {
	life, how := w.life(n), w.Subject.Stop()
	w.mark(n, func() { n.down = op.For.Std() })
	e, err := w.signalAgent(n, how.Signal)
	if err != nil && life != 0 {
		return "", err
	}
	said = e.String()
	if op.Scope == "service" {
		e, err := w.signalEtcd(n, syscall.SIGTERM)
		if err != nil {
			return "", err
		}
		said += "; " + e.String()
	}
	for waited := time.Duration(0); w.life(n) == life; waited += 50 * time.Millisecond {
		if waited >= how.Grace {
			_, _ = w.signalAgent(n, syscall.SIGKILL) // it may end just now
			return said + fmt.Sprintf("; killed after %v", how.Grace), nil
		}
		if err := w.Sleep(ctx, 50*time.Millisecond); err != nil {
			return "", err
		}
	}
	return said, nil
}
