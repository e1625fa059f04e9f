// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package mvcc

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/pkg/v3/adt"
)

// MaxTxnOps is etcd's default of --max-txn-ops: how many comparisons, or
// operations in one branch, it takes in a transaction, those of the nested ones
// added.
const MaxTxnOps = 128

// CheckRange refuses what an etcd server refuses before it reads anything, with
// the gRPC errors of rpctypes; so do the other three before anything is
// proposed.
func CheckRange(req *pb.RangeRequest) error {
	if len(req.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	if pb.RangeRequest_SortOrder_name[int32(req.SortOrder)] == "" || pb.RangeRequest_SortTarget_name[int32(req.SortTarget)] == "" {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	return nil
}

// CheckPut refuses a put without a key, or with what it says to ignore.
func CheckPut(req *pb.PutRequest) error {
	switch {
	case len(req.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case req.IgnoreValue && len(req.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case req.IgnoreLease && req.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}

// CheckDelete refuses a deletion without a key.
func CheckDelete(req *pb.DeleteRangeRequest) error {
	if len(req.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

// CheckTxn refuses a transaction with more than most operations, with one that
// would be refused alone, or that changes a key twice.
func CheckTxn(req *pb.TxnRequest, most int) error {
	if err := checkTxn(req, most); err != nil {
		return err
	}
	if _, err := touchedBy(req.Success); err != nil {
		return err
	}
	_, err := touchedBy(req.Failure)
	return err
}

func checkTxn(req *pb.TxnRequest, most int) error {
	ops := max(len(req.Compare), len(req.Success), len(req.Failure))
	if ops > most {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range req.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, branch := range [][]*pb.RequestOp{req.Success, req.Failure} {
		for _, op := range branch {
			if err := checkOp(op, most-ops); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkOp(op *pb.RequestOp, most int) error {
	switch op := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return CheckRange(op.RequestRange)
	case *pb.RequestOp_RequestPut:
		return CheckPut(op.RequestPut)
	case *pb.RequestOp_RequestDeleteRange:
		return CheckDelete(op.RequestDeleteRange)
	case *pb.RequestOp_RequestTxn:
		return checkTxn(op.RequestTxn, most)
	}
	return rpctypes.ErrGRPCKeyNotFound // etcd's answer to an empty operation
}

// touched is what operations change. The intervals are in etcd's own tree, for
// its blind spots count: it never sees a deletion without an end, whose
// interval ends before it begins.
type touched struct {
	puts    map[string]bool
	deleted adt.IntervalTree // nil: none
}

// touchedBy collects in etcd's order, which lets through a put in one nested
// transaction that a later one deletes, but not the other way round.
func touchedBy(ops []*pb.RequestOp) (touched, error) {
	var t touched
	for _, op := range ops {
		if req := op.GetRequestDeleteRange(); req != nil {
			t.delete(req)
		}
	}
	for _, op := range ops {
		if req := op.GetRequestTxn(); req != nil {
			if err := t.nest(req); err != nil {
				return t, err
			}
		}
	}
	for _, op := range ops {
		if req := op.GetRequestPut(); req != nil {
			if err := t.put(string(req.Key), nil); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

func (t *touched) delete(req *pb.DeleteRangeRequest) {
	interval := adt.NewStringAffinePoint(string(req.Key))
	if len(req.RangeEnd) != 0 {
		interval = adt.NewStringAffineInterval(string(req.Key), string(req.RangeEnd))
	}
	t.intervals().Insert(interval, struct{}{})
}

func (t *touched) intervals() adt.IntervalTree {
	if t.deleted == nil {
		t.deleted = adt.NewIntervalTree()
	}
	return t.deleted
}

// put adds a key, which may be among others, those of the branch that is not
// taken when this one is.
func (t *touched) put(key string, others map[string]bool) error {
	if t.puts[key] && !others[key] || t.deleted != nil && t.deleted.Intersects(adt.NewStringAffinePoint(key)) {
		return rpctypes.ErrGRPCDuplicateKey
	}
	if t.puts == nil {
		t.puts = map[string]bool{}
	}
	t.puts[key] = true
	return nil
}

// nest adds what a nested transaction changes, either branch.
func (t *touched) nest(req *pb.TxnRequest) error {
	success, err := touchedBy(req.Success)
	if err != nil {
		return err
	}
	failure, err := touchedBy(req.Failure)
	if err != nil {
		return err
	}
	// order: any duplicate gives the same error
	for key := range success.puts {
		if err := t.put(key, nil); err != nil {
			return err
		}
	}
	// order: as above
	for key := range failure.puts {
		if err := t.put(key, success.puts); err != nil {
			return err
		}
	}
	for _, branch := range []touched{success, failure} {
		if branch.deleted != nil {
			t.intervals().Union(branch.deleted, adt.NewStringAffineInterval("\x00", ""))
		}
	}
	return nil
}
