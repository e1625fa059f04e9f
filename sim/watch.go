// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/sim/etcd"
)

// streams opens the watches of one client.
type streams struct {
	connection *connection
	open       []*channel
}

var _ client.Streams = (*streams)(nil)

// channel is one watch stream of one client.
type channel struct {
	owner      *streams
	leaderless bool
	server     *server
	stream     *etcd.WatchStream
	arrived    []*pb.WatchResponse
	err        error
	closed     bool
	waits      bool
	wait       waiter
}

// delivery is a response on its way.
type delivery struct {
	timer
	to       *channel
	response *pb.WatchResponse
}

func (d *delivery) happen() {
	if c := d.to; !c.closed {
		c.arrived = append(c.arrived, d.response)
		c.notify()
	}
}

// Open asks for a watch. Whether the endpoint takes it, the first Next tells.
func (s *streams) Open(_ context.Context, q client.Watch) (client.Stream, error) {
	op := clientv3.OpGet(q.Prefix, clientv3.WithPrefix())
	return s.start(&pb.WatchCreateRequest{Key: op.KeyBytes(), RangeEnd: op.RangeBytes(), StartRevision: q.Start, PrevKv: true, ProgressNotify: true}, q.Leaderless)
}

func (s *streams) start(r *pb.WatchCreateRequest, leaderless bool) (*channel, error) {
	x := s.connection
	x.world.engine.alive()
	c := &channel{owner: s, leaderless: leaderless}
	at, err := x.place()
	if err != nil {
		return nil, undialled(err)
	}
	m := at.machine
	s.open = append(s.open, c)
	var arrive func()
	arrive = func() {
		to := m.etcd
		switch {
		case c.closed || !x.world.network.passes(x.from, m, ringproof.PortClient) || !m.on || m.lost || x.from == nil && m.strange:
		case to != nil && to.holds():
			c.server = to
			to.streams = append(to.streams, c)
			to.held = append(to.held, arrive)
		case to == nil || to.etcd == nil || !to.clients():
			c.end(m, undialled(fmt.Errorf("dial tcp %s: connect: %w", at.host, errRefused)))
		default:
			to.hear(func() {
				if err := x.enter(to, at); err != nil {
					c.end(m, undialled(err))
					return
				}
				c.accepted(to, r)
			})
		}
	}
	x.world.engine.after(x.world.network.hop(x.from, m), prioArrival, kindRequest, nil, arrive)
	return c, nil
}

// accepted is the stream at its server.
func (c *channel) accepted(to *server, r *pb.WatchCreateRequest) {
	c.server = to
	to.streams = append(slices.DeleteFunc(to.streams, func(o *channel) bool { return o.closed || o == c }), c)
	c.stream = to.etcd.OpenWatch(!c.leaderless, c.send, func(err error) { c.end(to.machine, err) })
	c.stream.Recv(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}})
}

// send is a response on its way to the client, behind those sent before it.
func (c *channel) send(r *pb.WatchResponse) {
	x := c.owner.connection
	if c.closed || !x.world.network.passes(c.server.machine, x.from, ringproof.PortClient) {
		return
	}
	d := &delivery{to: c, response: r}
	d.prio, d.kind, d.on = prioArrival, kindReply, d
	x.world.engine.schedule(&d.timer, x.world.network.inOrder(c.server.machine, x.from))
}

// end is the end of the stream on its way to the client.
func (c *channel) end(at *Machine, err error) {
	x := c.owner.connection
	if !x.world.network.passes(at, x.from, ringproof.PortClient) {
		return
	}
	x.world.engine.after(x.world.network.inOrder(at, x.from), prioArrival, kindReply, nil, func() {
		if c.err == nil {
			c.err = err
		}
		c.notify()
	})
}

func (c *channel) broke(err error) { c.end(c.server.machine, err) }

func (c *channel) notify() {
	if c.waits {
		c.wait.wake()
	}
}

// Next waits for the next response that says anything.
func (c *channel) Next(ctx context.Context) (clientv3.WatchResponse, error) {
	return c.next(ctx, false)
}

// next is Next for who wants to hear that the watch was created, too.
func (c *channel) next(ctx context.Context, created bool) (clientv3.WatchResponse, error) {
	e := c.owner.connection.world.engine
	for {
		for len(c.arrived) > 0 {
			r := c.arrived[0]
			c.arrived = slices.Delete(c.arrived, 0, 1) // in its place: there is seldom a second
			if response, err := c.response(r); err != nil || created || response.Canceled || !response.Created {
				return response, err
			}
		}
		if c.err != nil {
			return clientv3.WatchResponse{}, rpctypes.Error(c.err)
		}
		c.wait, c.waits = waiter{}, true
		e.wait(ctx, &c.wait)
		err := e.pause(&c.wait)
		c.waits = false
		if err != nil {
			return clientv3.WatchResponse{}, err
		}
	}
}

// response is what clientv3 makes of it.
func (c *channel) response(r *pb.WatchResponse) (clientv3.WatchResponse, error) {
	events := make([]*clientv3.Event, len(r.Events))
	for i, e := range r.Events {
		events[i] = (*clientv3.Event)(e)
	}
	response := clientv3.WatchResponse{Header: r.Header, Events: events, CompactRevision: r.CompactRevision, Canceled: r.Canceled, Created: r.Created}
	if r.Canceled && r.CompactRevision == 0 && r.CancelReason != "" { // it was never created
		return response, rpctypes.Error(errors.New(r.CancelReason))
	}
	return response, nil
}

// Close ends the stream. The server hears of it a hop later.
func (c *channel) Close() {
	if c.closed {
		return
	}
	c.closed = true
	s := c.owner
	s.open = slices.DeleteFunc(s.open, func(o *channel) bool { return o == c })
	if to := c.server; c.stream != nil && !to.ended {
		w := s.connection.world
		w.engine.after(w.network.hop(s.connection.from, to.machine), prioArrival, kindRequest, to.process, c.stream.Close)
	}
}

// Progress asks for a bookmark on each open stream of the kind.
func (s *streams) Progress(_ context.Context, leaderless bool) error {
	s.connection.world.engine.alive()
	for _, c := range s.open {
		if c.leaderless == leaderless {
			c.askProgress()
		}
	}
	return nil
}

func (c *channel) askProgress() {
	x, to := c.owner.connection, c.server
	if c.stream == nil || to.ended {
		return
	}
	x.world.engine.after(x.world.network.hop(x.from, to.machine), prioArrival, kindRequest, to.process, func() {
		c.stream.Recv(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	})
}
