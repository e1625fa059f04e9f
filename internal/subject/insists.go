// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
)

// Nothing comes of it as long as the quorum is gone. But one of the machines comes back, and
// the removal that was asked for of it is carried out.
var insists = Mutant{
	Name:     "insists",
	Hazard:   "Where no list can be read with a quorum, the removal of a member is asked for by the list that one member keeps.",
	Source:   "etcd-launcher decides on a list that one member keeps, and removes whom it can't reach",
	Check:    "disaster",
	Scenario: "majority-disks-lost",
	layer: func() layer {
		i := &insistence{}
		return asking(func(h host.Host, c host.Etcd) host.Etcd { return insisting{c, h, i} })
	},
}

// insistence is since when no list could be read, by the host's monotonic clock, and whether a
// removal was asked for.
type insistence struct {
	since time.Duration
	asked bool
}

type insisting struct {
	host.Etcd
	host host.Host
	*insistence
}

func (i insisting) MemberList(ctx context.Context, how ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	list, err := i.Etcd.MemberList(ctx, how...)
	if now := i.host.Monotonic(); err == nil {
		i.since = 0
	} else if i.since == 0 {
		i.since = now
	} else if now-i.since > 20*time.Second && !i.asked {
		i.insist(ctx)
	}
	return list, err
}

// insist asks for the removal of the first that the member lists besides itself.
func (i insisting) insist(ctx context.Context) {
	ctx, cancel := i.host.Timeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	list, err := i.Etcd.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return
	}
	k := slices.IndexFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.ID != list.Header.MemberId })
	if k < 0 {
		return
	}
	i.asked = true
	reached(i.host)
	line := host.Line{Event: host.EventActionBegun, Action: "remove", Target: list.Members[k].Name, Text: "it does not answer"}
	i.host.Log(line)
	if _, err := i.MemberRemove(ctx, list.Members[k].ID); err != nil {
		line.Event, line.Text = host.EventActionFailed, err.Error()
		i.host.Log(line)
	}
}
