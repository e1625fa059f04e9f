// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package client

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof"
)

// general makes a transaction with branches of its own.
func (c *Client) general(ctx context.Context, r ringproof.Request) (ringproof.Response, error) {
	compares, then, otherwise, err := parts(r)
	if err != nil {
		return ringproof.Response{}, err
	}
	done, err := c.Etcd.Txn(ctx).If(compares...).Then(then...).Else(otherwise...).Commit()
	if err != nil {
		return ringproof.Response{}, err
	}
	response := header(done.Header)
	response.Succeeded, response.Results = done.Succeeded, results(done.Responses)
	return response, nil
}

func parts(r ringproof.Request) (compares []clientv3.Cmp, then, otherwise []clientv3.Op, err error) {
	for _, each := range r.If {
		made, err := compare(each)
		if err != nil {
			return nil, nil, nil, err
		}
		compares = append(compares, made)
	}
	if then, err = ops(r.Then); err != nil {
		return nil, nil, nil, err
	}
	otherwise, err = ops(r.Else)
	return compares, then, otherwise, err
}

func compare(c ringproof.Comparison) (clientv3.Cmp, error) {
	switch c.Target {
	case "mod":
		return clientv3.Compare(clientv3.ModRevision(c.Key), c.Is, c.Number), nil
	case "create":
		return clientv3.Compare(clientv3.CreateRevision(c.Key), c.Is, c.Number), nil
	case "version":
		return clientv3.Compare(clientv3.Version(c.Key), c.Is, c.Number), nil
	case "lease":
		return clientv3.Compare(clientv3.LeaseValue(c.Key), c.Is, c.Number), nil
	case "value":
		return clientv3.Compare(clientv3.Value(c.Key), c.Is, c.Value), nil
	}
	return clientv3.Cmp{}, fmt.Errorf("comparison of %q: there is no such target", c.Target)
}

func ops(requests []ringproof.Request) ([]clientv3.Op, error) {
	var made []clientv3.Op
	for _, r := range requests {
		op, err := op(r)
		if err != nil {
			return nil, err
		}
		made = append(made, op)
	}
	return made, nil
}

func op(r ringproof.Request) (clientv3.Op, error) {
	switch r.Kind {
	case ringproof.RequestGet, ringproof.RequestRange:
		return clientv3.OpGet(first(r), reading(r)...), nil
	case ringproof.RequestPut:
		return clientv3.OpPut(r.Key, r.Value, writing(r)...), nil
	case ringproof.RequestDelete:
		return clientv3.OpDelete(r.Key), nil
	case ringproof.RequestTxn:
		compares, then, otherwise, err := parts(r)
		return clientv3.OpTxn(compares, then, otherwise), err
	}
	return clientv3.Op{}, fmt.Errorf("request %q: no transaction can hold it", r.Kind)
}

// first is the key at which a read begins.
func first(r ringproof.Request) string {
	if r.From != "" {
		return r.From
	}
	return r.Key
}

func reading(r ringproof.Request) []clientv3.OpOption {
	var opts []clientv3.OpOption
	if r.Kind == ringproof.RequestRange {
		opts = append(opts, clientv3.WithRange(clientv3.GetPrefixRangeEnd(r.Key)))
	}
	if r.Serializable {
		opts = append(opts, clientv3.WithSerializable())
	}
	if r.Revision > 0 {
		opts = append(opts, clientv3.WithRev(r.Revision))
	}
	if r.Limit > 0 {
		opts = append(opts, clientv3.WithLimit(r.Limit))
	}
	return opts
}

func writing(r ringproof.Request) []clientv3.OpOption {
	if r.Lease == 0 {
		return nil
	}
	return []clientv3.OpOption{clientv3.WithLease(clientv3.LeaseID(r.Lease))}
}

func results(from []*etcdserverpb.ResponseOp) []ringproof.Response {
	var all []ringproof.Response
	for _, each := range from {
		var r ringproof.Response
		switch each := each.Response.(type) {
		case *etcdserverpb.ResponseOp_ResponseRange:
			r = header(each.ResponseRange.Header)
			r.KVs, r.More = KVs(each.ResponseRange.Kvs), each.ResponseRange.More
		case *etcdserverpb.ResponseOp_ResponsePut:
			r = header(each.ResponsePut.Header)
		case *etcdserverpb.ResponseOp_ResponseDeleteRange:
			r = header(each.ResponseDeleteRange.Header)
			r.Deleted = each.ResponseDeleteRange.Deleted
		case *etcdserverpb.ResponseOp_ResponseTxn:
			r = header(each.ResponseTxn.Header)
			r.Succeeded, r.Results = each.ResponseTxn.Succeeded, results(each.ResponseTxn.Responses)
		}
		all = append(all, r)
	}
	return all
}
