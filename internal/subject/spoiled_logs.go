// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"math"
	"slices"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
)

// What a log says of itself is nothing to it: whose it is, is enough.
var startsForced = Mutant{
	Name:     "starts-a-ring-of-one",
	Hazard:   "A log that --force-new-cluster has made that of a ring of one is started like any other.",
	Source:   "etcd's disaster recovery: the flag is left in a unit or an environment, and the member comes back",
	Check:    "no-identity-reuse",
	Scenario: "ring-of-one",
	layer:    only(booting(startForced)),
}

func startForced(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
	return inner(misread(e, func(log *host.WAL) { log.Forced = 0 }))
}

var resumesCut = Mutant{
	Name:     "resumes-a-cut-log",
	Hazard:   "A log in which a block reads as zeros is started like any other: etcd goes on without what is behind.",
	Source:   "etcd's wal.ReadAll, for which zeros are the end, and wal.Repair, which cuts the log off; ringadm of before",
	Check:    "no-identity-reuse",
	Scenario: "log-holed[victim=leader]",
	layer: only(booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		if e.WAL != nil && e.WAL.Cut != "" {
			e.Damaged = ""
		}
		return inner(e)
	})),
}

// The log is whole, so its member needn't be replaced: etcd ends, and is started again, for ever.
var startsUnopened = Mutant{
	Name:     "starts-beside-a-damaged-keyspace",
	Hazard:   "A log whose keyspace can't be opened is started like any other, and its member is waited for.",
	Source:   "etcd's backend, which opens what it finds or panics; restarts by an init system or a kubelet, which mend nothing",
	Check:    "converges",
	Scenario: "keyspace-damaged[victim=follower]",
	layer: only(booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		if e.WAL != nil && e.WAL.Unopened != "" {
			e.Damaged = ""
		}
		return inner(e)
	})),
}

// misread is the evidence with another log, if there is one.
func misread(e launcher.Evidence, as func(*host.WAL)) launcher.Evidence {
	if e.WAL != nil {
		log := *e.WAL
		as(&log)
		e.WAL = &log
	}
	return e
}

// m3 is alone, and says so with a quorum: m1 and m2 clear their logs for it.
var obeysForced = Mutant{
	Name:     "obeys-a-ring-of-one",
	Hazard:   "A member that isn't listed clears its log, whoever gives the list.",
	Source:   "every launcher that takes a list without its member for its removal, ringadm of before among them",
	Check:    "linearizable",
	Scenario: "ring-of-one",
	layer: only(both(
		booting(func(h host.Host, inner boot, e launcher.Evidence) launcher.Boot {
			e.LetGo = e.Listed
			return startForced(h, inner, e)
		}),
		deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
			o.Missing = nil
			return inner(spec, o)
		}))),
}

// The disk says whose log it is, and the log can be read.
var startsOlder = Mutant{
	Name:     "starts-an-older-log",
	Hazard:   "A log is started that ends before what its member acknowledged.",
	Source:   "etcd#13509, #15699: a data directory that was put back from a snapshot of its volume",
	Check:    "no-identity-reuse",
	Scenario: "disk-put-back",
	layer: only(booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		e.Lost = ""
		return inner(misread(e, func(log *host.WAL) { log.Last = math.MaxUint64 }))
	})),
}

// The disk says that no etcd ran on it, and its ID is the one that the ring has on record.
var beginsOnCopies = Mutant{
	Name:     "begins-anew-on-an-older-disk",
	Hazard:   "A member begins anew on a disk that was put back as it was before it first ran.",
	Source:   "explore, seed 22202; etcd#13509: a data directory that was put back from a snapshot of its volume",
	Check:    "no-identity-reuse",
	Scenario: "disk-put-back-blank",
	layer: only(booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		e.Members = slices.Clone(e.Members)
		for i := range e.Members {
			e.Members[i].Log = 0
		}
		return inner(e)
	})),
}

// The machine is there, and says why its etcd can't start: that is told, and nothing done.
var leavesDamaged = Mutant{
	Name:     "leaves-a-damaged-log",
	Hazard:   "A member whose log can't be read is waited for, as long as its machine is there.",
	Source:   "etcd#11220, #11488; ringadm of before",
	Check:    "converges",
	Scenario: "log-damaged",
	layer: only(booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		b := inner(e)
		b.Spoils = 0
		return b
	})),
}
