// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// Each machine does what it was told, and none asks the others. In a ring whose members
// come up within a second clients hardly notice.
var upgradesAtOnce = Mutant{
	Name:     "upgrades-at-once",
	Hazard:   "Each machine restarts its etcd with another release as soon as it hears that it is asked for.",
	Source:   "kops etcd-manager: a restart by hand of all nodes; configuration management that restarts a unit when its file changes",
	Check:    "upgrade-in-order",
	Scenario: "upgrade[size=5]",
	Undrawn:  "no plan that is drawn asks for an upgrade",
	layer: func() layer {
		u := &eager{}
		return layer{
			host:  func(h host.Host) host.Host { return machine{Host: h, process: eagerProcess{h.Process(), u}} },
			store: func(h host.Host, s store.Store) store.Store { return eagerStore{s, h, u} },
		}
	},
}

// eager is what a machine has heard to be asked for.
type eager struct {
	Version ring.Version `json:"version"`
	From    ring.Version `json:"from"`
}

type eagerStore struct {
	store.Store
	host host.Host
	*eager
}

func (s eagerStore) Get(ctx context.Context, key string) ([]byte, error) {
	text, err := s.Store.Get(ctx, key)
	var asked eager
	if err != nil || !strings.HasPrefix(key, auto.SpecPrefix+"/") || json.Unmarshal(text, &asked) != nil || asked.From == "" || asked == *s.eager {
		return text, err
	}
	*s.eager = asked
	reached(s.host)
	return text, s.host.Process().Stop(ctx, time.Second)
}

type eagerProcess struct {
	host.Process
	*eager
}

// Start starts the release that is asked for.
func (p eagerProcess) Start(ctx context.Context, args []string) error {
	if p.From != "" {
		args[0] = strings.ReplaceAll(args[0], string(p.From), string(p.Version))
	}
	return p.Process.Start(ctx, args)
}
