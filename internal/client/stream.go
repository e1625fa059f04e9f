// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package client

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof"
)

// Patient returns the client with streams that a member keeps open while it
// knows no leader: they see what becomes of a member that was cut off and comes
// back by a snapshot. Both share one connection.
func (c *Client) Patient() ringproof.Client {
	patient := *c
	patient.Leaderless = true
	return &patient
}

// Progress asks for a bookmark on each open stream of the client.
func (c *Client) Progress(ctx context.Context) error { return c.Streams.Progress(ctx, c.Leaderless) }

// Watcher makes streams of clientv3's own watcher.
type Watcher struct{ clientv3.Watcher }

var _ Streams = Watcher{}

// Open opens one. A clientv3 watcher resumes by itself on the same endpoint;
// what it then delivers is still one stream and must hold the same guarantees.
func (w Watcher) Open(ctx context.Context, q Watch) (Stream, error) {
	watching, cancel := context.WithCancel(ctx)
	return channel{w.Watch(streaming(watching, q.Leaderless), q.Prefix, Options(q)...), cancel}, nil
}

// Options are clientv3's for the watch.
func Options(q Watch) []clientv3.OpOption {
	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithProgressNotify()}
	if q.Start > 0 {
		opts = append(opts, clientv3.WithRev(q.Start))
	}
	return opts
}

// Progress asks for a bookmark.
func (w Watcher) Progress(ctx context.Context, leaderless bool) error {
	return w.RequestProgress(streaming(ctx, leaderless))
}

// streaming marks what a stream demands of its member. Open and Progress must
// mark alike: clientv3 tells its streams apart by it.
func streaming(ctx context.Context, leaderless bool) context.Context {
	if leaderless {
		return ctx
	}
	return clientv3.WithRequireLeader(ctx)
}

type channel struct {
	responses clientv3.WatchChan
	cancel    context.CancelFunc
}

// ErrEnded says that a stream ended and gave no reason.
var ErrEnded = errors.New("the watch stream ended")

func (c channel) Next(context.Context) (clientv3.WatchResponse, error) {
	r, open := <-c.responses
	if !open {
		return r, ErrEnded
	}
	return r, nil
}

func (c channel) Close() { c.cancel() }
