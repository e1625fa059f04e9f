// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package host_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/ringproof/ringproof/reference/host"
)

// accepts counts the connections that it has accepted.
type accepts struct {
	net.Listener
	connections atomic.Int32
}

func (a *accepts) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err == nil {
		a.connections.Add(1)
	}
	return c, err
}

// maintenance says how it does; the third who asks is told that nobody leads, and the fourth
// is told nothing.
type maintenance struct {
	etcdserverpb.UnimplementedMaintenanceServer
	asked atomic.Int32
}

func (m *maintenance) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	switch m.asked.Add(1) {
	case 3:
		return nil, rpctypes.ErrGRPCNoLeader
	case 4:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &etcdserverpb.StatusResponse{Leader: 7}, nil
}

// TestStatus: who asks an etcd for its status is heard on the connection that there is. Over a
// network on which a packet takes 50 ms each way a new one costs 0.3 s of the quarter of a
// second that a silent member has.
func TestStatus(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.71.2:0")
	require.NoError(t, err)
	counting := &accepts{Listener: listener}
	server := grpc.NewServer()
	etcdserverpb.RegisterMaintenanceServer(server, &maintenance{})
	go func() { _ = server.Serve(counting) }()
	t.Cleanup(server.Stop)

	url := "http://" + listener.Addr().String()
	c, err := host.NewReal("m1", t.TempDir(), t.TempDir(), nil).Dial(url, nil)
	require.NoError(t, err)
	defer c.Close()
	for range 2 {
		status, err := c.Status(t.Context(), url)
		require.NoError(t, err)
		assert.Equal(t, uint64(7), status.Leader)
	}
	_, err = c.Status(t.Context(), url)
	require.ErrorIs(t, err, rpctypes.ErrNoLeader)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = c.Status(short, url)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.EqualValues(t, 1, counting.connections.Load())
}
