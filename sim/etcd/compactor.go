// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// compactor compacts on its own, while its member leads: all but the last revisions
// (v3compactor/revision.go), or what is older than a period (v3compactor/periodic.go).
type compactor struct {
	server *Server
	every  time.Duration // it looks
	kept   int64         // revisions; only if there is no period
	period time.Duration
	seen   []int64       // revisions of the last period, by age
	last   int64         // it compacted at
	since  time.Duration // it last did, or began
	wait   time.Duration // until the next
}

// revisionEvery is how often etcd compacts by revisions.
const revisionEvery = 5 * time.Minute

// compactOnItsOwn begins what --auto-compaction-retention asks for.
func (s *Server) compactOnItsOwn() {
	kept := s.config.Retention
	c := compactor{server: s, every: revisionEvery, kept: int64(kept), since: s.now(), seen: []int64{s.state.kv.Revision()}}
	if s.config.CompactionMode != "revision" {
		c.period, c.wait, c.every = kept, kept, min(kept, time.Hour)/10
	}
	if kept > 0 {
		s.host.After(c.every, c.look)
	}
}

func (c *compactor) look() {
	s := c.server
	s.host.After(c.every, c.look)
	if at := c.due(); s.lead == s.id && at > 0 && at != c.last {
		s.propose(&pb.InternalRaftRequest{Compaction: &pb.CompactionRequest{Revision: at}}, func(_ any, err error) {
			if err == nil || err == rpctypes.ErrGRPCCompacted {
				c.last, c.since, c.wait = at, s.now(), min(c.period, time.Hour)
			}
		})
	}
	if c.seen = append(c.seen, s.state.kv.Revision()); len(c.seen) > int(c.period/c.every)+1 {
		c.seen = c.seen[1:]
	}
}

// due is the revision to compact at: 0 for none.
func (c *compactor) due() int64 {
	switch {
	case c.period == 0:
		return c.server.state.kv.Revision() - c.kept
	case c.server.now()-c.since < c.wait:
		return 0
	}
	return c.seen[0]
}
