// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package client makes a workload client of clientv3's own interfaces, one for
// every world: real etcd by grpc, or a simulated one.
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringproof/ringproof"
)

// Streams opens watch streams that are pulled from. clientv3's own watchers are
// channels, which code in virtual time can't wait on.
type Streams interface {
	Open(ctx context.Context, w Watch) (Stream, error)
	// Progress asks for a bookmark on each open stream of the same kind.
	Progress(ctx context.Context, leaderless bool) error
}

// Watch is what a stream is asked for.
type Watch struct {
	Prefix     string
	Start      int64 // revision; 0: from now
	Leaderless bool  // it outlives the loss of the leader
}

// Stream is one watch stream.
type Stream interface {
	// Next waits for the next response, or returns why there is none: the end of
	// the stream, or of its context.
	Next(ctx context.Context) (clientv3.WatchResponse, error)
	Close()
}

// Dial opens a real client of one endpoint, with every retry off: a request
// that was repeated behind the caller's back would make two of one.
func Dial(endpoint string, secure *tls.Config, more ...grpc.DialOption) (*clientv3.Client, error) {
	once := func(ctx context.Context, method string, request, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return invoke(ctx, method, request, reply, c, append(opts, grpc.WaitForReady(false))...)
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{endpoint},
		TLS:                  secure,
		Logger:               zap.NewNop(),
		MaxUnaryRetries:      1,
		DialKeepAliveTime:    time.Second,
		DialKeepAliveTimeout: time.Second,
		DialOptions: append([]grpc.DialOption{
			grpc.WithChainUnaryInterceptor(once),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond},
				MinConnectTimeout: time.Second,
			}),
		}, more...),
	})
	if err == nil {
		// Of itself clientv3 dials anew for each status, hash and defragmentation: a handshake of TLS
		// for every look at every member, most of what a ring at rest cost beside its own work.
		c.Maintenance = clientv3.NewMaintenanceFromMaintenanceClient(clientv3.RetryMaintenanceClient(c, c.ActiveConnection()), c)
	}
	return c, err
}

// Client speaks the vocabulary's requests to etcd.
type Client struct {
	Etcd    clientv3.KV
	Upkeep  clientv3.Maintenance
	Leases  etcdserverpb.LeaseClient // clientv3's own repeats a keep-alive that fails
	Streams Streams
	Machine string // asked
	URL     string // of its etcd
	Shut    func() error

	Leaderless bool // a stream outlives the loss of the leader
}

var _ ringproof.Client = (*Client)(nil)

// Endpoint names the machine asked.
func (c *Client) Endpoint() string { return c.Machine }

// Close closes the connection.
func (c *Client) Close() error { return c.Shut() }

// Do makes one attempt.
func (c *Client) Do(ctx context.Context, r ringproof.Request) (ringproof.Response, error) {
	ask := c.do
	if r.Kind.Operates() {
		ask = c.operate
	}
	response, err := ask(ctx, r)
	if err != nil && refused(err) {
		err = fmt.Errorf("%w: %w", ringproof.ErrRefused, err)
	}
	return response, err
}

func (c *Client) do(ctx context.Context, r ringproof.Request) (ringproof.Response, error) {
	switch r.Kind {
	case ringproof.RequestGet, ringproof.RequestRange:
		return c.get(ctx, r)
	case ringproof.RequestPut:
		put, err := c.Etcd.Put(ctx, r.Key, r.Value, writing(r)...)
		if err != nil {
			return ringproof.Response{}, err
		}
		return header(put.Header), nil
	case ringproof.RequestDelete:
		deleted, err := c.Etcd.Delete(ctx, r.Key)
		if err != nil {
			return ringproof.Response{}, err
		}
		response := header(deleted.Header)
		response.Deleted = deleted.Deleted
		return response, nil
	case ringproof.RequestTxn:
		return c.txn(ctx, r)
	case ringproof.RequestCompact:
		compacted, err := c.Etcd.Compact(ctx, r.Revision, clientv3.WithCompactPhysical())
		if err != nil {
			return ringproof.Response{}, err
		}
		return header(compacted.Header), nil
	}
	if r.Kind.OfLease() {
		response, err := c.lease(ctx, r)
		return response, clientv3.ContextError(ctx, err)
	}
	return ringproof.Response{}, fmt.Errorf("request %q: there is no such kind", r.Kind)
}

func (c *Client) get(ctx context.Context, r ringproof.Request) (ringproof.Response, error) {
	got, err := c.Etcd.Get(ctx, first(r), reading(r)...)
	if err != nil {
		return ringproof.Response{}, err
	}
	response := header(got.Header)
	response.KVs, response.More = KVs(got.Kvs), got.More
	return response, nil
}

func (c *Client) txn(ctx context.Context, r ringproof.Request) (ringproof.Response, error) {
	if r.General() {
		return c.general(ctx, r)
	}
	done, err := c.Etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(r.Key), "=", r.Compare)).
		Then(clientv3.OpPut(r.Key, r.Value)).
		Else(clientv3.OpGet(r.Key)).Commit()
	if err != nil {
		return ringproof.Response{}, err
	}
	response := header(done.Header)
	response.Succeeded = done.Succeeded
	if !done.Succeeded {
		response.KVs = KVs(done.Responses[0].GetResponseRange().GetKvs())
	}
	return response, nil
}

// refused reports whether etcd surely didn't apply the request: it answered with
// an error of its own that is no timeout, or was never reached.
func refused(err error) bool {
	// etcd applies the write that fills its store, and then answers so.
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return false
	}
	var etcd rpctypes.EtcdError
	if errors.As(err, &etcd) {
		code := etcd.Code()
		return code != codes.Unavailable && code != codes.DeadlineExceeded && code != codes.Canceled && code != codes.Unknown
	}
	return status.Code(err) == codes.Unavailable && dialFailed(err)
}

// dialFailed reports whether a connection could not be made at all: then nothing
// was sent. grpc has no code of its own for it.
func dialFailed(err error) bool {
	return strings.Contains(status.Convert(err).Message(), "error while dialing") || strings.Contains(status.Convert(err).Message(), "Error while dialing")
}

// Watch streams events until ctx ends or the stream breaks.
func (c *Client) Watch(ctx context.Context, prefix string, start int64, see func(ringproof.WatchEvent)) error {
	stream, err := c.Streams.Open(ctx, Watch{Prefix: prefix, Start: start, Leaderless: c.Leaderless})
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		r, err := stream.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.Err(); err != nil {
			if r.CompactRevision > 0 {
				return Compacted{r.CompactRevision}
			}
			return err
		}
		if r.IsProgressNotify() {
			see(ringproof.WatchEvent{Bookmark: true, Revision: r.Header.Revision})
		}
		for _, e := range r.Events {
			see(event(e))
		}
	}
}

// Compacted says that a watch asked for history that is gone.
type Compacted struct{ Revision int64 }

func (c Compacted) Error() string {
	return fmt.Sprintf("the history before revision %d was compacted", c.Revision)
}

func event(e *clientv3.Event) ringproof.WatchEvent {
	seen := ringproof.WatchEvent{Revision: e.Kv.ModRevision, Delete: e.Type == mvccpb.Event_DELETE, Create: e.IsCreate(), KV: kv(e.Kv)}
	if e.PrevKv != nil {
		prev := keyed(seen.KV.Key, e.PrevKv)
		seen.Prev = &prev
	}
	return seen
}

func header(h *etcdserverpb.ResponseHeader) ringproof.Response {
	return ringproof.Response{ClusterID: h.GetClusterId(), Member: ringproof.MemberID(h.GetMemberId()), Term: h.GetRaftTerm(), Revision: h.GetRevision()}
}

// KVs are the keys as histories have them.
func KVs(from []*mvccpb.KeyValue) []ringproof.KV {
	if len(from) == 0 {
		return nil
	}
	all := make([]ringproof.KV, len(from))
	for i, each := range from {
		all[i] = kv(each)
	}
	return all
}

func kv(from *mvccpb.KeyValue) ringproof.KV { return keyed(string(from.Key), from) }

func keyed(key string, from *mvccpb.KeyValue) ringproof.KV {
	return ringproof.KV{Key: key, Value: string(from.Value), CreateRevision: from.CreateRevision,
		ModRevision: from.ModRevision, Version: from.Version, Lease: from.Lease}
}
