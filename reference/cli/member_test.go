// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/ringproof/ringproof/reference/ring"
)

// cluster answers for a ring of two, and counts the removals.
type cluster struct {
	etcdserverpb.UnimplementedClusterServer
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedMaintenanceServer
	removed []uint64
	deletes []string // keys
	puts    []string // keys and values
}

func (c *cluster) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 0xc1}, RaftAppliedIndex: 77}, nil
}

func (c *cluster) Range(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 0xc1}, Kvs: []*mvccpb.KeyValue{
		{Key: []byte("/ringadm/members/2b"), Value: []byte(`{"machine":"m2","disk":"d"}`)}, {Key: []byte("/ringadm/members/3c"), Value: []byte(`{"machine":"m3","disk":"d"}`)}}}, nil
}

func (c *cluster) MemberList(context.Context, *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	return &etcdserverpb.MemberListResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 0xc1}, Members: []*etcdserverpb.Member{{ID: 0x1a}, {ID: 0x2b}}}, nil
}

func (c *cluster) MemberRemove(_ context.Context, r *etcdserverpb.MemberRemoveRequest) (*etcdserverpb.MemberRemoveResponse, error) {
	c.removed = append(c.removed, r.ID)
	return &etcdserverpb.MemberRemoveResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 0xc1}}, nil
}

func (c *cluster) Txn(_ context.Context, r *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	for _, op := range r.Success {
		if d := op.GetRequestDeleteRange(); d != nil {
			c.deletes = append(c.deletes, string(d.Key))
		}
		if p := op.GetRequestPut(); p != nil {
			c.puts = append(c.puts, string(p.Key)+" "+string(p.Value))
		}
	}
	return &etcdserverpb.TxnResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 0xc1}, Succeeded: true}, nil
}

// TestRemoveSaysWhatItDid: a mistyped ID removes nobody, and is told so.
func TestRemoveSaysWhatItDid(t *testing.T) {
	c, endpoint := serve(t)
	for _, run := range []struct{ id, says string }{
		{"3c", "nothing was removed: ring c1 has no member 3c; ringadm member list shows those that it has\n"},
		{"2b", "done: ringadm member remove 2b\n"},
	} {
		var printed bytes.Buffer
		command := memberCommand()
		command.SetOut(&printed)
		command.SetArgs([]string{"remove", run.id, "--endpoints", endpoint, "--data", t.TempDir()})
		require.NoError(t, command.ExecuteContext(t.Context()))
		require.Equal(t, run.says, printed.String())
	}
	require.Equal(t, []uint64{0x2b}, c.removed)
}

func serve(t *testing.T) (c *cluster, endpoint string) {
	t.Helper()
	c = &cluster{}
	server := grpc.NewServer()
	etcdserverpb.RegisterClusterServer(server, c)
	etcdserverpb.RegisterKVServer(server, c)
	etcdserverpb.RegisterMaintenanceServer(server, c)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return c, "http://" + listener.Addr().String()
}

// TestForgetIsForThoseThatAreNotListed: a member that is in the ring has not left, and of
// one that is on no record there is nothing to forget. The last one that was missing makes a
// ring that was begun anew the ring.
func TestForgetIsForThoseThatAreNotListed(t *testing.T) {
	c, endpoint := serve(t)
	for _, run := range []struct{ id, says, refused string }{
		{"2b", "", "forget refused: member 2b is in the ring; if it is to go: ringadm member remove 2b"},
		{"4d", "", "forget refused: ring c1 has no record of member 4d"},
		{"3c", "done: member 3c has left, by your word; nobody is missing any more, so that this ring is the ring, with what its log holds up to 77\n", ""},
	} {
		var printed bytes.Buffer
		command := memberCommand()
		command.SetOut(&printed)
		command.SetErr(io.Discard)
		command.SilenceUsage = true
		command.SetArgs([]string{"forget", run.id, "--endpoints", endpoint, "--data", t.TempDir()})
		err := command.ExecuteContext(t.Context())
		if run.refused == "" {
			require.NoError(t, err)
			require.Equal(t, run.says, printed.String())
		} else {
			require.EqualError(t, err, run.refused)
		}
	}
	require.Equal(t, []string{"/ringadm/members/3c", "/ringadm/leaving/3c"}, c.deletes)
	require.Equal(t, []string{`/ringadm/accepted {"log":77}`}, c.puts)
}

// TestAnAbsentAgentIsListed: kill -9 of an agent left its member's line as it was.
func TestAnAbsentAgentIsListed(t *testing.T) {
	machines := []ring.Machine{{Name: "m1", Present: true}, {Name: "m2"}, {Name: "m3", Static: true, Present: true}}
	for name, want := range map[string]string{"m1": "there", "m2": "absent", "m3": "none", "": "none"} {
		require.Equal(t, want, agent(machines, name), name)
	}
}
