// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// connection is a client's way to the etcd at one endpoint. clientv3's own code
// runs on top of it; what is left out is grpc.
type connection struct {
	world    *World
	from     *Machine // nil: the harness
	endpoint string
	to       *place // nil: not known yet
	who      *identity
	with     *server // that has let it in; it does so once for each connection
}

// enter does the handshake that the etcd at the place asks for.
func (x *connection) enter(to *server, at *place) error {
	if x.with == to {
		return nil
	}
	err := admit(x.who, to.client, at, to.machine.clock())
	if err == nil && at == x.to {
		x.with = to
	}
	return err
}

// caller is clientv3 without a clientv3.Client: its interfaces, each made by
// clientv3 itself of a remote one.
type caller struct {
	clientv3.KV
	clientv3.Cluster
	clientv3.Lease
	clientv3.Maintenance
	connection *connection
}

func (w *World) dial(from *Machine, endpoint string, secure *tls.Config) (*caller, error) {
	w.engine.alive()
	who, err := w.dialer(secure)
	if err != nil {
		return nil, err
	}
	x := &connection{world: w, from: from, endpoint: endpoint, who: who}
	return &caller{
		KV:          clientv3.NewKVFromKVClient(remoteKV{x}, nil),
		Cluster:     clientv3.NewClusterFromClusterClient(remoteCluster{x}, nil),
		Lease:       clientv3.NewLeaseFromLeaseClient(remoteLease{x}, nil, time.Second),
		Maintenance: clientv3.NewMaintenanceFromMaintenanceClient(remoteMaintenance{x}, nil),
		connection:  x,
	}, nil
}

// dialer reads the certificates of a configuration once.
func (w *World) dialer(c *tls.Config) (*identity, error) {
	if x, ok := w.dialers[c]; ok {
		return x, nil
	}
	x, err := dialer(c)
	if err == nil {
		w.dialers[c] = x
	}
	return x, err
}

// Snapshot reads a backup. clientv3's own reads in a goroutine.
func (c *caller) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	r, err := c.SnapshotWithVersion(ctx)
	if err != nil {
		return nil, err
	}
	return r.Snapshot, nil
}

// SnapshotWithVersion reads a backup whose version is the schema's, "3.6.0",
// and "" of a 3.5. Like clientv3 it asks again, until ctx ends, where etcd isn't
// available, and not if the stream breaks.
func (c *caller) SnapshotWithVersion(ctx context.Context) (*clientv3.SnapshotResponse, error) {
	const pause = 100 * time.Millisecond
	parts, err := unary[[]*pb.SnapshotResponse](ctx, c.connection, &pb.SnapshotRequest{})
	for status.Code(err) == codes.Unavailable && !errors.Is(err, errBroken) {
		if err = c.connection.world.Sleep(ctx, pause); err == nil {
			parts, err = unary[[]*pb.SnapshotResponse](ctx, c.connection, &pb.SnapshotRequest{})
		}
	}
	if err != nil {
		return nil, clientv3.ContextError(ctx, err)
	}
	var content bytes.Buffer
	for _, part := range parts {
		content.Write(part.GetBlob())
	}
	return &clientv3.SnapshotResponse{Snapshot: io.NopCloser(&content), Version: parts[0].GetVersion()}, nil
}

// Close ends the client. Two of its parts have a Close of their own, and
// neither holds anything.
func (c *caller) Close() error { return nil }

// unary makes one request and returns its reply as what it is.
func unary[R any](ctx context.Context, x *connection, request any) (R, error) {
	reply, err := x.ask(ctx, request)
	if err != nil {
		var none R
		return none, err
	}
	return reply.(R), nil
}

// errNotModelled is what the simulated etcd can't be asked.
var errNotModelled = status.Error(codes.Unimplemented, "the simulated etcd has no such call")

// remoteKV, and the others below, are the interfaces that clientv3 is made of, over
// one connection. They are written out, as a generated client over a ClientConn
// of ours would copy each reply into a message of its own.
type remoteKV struct{ *connection }

func (x remoteKV) Range(ctx context.Context, r *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	return unary[*pb.RangeResponse](ctx, x.connection, r)
}

func (x remoteKV) RangeStream(context.Context, *pb.RangeRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.RangeStreamResponse], error) {
	return nil, errNotModelled
}

func (x remoteKV) Put(ctx context.Context, r *pb.PutRequest, _ ...grpc.CallOption) (*pb.PutResponse, error) {
	if err := sendable(r, len(r.GetValue())); err != nil {
		return nil, err
	}
	return unary[*pb.PutResponse](ctx, x.connection, r)
}

func (x remoteKV) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest, _ ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	return unary[*pb.DeleteRangeResponse](ctx, x.connection, r)
}

func (x remoteKV) Txn(ctx context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	if err := sendable(r, valuesOf(r)); err != nil {
		return nil, err
	}
	return unary[*pb.TxnResponse](ctx, x.connection, r)
}

func (x remoteKV) Compact(ctx context.Context, r *pb.CompactionRequest, _ ...grpc.CallOption) (*pb.CompactionResponse, error) {
	return unary[*pb.CompactionResponse](ctx, x.connection, r)
}

// sendable refuses a message that clientv3 doesn't send (defaultMaxCallSendMsgSize), by the
// bytes of its values first: to measure each message would take longer than to make it.
func sendable(r proto.Message, values int) error {
	const most = 2 * 1024 * 1024
	if values < most/2 {
		return nil // whatever is around them
	}
	if size := proto.Size(r); size > most {
		return status.Errorf(codes.ResourceExhausted, "trying to send message larger than max (%d vs. %d)", size, most)
	}
	return nil
}

func valuesOf(r *pb.TxnRequest) (bytes int) {
	for _, ops := range [][]*pb.RequestOp{r.GetSuccess(), r.GetFailure()} {
		for _, op := range ops {
			bytes += len(op.GetRequestPut().GetValue())
			if nested := op.GetRequestTxn(); nested != nil {
				bytes += valuesOf(nested)
			}
		}
	}
	return bytes
}

type remoteCluster struct{ *connection }

func (x remoteCluster) MemberAdd(ctx context.Context, r *pb.MemberAddRequest, _ ...grpc.CallOption) (*pb.MemberAddResponse, error) {
	return unary[*pb.MemberAddResponse](ctx, x.connection, r)
}

func (x remoteCluster) MemberRemove(ctx context.Context, r *pb.MemberRemoveRequest, _ ...grpc.CallOption) (*pb.MemberRemoveResponse, error) {
	return unary[*pb.MemberRemoveResponse](ctx, x.connection, r)
}

func (x remoteCluster) MemberUpdate(ctx context.Context, r *pb.MemberUpdateRequest, _ ...grpc.CallOption) (*pb.MemberUpdateResponse, error) {
	return unary[*pb.MemberUpdateResponse](ctx, x.connection, r)
}

func (x remoteCluster) MemberList(ctx context.Context, r *pb.MemberListRequest, _ ...grpc.CallOption) (*pb.MemberListResponse, error) {
	return unary[*pb.MemberListResponse](ctx, x.connection, r)
}

func (x remoteCluster) MemberPromote(ctx context.Context, r *pb.MemberPromoteRequest, _ ...grpc.CallOption) (*pb.MemberPromoteResponse, error) {
	return unary[*pb.MemberPromoteResponse](ctx, x.connection, r)
}

type remoteMaintenance struct{ *connection }

func (x remoteMaintenance) Alarm(ctx context.Context, r *pb.AlarmRequest, _ ...grpc.CallOption) (*pb.AlarmResponse, error) {
	return unary[*pb.AlarmResponse](ctx, x.connection, r)
}

func (x remoteMaintenance) Status(ctx context.Context, r *pb.StatusRequest, _ ...grpc.CallOption) (*pb.StatusResponse, error) {
	return unary[*pb.StatusResponse](ctx, x.connection, r)
}

func (x remoteMaintenance) Defragment(ctx context.Context, r *pb.DefragmentRequest, _ ...grpc.CallOption) (*pb.DefragmentResponse, error) {
	return unary[*pb.DefragmentResponse](ctx, x.connection, r)
}

func (x remoteMaintenance) Hash(ctx context.Context, r *pb.HashRequest, _ ...grpc.CallOption) (*pb.HashResponse, error) {
	return unary[*pb.HashResponse](ctx, x.connection, r)
}

func (x remoteMaintenance) HashKV(ctx context.Context, r *pb.HashKVRequest, _ ...grpc.CallOption) (*pb.HashKVResponse, error) {
	return unary[*pb.HashKVResponse](ctx, x.connection, r)
}

func (x remoteMaintenance) Snapshot(context.Context, *pb.SnapshotRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.SnapshotResponse], error) {
	return nil, errNotModelled
}

func (x remoteMaintenance) MoveLeader(ctx context.Context, r *pb.MoveLeaderRequest, _ ...grpc.CallOption) (*pb.MoveLeaderResponse, error) {
	return unary[*pb.MoveLeaderResponse](ctx, x.connection, r)
}

func (x remoteMaintenance) Downgrade(ctx context.Context, r *pb.DowngradeRequest, _ ...grpc.CallOption) (*pb.DowngradeResponse, error) {
	return unary[*pb.DowngradeResponse](ctx, x.connection, r)
}

type remoteLease struct{ *connection }

func (x remoteLease) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest, _ ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	return unary[*pb.LeaseGrantResponse](ctx, x.connection, r)
}

func (x remoteLease) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest, _ ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	return unary[*pb.LeaseRevokeResponse](ctx, x.connection, r)
}

func (x remoteLease) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest, _ ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
	return unary[*pb.LeaseTimeToLiveResponse](ctx, x.connection, r)
}

func (x remoteLease) LeaseLeases(ctx context.Context, r *pb.LeaseLeasesRequest, _ ...grpc.CallOption) (*pb.LeaseLeasesResponse, error) {
	return unary[*pb.LeaseLeasesResponse](ctx, x.connection, r)
}

func (x remoteLease) LeaseKeepAlive(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse], error) {
	return &keepAlive{ctx: ctx, connection: x.connection}, nil
}

// keepAlive is a stream on which each request has one reply.
type keepAlive struct {
	grpc.ClientStream
	ctx        context.Context
	connection *connection
	sent       []*pb.LeaseKeepAliveRequest
}

func (k *keepAlive) Send(r *pb.LeaseKeepAliveRequest) error {
	k.sent = append(k.sent, r)
	return nil
}

func (k *keepAlive) Recv() (*pb.LeaseKeepAliveResponse, error) {
	if len(k.sent) == 0 {
		return nil, io.EOF
	}
	r := k.sent[0]
	k.sent = k.sent[1:]
	return unary[*pb.LeaseKeepAliveResponse](k.ctx, k.connection, r)
}

func (k *keepAlive) CloseSend() error { return nil }
