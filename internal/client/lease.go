// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package client

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/ringproof/ringproof"
)

// lease asks what is about a lease.
func (c *Client) lease(ctx context.Context, r ringproof.Request) (ringproof.Response, error) {
	switch r.Kind {
	case ringproof.RequestGrant:
		granted, err := c.Leases.LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{TTL: r.TTL})
		if err != nil {
			return ringproof.Response{}, err
		}
		response := header(granted.Header)
		response.Lease, response.TTL = granted.ID, granted.TTL
		return response, nil
	case ringproof.RequestRevoke:
		revoked, err := c.Leases.LeaseRevoke(ctx, &etcdserverpb.LeaseRevokeRequest{ID: r.Lease})
		if err != nil {
			return ringproof.Response{}, err
		}
		return header(revoked.Header), nil
	}
	return c.keepAlive(ctx, r)
}

// LeaseOver reports whether etcd refused a request for want of its lease.
func LeaseOver(err error) bool { return errors.Is(err, rpctypes.ErrLeaseNotFound) }

// keepAlive asks once on a stream of its own, which ends with ctx. A lease that
// is no more is answered with no time left.
func (c *Client) keepAlive(ctx context.Context, r ringproof.Request) (ringproof.Response, error) {
	stream, err := c.Leases.LeaseKeepAlive(ctx)
	if err != nil {
		return ringproof.Response{}, err
	}
	if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: r.Lease}); err != nil {
		return ringproof.Response{}, err
	}
	renewed, err := stream.Recv()
	if err != nil {
		return ringproof.Response{}, err
	}
	if renewed.TTL <= 0 {
		return ringproof.Response{}, rpctypes.ErrLeaseNotFound
	}
	response := header(renewed.Header)
	response.TTL = renewed.TTL
	return response, nil
}
