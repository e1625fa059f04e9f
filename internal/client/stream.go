// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package client

import (
	"context"

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
func (c *Client) Progress(ctx context.Context) error {
	return c.Etcd.RequestProgress(c.streaming(ctx))
}

// streaming marks what a stream demands of its member. Watch and Progress must
// mark alike: clientv3 tells its streams apart by it.
func (c *Client) streaming(ctx context.Context) context.Context {
	if c.Leaderless {
		return ctx
	}
	return clientv3.WithRequireLeader(ctx)
}
