// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"
	"time"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/store"
)

// The other three of five hold the quorum, and nobody notices: not before one of them is
// lost meanwhile.
var movesInBatches = Mutant{
	Name:     "moves-in-batches",
	Hazard:   "Two members at a time are restarted as their peers are asked to speak TLS, while the others hold the quorum.",
	Source:   "Kubernetes' MaxUnavailableStatefulSet: a rollout takes down as many at a time as it was told that it may",
	Check:    "restarts-in-turn",
	Scenario: "peers-encrypted[size=5]",
	layer: func() layer {
		b := &batch{}
		return layer{
			host: func(h host.Host) host.Host { return machine{Host: h, process: batchedProcess{h.Process(), h, b}} },
			store: func(h host.Host, s store.Store) store.Store {
				return hearing{s, func(ctx context.Context, asked store.Spec) error { return b.hears(ctx, h, asked) }}
			},
		}
	},
}

// batch is whether the machine was restarted with the others of its batch, and has begun to
// start again.
type batch struct{ ended, begun bool }

// hears has two of the machines stop their etcds once they hear that peers are to move.
func (b *batch) hears(ctx context.Context, h host.Host, asked store.Spec) error {
	if b.ended || asked.PeersFrom == "" {
		return nil
	}
	runs, err := h.Process().Running()
	if err != nil || !slices.Contains(runs, "--name=m4") && !slices.Contains(runs, "--name=m5") {
		return err
	}
	b.ended = true
	reached(h)
	return h.Process().Stop(ctx, time.Second)
}

type batchedProcess struct {
	host.Process
	host host.Host
	*batch
}

func (p batchedProcess) Start(ctx context.Context, args []string) error {
	if p.ended && !p.begun { // as long as a large database takes to load
		p.begun = true
		_ = p.host.Sleep(ctx, 2*time.Second)
	}
	return p.Process.Start(ctx, args)
}
