// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package mvcc_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/tests/v3/framework/integration"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof/sim/etcd/mvcc"
)

// TestRefusesWhatAServerRefuses sends requests, most of them with faults, to a
// whole server, and wants the same refusals and the same answers from the
// checks and the store together. It catches a check that differs from what
// etcd's servers refuse before they propose anything.
func TestRefusesWhatAServerRefuses(t *testing.T) {
	integration.BeforeTestExternal(t)
	ring := integration.NewCluster(t, &integration.ClusterConfig{Size: 1})
	defer ring.Terminate(t)
	kv, sim, ctx := integration.ToGRPC(ring.Client(0)).KV, mvcc.New(), context.Background()
	rapid.Check(t, func(t *rapid.T) {
		put := faulty(puts().Draw(t, "put"), t)
		read := faulty(reads(sim.Revision()).Draw(t, "range"), t)
		deletion := faulty(deletions(true).Draw(t, "delete"), t)
		txn := faulty(txns(2).Draw(t, "txn"), t)

		want, err := kv.Put(ctx, put)
		got, simErr := checked(mvcc.CheckPut, sim.Put, put)
		answered(t, put, want, got, err, simErr)

		wantRange, err := kv.Range(ctx, read)
		gotRange, simErr := checked(mvcc.CheckRange, sim.Range, read)
		answered(t, read, wantRange, gotRange, err, simErr)

		wantDelete, err := kv.DeleteRange(ctx, deletion)
		gotDelete, simErr := checked(mvcc.CheckDelete, func(req *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
			return sim.DeleteRange(req), nil
		}, deletion)
		answered(t, deletion, wantDelete, gotDelete, err, simErr)

		wantTxn, err := kv.Txn(ctx, txn)
		gotTxn, simErr := checked(func(req *pb.TxnRequest) error { return mvcc.CheckTxn(req, mvcc.MaxTxnOps) }, sim.Txn, txn)
		answered(t, txn, wantTxn, gotTxn, err, simErr)
	})
}

func checked[Q, R any](check func(Q) error, do func(Q) (R, error), req Q) (R, error) {
	if err := check(req); err != nil {
		var none R
		return none, err
	}
	return do(req)
}

// faulty puts a fault into one request of three, and into its nested ones.
func faulty[M proto.Message](m M, t *rapid.T) M {
	switch req := any(m).(type) {
	case *pb.PutRequest:
		switch rapid.SampledFrom(faults).Draw(t, "fault") {
		case "no key":
			req.Key = nil
		case "value":
			req.IgnoreValue, req.Value = true, []byte("v")
		case "option":
			req.IgnoreLease, req.Lease = true, 1
		}
	case *pb.RangeRequest:
		switch rapid.SampledFrom(faults).Draw(t, "fault") {
		case "no key":
			req.Key = nil
		case "value":
			req.SortTarget = 5
		case "option":
			req.SortOrder = -1
		}
	case *pb.DeleteRangeRequest:
		if rapid.SampledFrom(faults).Draw(t, "fault") == "no key" {
			req.Key = nil
		}
	case *pb.TxnRequest:
		for _, branch := range [][]*pb.RequestOp{req.Success, req.Failure} {
			for _, op := range branch {
				faultyOp(op, t)
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "too many") == 1 {
			n := rapid.IntRange(120, 130).Draw(t, "many")
			req.Compare = slices.Repeat([]*pb.Compare{compares().Draw(t, "compare")}, n)
		}
	}
	return m
}

// faults are seldom: a transaction of many operations has to get by them all.
var faults = []string{"", "", "", "", "", "", "", "no key", "value", "option"}

func faultyOp(op *pb.RequestOp, t *rapid.T) {
	switch req := op.Request.(type) {
	case *pb.RequestOp_RequestPut:
		faulty(req.RequestPut, t)
	case *pb.RequestOp_RequestRange:
		faulty(req.RequestRange, t)
	case *pb.RequestOp_RequestDeleteRange:
		faulty(req.RequestDeleteRange, t)
	case *pb.RequestOp_RequestTxn:
		faulty(req.RequestTxn, t)
	}
	if rapid.IntRange(0, 30).Draw(t, "empty") == 3 {
		op.Request = nil
	}
}

// answered wants both to say the same, but for whose answer it is.
func answered(t *rapid.T, req, want, got proto.Message, wantErr, gotErr error) {
	t.Helper()
	wantStatus, gotStatus := status.Convert(wantErr), status.Convert(gotErr)
	require.Equal(t, []any{wantStatus.Code(), wantStatus.Message()}, []any{gotStatus.Code(), gotStatus.Message()}, "%v", req)
	if wantErr != nil {
		return
	}
	header := want.(interface{ GetHeader() *pb.ResponseHeader }).GetHeader()
	header.ClusterId, header.MemberId, header.RaftTerm = 0, 0, 0
	if !proto.Equal(want, got) {
		t.Fatalf("%v\netcd: %v\n sim: %v", req, want, got)
	}
}
