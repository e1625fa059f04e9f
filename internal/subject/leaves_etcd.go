// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"time"

	"github.com/ringproof/ringproof/reference/host"
)

var leavesEtcd = Mutant{
	Name:     "leaves-etcd",
	Hazard:   "A launcher that is told to end ends alone, and leaves an etcd that nobody looks after.",
	Source:   "kubermatic etcd-launcher: SIGTERM that doesn't reach etcd",
	Check:    "no-leftovers",
	Scenario: "create[etcd=v3.6.16,size=3]",
	SimOnly:  "in the others everything lives in a sandbox that ends with the run",
	layer: only(layer{host: func(h host.Host) host.Host {
		return machine{Host: h, process: deaf{h.Process(), h}}
	}}),
}

// deaf is a process that doesn't hear that it should stop.
type deaf struct {
	host.Process
	host host.Host
}

func (d deaf) Stop(context.Context, time.Duration) error {
	reached(d.host)
	return nil
}
