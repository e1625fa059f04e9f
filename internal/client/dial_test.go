// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package client

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

type upkeep struct {
	etcdserverpb.UnimplementedMaintenanceServer
}

// TestOneConnection: each look at a member asked for its status on a connection of its own, and ten looks a
// second at three members were thirty handshakes.
func TestOneConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	etcdserverpb.RegisterMaintenanceServer(server, upkeep{})
	go server.Serve(l)
	t.Cleanup(server.Stop)

	var dials atomic.Int32
	c, err := Dial("http://"+l.Addr().String(), nil, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	for range 5 {
		_, err := c.Status(t.Context(), c.Endpoints()[0])
		assert.ErrorContains(t, err, "Unimplemented", "it answers")
		_, err = c.HashKV(t.Context(), c.Endpoints()[0], 0)
		assert.ErrorContains(t, err, "Unimplemented")
	}
	assert.EqualValues(t, 1, dials.Load())
}
