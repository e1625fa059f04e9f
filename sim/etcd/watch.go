// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3"

	"github.com/ringproof/ringproof/sim/etcd/mvcc"
)

// WatchStream is one Watch stream of a client.
type WatchStream struct {
	server        *Server
	send          func(*pb.WatchResponse)
	end           func(error)
	requireLeader bool
	closed        bool
	watches       []*watch // by age
	next          int64    // ID
}

// watch is one of a stream's. What the keyspace has and it hasn't sent, it sends
// as soon as it is applied.
type watch struct {
	*mvcc.Watch
	id     int64
	start  int64
	remind bool // at the next interval, unless an event comes before
	notify bool
}

const (
	invalidWatch   = -1
	batchRevisions = 1000
	remindEvery    = 10 * time.Minute
	remindAtLeast  = 100 * time.Millisecond
)

// OpenWatch opens a stream. send takes responses in order; end is called once,
// unless the client closes first. A client that requires a leader is refused,
// and its stream is ended, while the member knows none.
func (s *Server) OpenWatch(requireLeader bool, send func(*pb.WatchResponse), end func(error)) *WatchStream {
	w := &WatchStream{server: s, send: send, end: end, requireLeader: requireLeader}
	_, client := s.Listening()
	switch {
	case !client:
		w.finish(rpctypes.ErrGRPCStopped)
	case s.learns():
		w.finish(s.notForLearners())
	case requireLeader && s.lead == raft.None:
		w.finish(rpctypes.ErrGRPCNoLeader)
	default:
		s.watches = append(s.watches, w)
		s.host.After(s.remindInterval(), w.remind)
	}
	return w
}

func (s *Server) remindInterval() time.Duration {
	if s.config.ProgressNotify > 0 {
		return max(s.config.ProgressNotify, remindAtLeast)
	}
	return remindEvery
}

func (w *WatchStream) finish(err error) {
	if !w.closed {
		w.Close()
		w.end(err)
	}
}

// Close is the client's end of the stream.
func (w *WatchStream) Close() {
	w.closed, w.watches = true, nil
	w.server.watches = slices.DeleteFunc(slices.Clone(w.server.watches), func(other *WatchStream) bool { return other == w })
}

// Recv takes one request of the client.
func (w *WatchStream) Recv(r *pb.WatchRequest) {
	if w.closed || w.server.over {
		return
	}
	switch {
	case r.GetCreateRequest() != nil:
		w.create(r.GetCreateRequest())
	case r.GetCancelRequest() != nil:
		w.cancel(r.GetCancelRequest().GetWatchId())
	case r.GetProgressRequest() != nil:
		w.progress(w.watches, invalidWatch)
	}
}

func (w *WatchStream) create(r *pb.WatchCreateRequest) {
	kv := w.server.state.kv
	refuse := func(why string) {
		w.send(&pb.WatchResponse{Header: w.header(), WatchId: invalidWatch, Created: true, Canceled: true, CancelReason: why})
	}
	inner, err := kv.Watch(r)
	if err != nil {
		refuse(err.Error())
		return
	}
	id := r.GetWatchId()
	if id == 0 {
		id = w.freeID()
	} else if w.find(id) != nil {
		refuse("mvcc: duplicate watch ID provided on the WatchStream")
		return
	}
	one := &watch{Watch: inner, id: id, start: r.GetStartRevision(), notify: r.GetProgressNotify(), remind: r.GetProgressNotify()}
	w.watches = append(w.watches, one)
	w.send(&pb.WatchResponse{Header: w.header(), WatchId: id, Created: true})
	if one.start > 0 && one.start <= kv.Revision() {
		w.pump(one, batchRevisions)
	}
}

func (w *WatchStream) freeID() int64 {
	for w.find(w.next) != nil {
		w.next++
	}
	w.next++
	return w.next - 1
}

func (w *WatchStream) find(id int64) *watch {
	if i := slices.IndexFunc(w.watches, func(one *watch) bool { return one.id == id }); i >= 0 {
		return w.watches[i]
	}
	return nil
}

func (w *WatchStream) cancel(id int64) {
	one := w.find(id)
	if one == nil {
		return
	}
	w.drop(one)
	w.send(&pb.WatchResponse{Header: w.header(), WatchId: id, Canceled: true})
}

func (w *WatchStream) drop(one *watch) {
	w.watches = slices.DeleteFunc(slices.Clone(w.watches), func(other *watch) bool { return other == one })
}

// pump sends what a watch has not sent, and ends one whose past is compacted.
func (w *WatchStream) pump(one *watch, revisions int) {
	for !w.closed {
		events, upTo, compacted := one.Next(revisions)
		if compacted > 0 {
			w.drop(one)
			header := w.header()
			header.Revision = 0
			w.send(&pb.WatchResponse{Header: header, WatchId: one.id, CompactRevision: compacted, Canceled: true})
			return
		}
		if len(events) > 0 {
			one.remind = false
			r, header := mvcc.Headed[pb.WatchResponse]()
			w.server.fill(header)
			r.Header, r.WatchId, r.Events = header, one.id, events
			w.send(r)
		}
		if upTo >= w.server.state.kv.Revision() {
			return
		}
	}
}

// progress tells how far some watches have come, unless one of them waits for a
// revision that isn't there yet.
func (w *WatchStream) progress(watches []*watch, id int64) {
	if len(watches) == 0 || slices.ContainsFunc(watches, func(one *watch) bool { return one.start > w.server.state.kv.Revision() }) {
		return
	}
	w.send(&pb.WatchResponse{Header: w.header(), WatchId: id})
}

func (w *WatchStream) remind() {
	if w.closed || w.server.over {
		return
	}
	w.server.host.After(w.server.remindInterval(), w.remind)
	for _, one := range w.watches {
		if one.notify && one.remind {
			w.progress([]*watch{one}, one.id)
		}
		one.remind = true
	}
}

func (w *WatchStream) header() *pb.ResponseHeader { return w.server.header() }

// rebase goes on in a state that came from the leader.
func (w *WatchStream) rebase() {
	for _, one := range slices.Clone(w.watches) {
		one.Restore(w.server.state.kv)
		w.pump(one, batchRevisions)
	}
}

func (s *Server) notifyWatches() {
	for _, w := range s.watches {
		for _, one := range w.watches {
			w.pump(one, batchRevisions)
		}
	}
}

func (s *Server) endLeaderless() {
	for _, w := range slices.Clone(s.watches) {
		if w.requireLeader {
			w.finish(rpctypes.ErrGRPCNoLeader)
		}
	}
}
