// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/ring"
)

// three is a ring of three whose records were deleted: m1 leads, and each machine
// tells that its disk holds its member's log.
func three() ring.Observed {
	o := ring.Observed{Listed: true}
	for i, name := range []string{"m1", "m2", "m3"} {
		id, url := ring.ID(i+1), "https://"+name+":2380"
		o.Members = append(o.Members, ring.Member{ID: id, Name: name, Machine: name, PeerURL: url, Serving: true, Ready: true, Leader: i == 0})
		o.Machines = append(o.Machines, ring.Machine{Name: name, PeerURL: url, Disk: "disk-" + name, Present: true, Versions: releases, Told: true, Holds: id, Registered: true})
	}
	return o
}

// TestRecordsAreMadeAnew: a member is bound to the disk that holds its log, and to
// no other, whatever else is known.
func TestRecordsAreMadeAnew(t *testing.T) {
	next := func(change func(*ring.Observed)) ring.Decision {
		o := three()
		change(&o)
		return ring.Next(ring.Spec{Nodes: 3, Version: asked, ReplaceAfter: time.Minute}, o)
	}
	bound := func(o *ring.Observed, but ring.ID) {
		for i, m := range o.Members {
			if m.ID != but {
				o.Members[i].Disk = "disk-" + m.Name
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*ring.Observed)
		want   string
	}{
		{"each disk holds its log", func(*ring.Observed) {}, "ringadm member bind 1 --machine m1 --disk disk-m1"},
		{"nobody has told yet", func(o *ring.Observed) { o.Machines[0].Told, o.Machines[0].Holds = false, 0 },
			"wait: the record of member m1 (1) is gone, and its machine has not said yet whose log it holds"},
		{"another machine holds a copy", func(o *ring.Observed) {
			bound(o, 2)
			o.Machines[1].Present = false
			o.Machines[2].Holds = 2
		}, "wait: steady"},
		{"the disk was replaced since", func(o *ring.Observed) {
			bound(o, 2)
			o.Members[1].Serving = false
			o.Machines[1].Disk, o.Machines[1].Holds = "new", 0
		}, "ringadm member remove 2"},
		{"a learner that never started may have been bound elsewhere", func(o *ring.Observed) {
			o.Members = append(o.Members, ring.Member{ID: 4, Machine: "m4", PeerURL: "https://m4:2380", Learner: true})
		}, "ringadm member remove 4"},
		{"nobody's machine", func(o *ring.Observed) {
			bound(o, 2)
			o.Machines = o.Machines[:1]
		}, "halt: member 2 at https://m2:2380 is bound to no disk of this ring: somebody else added it"},
		{"of a ring whose store has no space", func(o *ring.Observed) { o.Alarms = []ring.Alarm{{Kind: ring.NoSpace, Member: 1}} },
			"halt: member m1 (1) has no space left (alarm NOSPACE): etcd refuses every write, the clients' and those of the automation"},
		{"a member holds other data", func(o *ring.Observed) {
			bound(o, 0)
			o.Alarms, o.Members[2].Serving = []ring.Alarm{{Kind: ring.Corrupt, Member: 3}}, false
		},
			"halt: member m3 (3) holds other data than the rest (alarm CORRUPT): etcd refuses every write, the clients' and those of the automation"},
		{"most of those on record are not listed, and nobody let them go", func(o *ring.Observed) {
			bound(o, 0)
			o.Members, o.Recorded, o.Missing = o.Members[:1], 1, []ring.ID{2, 3}
		}, "halt: of 3 members on record 2 are not listed, and nobody let them go: if this ring was begun anew from one of them (--force-new-cluster), the logs of the others may hold more, and nothing there is touched"},
		{"one of two on record was removed by hand, and the record of the third is gone", func(o *ring.Observed) {
			o.Members[0].Disk = "disk-m1"
			o.Members, o.Recorded, o.Missing = o.Members[:2], 1, []ring.ID{3}
		}, "ringadm member bind 2 --machine m2 --disk disk-m2"},
		{"one of two on record was removed by hand, and the record of the third is gone, whose machine has not spoken yet", func(o *ring.Observed) {
			o.Members[0].Disk = "disk-m1"
			o.Members, o.Recorded, o.Missing = o.Members[:2], 1, []ring.ID{3}
			o.Machines[1].Told = false
		}, "wait: the record of member m2 (2) is gone, and its machine has not said yet whose log it holds"},
		{"one of those on record was removed by hand", func(o *ring.Observed) {
			bound(o, 0)
			o.Members, o.Recorded, o.Missing = o.Members[:2], 2, []ring.ID{3}
		}, "ringadm member add m3 --peer-url https://m3:2380 --disk disk-m3"},
		{"one of those on record was removed by hand, and its disk is not emptied yet", func(o *ring.Observed) {
			bound(o, 0)
			o.Members, o.Recorded, o.Missing = o.Members[:2], 2, []ring.ID{3}
			o.Machines[2].Used = true
		}, "wait: more voters are asked for, and no machine is free"},
		{"a log may never run again", func(o *ring.Observed) {
			bound(o, 0)
			o.Members[2].Serving, o.Machines[2].Spoiled, o.Machines[2].Failing = false, 3, "crc mismatch"
		}, "ringadm member remove 3"},
		{"the data of one that serves were removed", func(o *ring.Observed) {
			bound(o, 0)
			o.Machines[2].Spoiled = 3
		}, "ringadm member remove 3"},
		{"the data of the leader were removed", func(o *ring.Observed) {
			bound(o, 0)
			o.Machines[0].Spoiled = 1
		}, "ringadm member move-leader 2"},
		{"the data of all were removed, and no machine is free", func(o *ring.Observed) {
			bound(o, 0)
			for i := range o.Machines {
				o.Machines[i].Spoiled = ring.ID(i + 1)
			}
		}, "ringadm member move-leader 2"},
		{"a log may never run again, and its record is gone", func(o *ring.Observed) {
			bound(o, 3)
			o.Members[2].Serving, o.Machines[2].Spoiled, o.Machines[2].Failing = false, 3, "crc mismatch"
			o.Machines[2].Told, o.Machines[2].Holds = false, 0
		}, "ringadm member remove 3"},
		{"another was removed, and the one without a record serves, whose machine doesn't speak", func(o *ring.Observed) {
			bound(o, 1)
			o.Members, o.Recorded = o.Members[:2], 1
			o.Machines[0].Present, o.Machines[0].Told, o.Machines[0].Holds = false, false, 0
		}, "wait: more voters are asked for, and nobody is added while the record of m1 (1) is missing"},
		{"a log may never run again, and was another member's", func(o *ring.Observed) {
			bound(o, 0)
			o.Machines[2].Spoiled = 9
		}, "wait: steady"},
		{"a log may never run again, and too few of the others answer", func(o *ring.Observed) {
			bound(o, 0)
			o.Members[1].Serving, o.Members[2].Serving, o.Machines[2].Spoiled = false, false, 3
		}, "wait: the disk of m3 (3) is lost, and only 1 of the other 2 voters answer: no quorum of the rest"},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, next(c.change).String()) })
	}
	for _, command := range next(func(o *ring.Observed) { o.Machines = nil }).Commands {
		require.NotContains(t, command, "remove", "the leader serves")
	}
}

// TestCorruptMembersAdvice: of an only voter's data there is no other copy, so nobody is told to
// remove it, also while a learner is on its way.
func TestCorruptMembersAdvice(t *testing.T) {
	advice := func(members int, learner bool) []string {
		o := three()
		o.Members = o.Members[:members]
		for i, m := range o.Members {
			o.Members[i].Disk = "disk-" + m.Name
			o.Members[i].Learner = learner && i > 0
		}
		o.Alarms = []ring.Alarm{{Kind: ring.Corrupt, Member: 1}}
		return ring.Next(ring.Spec{Nodes: members, Version: asked, ReplaceAfter: time.Minute}, o).Commands
	}
	require.Contains(t, advice(3, false), "ringadm member remove 1")
	require.NotContains(t, advice(1, false), "ringadm member remove 1")
	require.NotContains(t, advice(2, true), "ringadm member remove 1")
	require.NotEmpty(t, advice(1, false))
}
