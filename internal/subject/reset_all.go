// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"time"

	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/store"
)

// Each agent watches the machines' records in the store. When any machine has
// a new disk every pod is deleted, and comes back when it is scheduled and has
// its volume and its image.
var resetAll = Mutant{
	Name:     "reset-all",
	Hazard:   "A lost volume makes every member restart, also those that have lost nothing.",
	Source:   "kubermatic etcd-launcher B8 (pvwatcher deletes all pods of the ring)",
	Check:    "available",
	Scenario: "volume-lost",
	layer: func() layer {
		w := &volumeWatch{disks: map[string]string{}}
		return layer{
			host: func(h host.Host) host.Host {
				w.Process, w.host = h.Process(), h
				return machine{Host: h, process: w}
			},
			store: func(_ host.Host, s store.Store) store.Store {
				w.store = s
				return s
			},
		}
	},
}

const (
	watchPace  = 300 * time.Millisecond
	podRestart = 5 * time.Second
)

// volumeWatch is a process that is restarted when any machine has a new disk.
type volumeWatch struct {
	host.Process
	host   host.Host
	store  store.Store
	looked time.Time
	disks  map[string]string // by machine
}

func (w *volumeWatch) Running() ([]string, error) {
	lost := w.lost() // asked first: one that is down when it happens has no pod to delete
	args, err := w.Process.Running()
	if args == nil || err != nil || !lost {
		return args, err
	}
	reached(w.host)
	ctx := context.Background()
	if err := w.Stop(ctx, time.Second); err != nil {
		return args, err
	}
	return nil, w.host.Sleep(ctx, podRestart)
}

// lost reports whether a machine has another disk than when it looked last.
func (w *volumeWatch) lost() bool {
	if now := w.host.Now(); w.store == nil || now.Sub(w.looked) < watchPace {
		return false
	} else {
		w.looked = now
	}
	ctx, cancel := w.host.Timeout(context.Background(), time.Second)
	defer cancel()
	machines, err := auto.Machines(ctx, w.store)
	lost := false
	for name, m := range machines {
		lost = lost || w.disks[name] != "" && w.disks[name] != m.Disk
		w.disks[name] = m.Disk
	}
	return lost && err == nil
}
