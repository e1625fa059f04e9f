// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package toys

import (
	"context"
	"strings"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness/cli"
	"github.com/ringproof/ringproof/sim"

	"example.com/tiny"
)

// Polite is a subject: tiny, which can be greeted.
func Polite() cli.Subject {
	s := tiny.Subject()
	s.Name = "polite"
	s.Ways = []any{cli.InSim(func([]string) (sim.Subject, error) { return &polite{}, nil })}
	s.Supports = func(step ringproof.Step) error {
		if step.Op != nil && step.Op.Kind == Greet.Kind {
			return nil
		}
		return tiny.Subject().Supports(step)
	}
	return s
}

type polite struct{ tiny.Launcher }

// Ask says the word back.
func (p *polite) Ask(ctx context.Context, op ringproof.Op, targets []string) (string, error) {
	if op.Kind != Greet.Kind {
		return p.Launcher.Ask(ctx, op, targets)
	}
	return strings.Repeat(op.Params["word"]+"! ", max(1, len(op.Params["times"]))), nil
}
