// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/ring"
)

// TestAnotherOfItsNameIsNoLostDisk: m2 has been away for long, and a machine of its
// name, at another address and with another disk, is there.
func TestAnotherOfItsNameIsNoLostDisk(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*ring.Observed)
		want   string
	}{
		{"the other takes its place, as nobody else can", func(*ring.Observed) {}, "ringadm member remove 2"},
		{"its member answers", func(o *ring.Observed) { o.Members[1].Serving, o.Members[1].Silent = true, 0 }, "wait: steady"},
		{"its member was heard of a while ago", func(o *ring.Observed) { o.Members[1].Silent = time.Second },
			"wait: voter m2 (2) does not answer"},
		{"it was heard of a while ago itself", func(o *ring.Observed) { o.Machines[1].Absent = time.Second },
			"wait: voter m2 (2) does not answer"},
		{"the other can run no etcd", func(o *ring.Observed) { o.Machines[1].Versions = nil },
			"wait: voter m2 (2) is gone; add a machine to take its place"},
		{"a learner is on its way", func(o *ring.Observed) {
			o.Members = append(o.Members, ring.Member{ID: 4, Machine: "m4", Disk: "disk-m4", PeerURL: "https://m4:2380", Learner: true})
			o.Machines = append(o.Machines, ring.Machine{Name: "m4", PeerURL: "https://m4:2380", Disk: "disk-m4", Present: true, Versions: releases})
		}, "wait: learner m4 (4) has not started"},
		{"its own address, and another disk", func(o *ring.Observed) { o.Machines[1].PeerURL = o.Members[1].PeerURL }, "ringadm member remove 2"},
		{"its own disk, at another address", func(o *ring.Observed) { o.Machines[1].Disk = o.Members[1].Disk },
			"wait: voter m2 (2) does not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := three()
			for i := range o.Members {
				o.Members[i].Disk = o.Machines[i].Disk
			}
			o.Members[1].Serving, o.Members[1].Silent = false, time.Hour
			o.Machines[1] = ring.Machine{Name: "m2", PeerURL: "https://clone:2380", Disk: "new", Present: true, Versions: releases, Absent: time.Hour}
			c.change(&o)
			require.Equal(t, c.want, ring.Next(ring.Spec{Nodes: 3, Version: asked, ReplaceAfter: time.Minute}, o).String())
		})
	}
}
