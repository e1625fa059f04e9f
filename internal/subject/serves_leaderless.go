// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
)

// A member that hears no peer answers who asks for its status. Of three, one is so, and another's
// etcd is ended to upgrade it.
var servesLeaderless = Mutant{
	Name:     "serves-without-a-leader",
	Hazard:   "A member that answers for its status is taken for one that serves, also when it has no leader.",
	Source:   "health by whether an endpoint answers: probes of /version, of /health?serializable=true, or of the port",
	Check:    "upgrade-in-order",
	Scenario: "peer-port-cut[voter=3]",
	layer:    only(asking(func(h host.Host, c host.Etcd) host.Etcd { return everLed{c, h} })),
}

// everLed is a client to whom each member that answers has a leader.
type everLed struct {
	host.Etcd
	host host.Host
}

func (l everLed) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	is, err := l.Etcd.Status(ctx, endpoint)
	if err == nil && is.Leader == 0 {
		reached(l.host)
		is.Leader = is.Header.MemberId
	}
	return is, err
}
