// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// cluster answers for a ring of two, and counts the removals.
type cluster struct {
	etcdserverpb.UnimplementedClusterServer
	etcdserverpb.UnimplementedKVServer
	removed []uint64
}

func (c *cluster) MemberList(context.Context, *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	return &etcdserverpb.MemberListResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 0xc1}, Members: []*etcdserverpb.Member{{ID: 0x1a}, {ID: 0x2b}}}, nil
}

func (c *cluster) MemberRemove(_ context.Context, r *etcdserverpb.MemberRemoveRequest) (*etcdserverpb.MemberRemoveResponse, error) {
	c.removed = append(c.removed, r.ID)
	return &etcdserverpb.MemberRemoveResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 0xc1}}, nil
}

func (c *cluster) Txn(context.Context, *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	return &etcdserverpb.TxnResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 0xc1}, Succeeded: true}, nil
}

// TestRemoveSaysWhatItDid: a mistyped ID removes nobody, and is told so.
func TestRemoveSaysWhatItDid(t *testing.T) {
	c := &cluster{}
	server := grpc.NewServer()
	etcdserverpb.RegisterClusterServer(server, c)
	etcdserverpb.RegisterKVServer(server, c)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	for _, run := range []struct{ id, says string }{
		{"3c", "nothing was removed: ring c1 has no member 3c; ringadm member list shows those that it has\n"},
		{"2b", "done: ringadm member remove 2b\n"},
	} {
		var printed bytes.Buffer
		command := memberCommand()
		command.SetOut(&printed)
		command.SetArgs([]string{"remove", run.id, "--endpoints", "http://" + listener.Addr().String(), "--data", t.TempDir()})
		require.NoError(t, command.ExecuteContext(t.Context()))
		require.Equal(t, run.says, printed.String())
	}
	require.Equal(t, []uint64{0x2b}, c.removed)
}
