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
	layer: func() layer {
		u := &eager{}
		return layer{
			host: func(h host.Host) host.Host { return machine{Host: h, process: eagerProcess{h.Process(), u}} },
			store: func(h host.Host, s store.Store) store.Store {
				return hearing{s, func(ctx context.Context, asked store.Spec) error { return u.hears(ctx, h, asked) }}
			},
		}
	},
}

// eager is what a machine has heard to be asked for.
type eager struct{ version, from ring.Version }

// hears has a machine stop its etcd for what it hears, if that is new.
func (e *eager) hears(ctx context.Context, h host.Host, asked store.Spec) error {
	now := eager{asked.Version, asked.From}
	if now.from == "" || now == *e {
		return nil
	}
	*e = now
	reached(h)
	return h.Process().Stop(ctx, time.Second)
}

// hearing is a store in which a machine hears what is asked for before it goes by it.
type hearing struct {
	store.Store
	heard func(context.Context, store.Spec) error
}

func (s hearing) Get(ctx context.Context, key string) ([]byte, error) {
	text, err := s.Store.Get(ctx, key)
	var asked store.Spec
	if err != nil || !strings.HasPrefix(key, auto.SpecPrefix+"/") || json.Unmarshal(text, &asked) != nil {
		return text, err
	}
	return text, s.heard(ctx, asked)
}

type eagerProcess struct {
	host.Process
	*eager
}

// Start starts the release that is asked for.
func (p eagerProcess) Start(ctx context.Context, args []string) error {
	if p.from != "" {
		args[0] = strings.ReplaceAll(args[0], string(p.from), string(p.version))
	}
	return p.Process.Start(ctx, args)
}
