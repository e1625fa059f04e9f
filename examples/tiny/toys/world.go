// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package toys

import (
	"context"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness/cli"
	"github.com/ringproof/ringproof/sim"
)

// World is a world: the simulated one, in which etcd may nap.
func World() cli.World {
	w := cli.Sim()
	w.Name, w.Short = "toy", "simulated, with naps"
	w.Doc = "the simulated world, in which etcd may nap"
	w.Supports = supports
	open := w.Open
	w.Open = func(t cli.Trial) (ringproof.World, error) {
		inner, err := open(t)
		if err != nil {
			return nil, err
		}
		return &world{inner.(*sim.World)}, nil
	}
	return w
}

func supports(s ringproof.Step) error {
	if s.Fault != nil && s.Fault.Kind == Nap.Kind {
		return nil
	}
	return sim.Supports(s)
}

type world struct{ *sim.World }

func (w *world) Name() string { return "toy" }

func (w *world) Supports(s ringproof.Step) error { return supports(s) }

// Do puts etcd to sleep, and does all else as ever.
func (w *world) Do(ctx context.Context, s ringproof.Step, targets []string) (string, error) {
	return w.World.Do(ctx, asleep(s), targets)
}

// Heal wakes it up.
func (w *world) Heal(ctx context.Context, s ringproof.Step, targets []string) error {
	return w.World.Heal(ctx, asleep(s), targets)
}

// asleep is the step as the simulated world knows it.
func asleep(s ringproof.Step) ringproof.Step {
	if s.Fault == nil || s.Fault.Kind != Nap.Kind {
		return s
	}
	pause := ringproof.Fault{Kind: ringproof.FaultPause, Target: s.Fault.Target, Scope: "process", For: s.Fault.For}
	if s.Fault.Params["sleep"] == "deep" {
		pause.Scope = "machine"
	}
	s.Fault = &pause
	return s
}
