// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
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
	Undrawn:  "no plan that is drawn moves peers to TLS",
	layer: func() layer {
		b := &batch{}
		return layer{
			host:  func(h host.Host) host.Host { return machine{Host: h, process: batchedProcess{h.Process(), h, b}} },
			store: func(h host.Host, s store.Store) store.Store { return batchedStore{s, h, b} },
		}
	},
}

// batch is whether the machine was restarted with the others of its batch, and has begun to
// start again.
type batch struct{ ended, begun bool }

type batchedStore struct {
	store.Store
	host host.Host
	*batch
}

func (s batchedStore) Get(ctx context.Context, key string) ([]byte, error) {
	text, err := s.Store.Get(ctx, key)
	var asked struct {
		From ring.Security `json:"peersFrom"`
	}
	if err != nil || s.ended || !strings.HasPrefix(key, auto.SpecPrefix+"/") || json.Unmarshal(text, &asked) != nil || asked.From == "" {
		return text, err
	}
	runs, err := s.host.Process().Running()
	if err != nil || !slices.Contains(runs, "--name=m4") && !slices.Contains(runs, "--name=m5") {
		return text, err
	}
	s.ended = true
	reached(s.host)
	return text, s.host.Process().Stop(ctx, time.Second)
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
