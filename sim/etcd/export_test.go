// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"github.com/coreos/go-semver/semver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
)

// Records counts what a start reads.
func (d *Dir) Records() int { return d.wal.Len() }

// Of is what the members of a world take an entry to ask for.
func (q *Requests) Of(e *raftpb.Entry) *pb.InternalRaftRequest { return q.of(e) }

// Forget has the next start make all of the log again.
func (d *Dir) Forget() { d.made = made{} }

// GoesOn reports whether a start of that release need not.
func (d *Dir) GoesOn(release string) bool {
	return d.ready(d.read(), *semver.New(release)) != nil
}
